# SPDX-License-Identifier: AGPL-3.0-or-later
# shellcheck shell=bash
# Sourced by docker/build_caffe.sh and launch/setup.sh: messages, Debian packages, the cache folder, locks.

say()  { printf '%s\n' "$*" >&2; }
step() { printf '==> %s\n' "$*" >&2; }
fail() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 2; }

cache_folder() { printf '%s/azcaffe\n' "${XDG_CACHE_HOME:-$HOME/.cache}"; }

# missing_packages NAME... -> those of them that dpkg does not have installed
missing_packages() {
  local name
  for name in "$@"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null)" = installed ] || printf '%s\n' "$name"
  done
}

# need_packages WHY NAME... : install what is missing, as root or through sudo
# shellcheck disable=SC2086  # $missing is a list of words
need_packages() {
  local why=$1 missing as_root=() log; shift
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    fail "$why needs Debian packages and this machine has no apt-get: use Debian 12, or the Docker image (docker/Dockerfile), or conda-forge's caffe (README)"
  fi
  missing=$(missing_packages "$@")
  [ -n "$missing" ] || return 0
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null ||
      fail "$why needs Debian packages, and this is neither root nor is there sudo: have an administrator run: apt-get install" $missing
    as_root=(sudo env)
  else
    as_root=(env)
  fi
  step "Debian packages for $why:" $missing
  log=$(mktemp)
  "${as_root[@]}" apt-get update >"$log" 2>&1 </dev/null || true    # a broken third-party source need not matter
  if ! "${as_root[@]}" DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing >>"$log" 2>&1 </dev/null; then
    tail -n 15 "$log" >&2; rm -f "$log"
    fail "apt-get could not install the packages for $why (its last words are above): check the network and the machine's package sources, then run this again"
  fi
  rm -f "$log"
}

# hold_lock FILE WHAT : wait for the lock, saying so; it is held on descriptor 9 until this process ends
hold_lock() {
  if ! mkdir -p "$(dirname "$1")" 2>/dev/null || ! { exec 9>"$1"; } 2>/dev/null; then
    fail "cannot write to $(dirname "$1"): set XDG_CACHE_HOME to a folder that you may write to"
  fi
  flock -n 9 || { say "another run is busy with $2; waiting for it to end"; flock 9; }
}
