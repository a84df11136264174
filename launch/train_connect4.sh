#!/usr/bin/env bash
# SPDX-License-Identifier: AGPL-3.0-or-later
# Trains Connect Four (7 columns, 6 rows) with the published settings. Every option of `azcaffe train` overrides.
# Ctrl-C stops at a checkpoint; the same command goes on from there.
#
#   launch/train_connect4.sh [OPTION...]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/launch/run.sh"
"$root/launch/setup.sh"
train_or_resume connect4 --game=connectn --board_width=7 --board_height=6 --aligned_to_win=4 \
  --solver_file="$root/models/solver_connect_6_7_4.prototxt" --batch_size=512 --num_game=10000 --max_size_memory=10000 \
  --num_playouts=400 --c_puct=3.0 --alpha=0.3 --epsilon=0.25 --num_test=25 -- "$@"
