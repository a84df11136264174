#!/usr/bin/env bash
# SPDX-License-Identifier: AGPL-3.0-or-later
# Trains tic-tac-toe with the published settings: 6x6, four in a row, 10,000 games. Every option of `azcaffe train` overrides.
# Ctrl-C stops at a checkpoint; the same command goes on from there.
#
#   launch/train_tictactoe.sh [OPTION...]
#   launch/train_tictactoe.sh --quick        3x3 to perfect play in minutes
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/launch/run.sh"
"$root/launch/setup.sh"
if mentions quick "$@"; then train_or_resume tictactoe_3x3_quick -- "$@"; fi
train_or_resume tictactoe_6x6 --game=tictactoe --board_size=6 --aligned_to_win=4 \
  --solver_file="$root/models/solver_tic_tac_6_4.prototxt" --batch_size=128 --num_game=10000 --max_size_memory=10000 \
  --num_playouts=400 --c_puct=3.0 --alpha=0.3 --epsilon=0.25 --num_test=25 -- "$@"
