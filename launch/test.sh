#!/usr/bin/env bash
# SPDX-License-Identifier: AGPL-3.0-or-later
# Sets up if needed, then ruff, mypy and the whole test suite.
#
#   launch/test.sh [PYTEST ARGUMENT...]        e.g.  launch/test.sh -m "not slow" tests/search
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
"$root/launch/setup.sh" --dev
cd "$root"
python=.venv/bin/python
failed=

# lint TOOL ARG... : a tool that this machine does not have (Debian packages no ruff) is left out, and said so
lint() {
  if ! "$python" -c "import $1" 2>/dev/null; then echo "$1 is not installed here: left out" >&2; return; fi
  "$python" -m "$@" >&2 || failed="$failed $1"
}
lint ruff check --config launch/ruff.toml azcaffe tests setup.py docker
lint mypy --config-file launch/mypy.ini azcaffe

paths=tests
for word in "$@"; do [[ ${word%%::*} != -* && -e ${word%%::*} ]] && paths=; done
"$python" -m pytest -c tests/pytest.ini $paths "$@" || failed="$failed pytest"
[ -z "$failed" ] || { echo "test.sh: not passed:$failed" >&2; exit 1; }
