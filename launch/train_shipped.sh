#!/usr/bin/env bash
# SPDX-License-Identifier: AGPL-3.0-or-later
# Trains a net of models/ as it was trained: the commands behind models/REPORT.md. Every option of `azcaffe train` overrides.
# Ctrl-C stops at a checkpoint; the same command goes on from there.
#
#   launch/train_shipped.sh NET [OPTION...]
#     tictactoe     6x6, four in a row, 2 blocks: beats the published net
#     1-block       the same board, 1 block
#     batch-norm    the same board, 1 block with batch norm
#     connect4      7 columns, 6 rows, 2 blocks
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/launch/run.sh"

tictactoe=(--game=tictactoe --board_size=6 --connect=4)
connect4=(--game=connectn --board_width=7 --board_height=6 --connect=4)
case ${1:-} in
  tictactoe)
    rules=("${tictactoe[@]}") net=net_tic_tac_6_4_2_res_block blocks=(--blocks=2)
    own=(--num_game=12000 --steps_per_game=1.25 --opening_plies=2 --seed=21) ;;
  1-block)
    rules=("${tictactoe[@]}") net=net_tic_tac_6_4_1_res_block blocks=(--blocks=1)
    own=(--num_game=6000 --steps_per_game=2.5 --opening_plies=2 --seed=23) ;;
  batch-norm)
    rules=("${tictactoe[@]}") net=net_tic_tac_6_4_batch_norm blocks=(--blocks=1 --batch-norm)
    own=(--num_game=6000 --steps_per_game=2.5 --opening_plies=2 --seed=24) ;;
  connect4)
    rules=("${connect4[@]}") net=net_connect_6_7_4_2_res_block blocks=(--blocks=2)
    own=(--num_game=8000 --steps_per_game=1.5 --opening_plies=12 --seed=22) ;;
  *)
    echo "usage: launch/train_shipped.sh tictactoe|1-block|batch-norm|connect4 [OPTION...]" >&2
    exit 2 ;;
esac
name=$1
shift
"$root/launch/setup.sh"
# The shipped prototxts have the published first weights, which learn nothing for thousands of steps; `msra` starts at once.
made=${AZCAFFE_RUNS:-$root/runs}/nets/$net.prototxt
mkdir -p "${made%/*}"
[ -f "$made" ] || "$root/.venv/bin/azcaffe" make-net "${rules[@]}" "${blocks[@]}" --filler=msra --output "$made" > /dev/null
train_or_resume "shipped_$name" "${rules[@]}" --model="$made" --solver_file="$root/models/solver_adam.prototxt" \
  --games=256 --lockstep=128 --batch_size=128 --max_size_memory=40000 --num_playouts=200 --full_probability=0.35 --fast_simulations=40 \
  --c_puct=2 --fpu_reduction=0.2 --temperature_plies=6 --value_mix=0.5 --num_test=8 --num_test_previous=0 \
  "${own[@]}" -- "$@"
