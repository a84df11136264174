# SPDX-License-Identifier: AGPL-3.0-or-later
# shellcheck shell=bash
# Sourced by the training scripts of launch/; they set `root`.

step() { printf '==> %s\n' "$*" >&2; }

# mentions NAME ARG... : one of the arguments is the option --NAME, however it is written
mentions() {
  local name=$1 word; shift
  for word in "$@"; do
    word=${word%%=*}
    [ "${word//_/-}" != "--$name" ] || return 0
  done
  return 1
}

# train_or_resume RUN DEFAULT... -- ARG... : train into the folder RUN of runs/ (AZCAFFE_RUNS), or go on there if it holds a run
train_or_resume() {
  local folder=${AZCAFFE_RUNS:-$root/runs}/$1 defaults=(); shift
  while [ "$1" != -- ]; do defaults+=("$1"); shift; done
  shift
  if mentions output-dir "$@" || mentions resume "$@" || mentions help "$@" || mentions help-all "$@"; then
    mentions resume "$@" && defaults=()
  elif [ -f "$folder/config.json" ]; then
    step "going on with the run in $folder (a fresh one: another --output_dir, or remove that folder)"
    defaults=(--resume "$folder")
  else
    defaults+=(--output_dir "$folder")
  fi
  exec "$root/.venv/bin/azcaffe" train "${defaults[@]}" "$@"
}
