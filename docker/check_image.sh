#!/usr/bin/env bash
# SPDX-License-Identifier: AGPL-3.0-or-later
# Run inside the image by .ci/run, in one container: is it fit, does it train, does what it trained play, does it stop
# when it is told to, and do its tests pass.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
run=/data/check

[ "$(id -u)" != 0 ] || { echo "check_image.sh: the image runs as root" >&2; exit 1; }
! command -v g++ >/dev/null || { echo "check_image.sh: compilers are in the image" >&2; exit 1; }
docker/entrypoint.sh | grep -q '^usage: azcaffe' || { echo "check_image.sh: the entry point prints no help" >&2; exit 1; }
docker/entrypoint.sh doctor

# two minutes of training, ended as `docker stop` does it: SIGTERM, a checkpoint, exit code 0 within 10 seconds
launch/train_tictactoe.sh --quick --output_dir "$run" &
trainer=$!
for _ in $(seq "${TRAIN_SECONDS:-120}"); do sleep 1; kill -0 "$trainer" 2>/dev/null || break; done
if kill -TERM "$trainer" 2>/dev/null; then
  stopping=$SECONDS
  wait "$trainer" || { echo "check_image.sh: training ended with code $? after SIGTERM" >&2; exit 1; }
  [ $((SECONDS - stopping)) -le 10 ] || { echo "check_image.sh: $((SECONDS - stopping)) s to stop" >&2; exit 1; }
else
  wait "$trainer"
fi
weights=$(find "$run" -name '*.caffemodel' -printf '%T@ %p\n' | sort -n | tail -n 1 | cut -d ' ' -f 2-)
[ -n "$weights" ] || { echo "check_image.sh: training left no weights in $run" >&2; exit 1; }
launch/test_tictactoe.sh --board_size=3 --aligned_to_win=3 --model_file="$(find "$run" -maxdepth 1 -name '*.prototxt' -not -name 'solver*')" \
  --trained_weights="$weights" --test_mode=Random --num_test=20 --num_playouts=25

launch/test.sh "$@"
