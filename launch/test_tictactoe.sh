#!/usr/bin/env bash
# SPDX-License-Identifier: AGPL-3.0-or-later
# Evaluates a net on 6x6, four in a row: 100 games against roll-out MCTS, as published. Every option of `azcaffe test`
# overrides. Without --trained_weights the net that models/ ships is taken.
#
#   launch/test_tictactoe.sh [--trained_weights=FILE.caffemodel] [OPTION...]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
"$root/launch/setup.sh"
exec "$root/.venv/bin/azcaffe" test --game=tictactoe --board_size=6 --aligned_to_win=4 --test_mode=MCTS \
  --num_test=100 --num_playouts=400 --c_puct=3.0 --opponent_playouts=1000 "$@"
