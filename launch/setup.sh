#!/usr/bin/env bash
# SPDX-License-Identifier: AGPL-3.0-or-later
# Sets azcaffe up in this checkout: Debian packages, CPU Caffe (docker/build_caffe.sh), the Python environment .venv.
# What is there already is kept, so a second run takes no time; an interrupted run is simply started again.
#
#   launch/setup.sh [--dev] [--system-packages]
#
# --dev              also what launch/test.sh needs (pytest, hypothesis, ruff, mypy; a browser for tests of the page)
# --system-packages  take Python packages from Debian instead of PyPI (as the Docker image does)
#
# PYTHON         interpreter to use (default /usr/bin/python3); Debian's Boost.Python must be for the same version
# CAFFE_SOURCE, XDG_CACHE_HOME: see docker/build_caffe.sh
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/docker/common.sh"

dev="" system=""
for word in "$@"; do
  case $word in
    --dev) dev=1 ;;
    --system-packages) system=1 ;;
    -h | --help) sed -n '3,13p' "${BASH_SOURCE[0]}" | sed 's/^# \{0,1\}//'; exit 0 ;;
    *) fail "unknown option $word (there are --dev and --system-packages)" ;;
  esac
done

venv=$root/.venv
stamp=$venv/azcaffe-setup
python=${PYTHON:-/usr/bin/python3}
id=$(cd "$root" && { cat setup.py launch/setup.sh docker/build_caffe.sh docker/pack_wheel.py docker/patches/*.patch 2>/dev/null; echo "$root $python ${CAFFE_SOURCE:-}"; } | sha256sum | cut -c 1-16)

# is_ready : an earlier run with the same recipe came to its end; the stamp is the last thing it wrote
is_ready() {
  [ -x "$venv/bin/python" ] && [ -x "$venv/bin/azcaffe" ] && grep -qxF "$id base" "$stamp" 2>/dev/null &&
    { [ -z "$dev" ] || grep -qxF "$id dev" "$stamp"; }
}

is_ready && exit 0
hold_lock "$(cache_folder)/setup-$(printf %s "$root" | sha256sum | cut -c 1-12).lock" "setting up $root"
is_ready && exit 0
started=$SECONDS

# pip_install WHAT ARG... : quiet, its last words where it fails
pip_install() {
  local what=$1 log; shift
  step "Python packages: $what"
  log=$(mktemp)
  if ! "$venv/bin/python" -m pip install --disable-pip-version-check --no-input "$@" >"$log" 2>&1 </dev/null; then
    grep -i error "$log" | tail -n 5 >&2; rm -f "$log"
    fail "pip could not install $what (its last words are above): check the network, or take Debian's packages with launch/setup.sh --system-packages"
  fi
  rm -f "$log"
}

# --- Python
if [ -z "${PYTHON:-}" ]; then
  "$python" -c 'import venv, ensurepip' 2>/dev/null || need_packages "Python environments" python3 python3-venv
fi
command -v "$python" >/dev/null || fail "there is no Python at $python: unset PYTHON to use Debian's, or name one that exists"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
  fail "$python is Python $("$python" -c 'import platform; print(platform.python_version())'): azcaffe needs 3.10 or newer, set PYTHON to one"
if [ -n "$system" ] || grep -qs 'include-system-site-packages = true' "$venv/pyvenv.cfg"; then
  system=1
  need_packages "Python" python3 python3-venv python3-setuptools python3-wheel python3-numpy python3-protobuf python3-six
fi
wanted=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
if [ -e "$venv" ] && [ "$("$venv/bin/python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)" != "$wanted" ]; then
  say "$venv is not a working environment of Python $wanted: making it anew"
  rm -rf "$venv"
fi
rm -f "$stamp"
step "Python environment $venv"
"$python" -m venv ${system:+--system-site-packages} "$venv" || fail "$python cannot make environments: install its venv module (Debian: python3-venv)"

# --- what azcaffe and pycaffe import
if [ -n "$system" ]; then
  offline=(--no-index --no-deps --no-build-isolation)
else
  offline=(--no-deps --no-build-isolation)
  pip_install "numpy protobuf scikit-image matplotlib fastapi uvicorn" \
    wheel numpy 'protobuf>=4.21,<4.22' scikit-image six matplotlib 'fastapi>=0.115' 'pydantic>=2' uvicorn
fi

# --- Caffe
wheel=$(PYTHON=$venv/bin/python "$root/docker/build_caffe.sh")
pip_install "Caffe" "${offline[@]}" --force-reinstall "$wheel"

# --- azcaffe
pip_install "azcaffe" "${offline[@]}" -e "$root"
"$venv/bin/azcaffe" doctor >&2 || fail "the set-up is complete but something in it is unfit (see above)"
echo "$id base" >"$stamp"

if [ -n "$dev" ]; then
  if [ -n "$system" ]; then
    need_packages "the tests" python3-pytest python3-hypothesis
  else
    pip_install "pytest hypothesis ruff mypy" pytest hypothesis ruff mypy types-protobuf schemathesis selenium
    (pip_install "open_spiel" open_spiel) || say "without open_spiel the tests of its games are skipped"
    (pip_install "Ray" 'ray>=2.40') || say "without Ray the tests of a cluster are skipped"
    (pip_install "bitbully" bitbully) || say "without bitbully the tests of the perfect solver are skipped"
    (need_packages "tests of the page" chromium chromium-driver) || say "without a browser the tests of the page are skipped"
  fi
  echo "$id dev" >>"$stamp"
fi
step "azcaffe is set up in $((SECONDS - started)) s: $venv/bin/azcaffe"
