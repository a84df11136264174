#!/usr/bin/env bash
# SPDX-License-Identifier: AGPL-3.0-or-later
# Trains a net of models/ as it was trained: the commands behind models/REPORT.md. Every option of `azcaffe train` overrides.
# Ctrl-C stops at a checkpoint; the same command goes on from there.
#
#   launch/train_shipped.sh NET [OPTION...]
#     tictactoe     6x6, four in a row, 2 blocks: beats the published net
#     tictactoe-fast
#                   the same at a higher rate: past the published net soonest
#     1-block       the same board, 1 block
#     batch-norm    the same board, 1 block with batch norm
#     connect4      7 columns, 6 rows, 2 blocks
#     tictactoe-more, connect4-more
#                   go on from what tictactoe and connect4 ended with, on fresher games: the nets that models/ ships
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/launch/run.sh"

tictactoe=(--game=tictactoe --board_size=6 --connect=4)
connect4=(--game=connectn --board_width=7 --board_height=6 --connect=4)
before= # the run that this one goes on from
case ${1:-} in
  tictactoe)
    rules=("${tictactoe[@]}") net=net_tic_tac_6_4_2_res_block blocks=(--blocks=2)
    own=(--num_game=12000 --steps_per_game=1.25 --opening_plies=2 --seed=21) ;;
  tictactoe-more)
    rules=("${tictactoe[@]}") net=net_tic_tac_6_4_2_res_block blocks=(--blocks=2) before=shipped_tictactoe
    own=(--num_game=7296 --steps_per_game=1.5 --opening_plies=2 --seed=42 --max_size_memory=10000)
    own+=(--num_playouts=300 --fast_simulations=50 --solver_file="$root/models/solver_adam_more.prototxt") ;;
  tictactoe-fast)
    rules=("${tictactoe[@]}") net=net_tic_tac_6_4_2_res_block blocks=(--blocks=2)
    own=(--num_game=9216 --steps_per_game=2 --opening_plies=2 --seed=51 --max_size_memory=10000)
    own+=(--solver_file="$root/models/solver_adam_fast.prototxt") ;;
  1-block)
    rules=("${tictactoe[@]}") net=net_tic_tac_6_4_1_res_block blocks=(--blocks=1)
    own=(--num_game=6000 --steps_per_game=2.5 --opening_plies=2 --seed=23) ;;
  batch-norm)
    rules=("${tictactoe[@]}") net=net_tic_tac_6_4_batch_norm blocks=(--blocks=1 --batch-norm)
    own=(--num_game=6000 --steps_per_game=2.5 --opening_plies=2 --seed=24) ;;
  connect4)
    rules=("${connect4[@]}") net=net_connect_6_7_4_2_res_block blocks=(--blocks=2)
    own=(--num_game=8000 --steps_per_game=1.5 --opening_plies=12 --seed=22) ;;
  connect4-more)
    rules=("${connect4[@]}") net=net_connect_6_7_4_2_res_block blocks=(--blocks=2) before=shipped_connect4
    own=(--num_game=6401 --steps_per_game=1.5 --opening_plies=8 --seed=32 --max_size_memory=16000)
    own+=(--solver_file="$root/models/solver_adam_more_connect4.prototxt") ;;
  *)
    echo "usage: launch/train_shipped.sh tictactoe|1-block|batch-norm|connect4|tictactoe-fast|tictactoe-more|connect4-more [OPTION...]" >&2
    exit 2 ;;
esac
name=$1
shift
runs=${AZCAFFE_RUNS:-$root/runs}
if [ -n "$before" ]; then
  first=$(ls -v "$runs/$before/weights/$net"_iter_*.caffemodel 2> /dev/null | tail -n 1 || true)
  if [ -z "$first" ]; then
    echo "train_shipped.sh: no weights in $runs/$before/weights; first: bash launch/train_shipped.sh ${before#shipped_}" >&2
    exit 2
  fi
  own+=(--init_weights="$first")
fi
"$root/launch/setup.sh"
# The shipped prototxts have the published first weights, which learn nothing for thousands of steps; `msra` starts at once.
made=$runs/nets/$net.prototxt
mkdir -p "${made%/*}"
[ -f "$made" ] || "$root/.venv/bin/azcaffe" make-net "${rules[@]}" "${blocks[@]}" --filler=msra --output "$made" > /dev/null
train_or_resume "shipped_$name" "${rules[@]}" --model="$made" --solver_file="$root/models/solver_adam.prototxt" \
  --games=256 --lockstep=128 --batch_size=128 --max_size_memory=40000 --num_playouts=200 --full_probability=0.35 --fast_simulations=40 \
  --c_puct=2 --fpu_reduction=0.2 --temperature_plies=6 --value_mix=0.5 --num_test=8 --num_test_previous=0 \
  "${own[@]}" -- "$@"
