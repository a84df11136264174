#!/usr/bin/env bash
# SPDX-License-Identifier: AGPL-3.0-or-later
# Builds CPU Caffe (pycaffe) into a wheel, once; prints the wheel's path on stdout, all else goes to stderr.
#
#   docker/build_caffe.sh               the wheel from the cache, or built if it is not there
#
# PYTHON         interpreter to build for (default /usr/bin/python3); NumPy must be installed for it
# CAFFE_SOURCE   folder with a Caffe 1.0 source tree to use instead of Debian's source package; it is copied, not changed
# XDG_CACHE_HOME parent of the cache folder (default ~/.cache)
#
# Beside the wheel lies FILE.packages: the Debian packages it needs at run time, one a line.
# A wheel is put in place by one rename at the very end, under a lock: an interrupted build leaves nothing that is used.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/common.sh"

python=${PYTHON:-/usr/bin/python3}
suite=bullseye    # the last Debian release that shipped Caffe's source
build_packages=(g++ cmake ninja-build dpkg-dev patch xz-utils binutils python3-dev libboost-dev libboost-filesystem-dev
  libboost-system-dev libboost-thread-dev libboost-python-dev libgoogle-glog-dev libgflags-dev libhdf5-dev
  libprotobuf-dev protobuf-compiler libopenblas-pthread-dev)
cmake_options=(-DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS=-w -DBUILD_SHARED_LIBS=OFF -DCPU_ONLY=ON -DUSE_OPENCV=OFF
  -DUSE_LEVELDB=OFF -DUSE_LMDB=OFF -DBUILD_docs=OFF -DBLAS=Open -DBUILD_python=ON -Dpython_version=3)
# Several files a compiler run: a third of the time, most of which goes into reading headers. Known to work for Debian's tree only.
[ -n "${CAFFE_SOURCE:-}" ] || cmake_options+=(-DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=12)

patches=()        # our changes to Caffe, each says what it is for
for patch in "$here"/patches/*.patch; do [ ! -f "$patch" ] || patches+=("$patch"); done

# ask_python EXPRESSION : its value in the interpreter we build for
ask_python() { "$python" -c "import sys, sysconfig; print($1)"; }

# source_id : what stands for the source in the wheel's key
source_id() {
  if [ -n "${CAFFE_SOURCE:-}" ]; then
    [ -f "$CAFFE_SOURCE/src/caffe/proto/caffe.proto" ] ||
      fail "CAFFE_SOURCE=$CAFFE_SOURCE holds no Caffe source tree (there is no src/caffe/proto/caffe.proto in it)"
    (cd "$CAFFE_SOURCE" && find cmake include python src CMakeLists.txt -type f -not -name '*.pyc' -print0 | LC_ALL=C sort -z | xargs -0 sha256sum)
  else
    echo "$suite"
  fi
}

# machine_id : wheels are linked to this release's libraries
machine_id() { (. /etc/os-release 2>/dev/null && echo "${ID:-linux}${VERSION_ID:-}") || echo linux; }

# fetch_source FOLDER : Debian's source package, its signature checked by apt, from the mirror this machine is set up with
fetch_source() {
  local folder=$1 keyring=/usr/share/keyrings/debian-archive-keyring.gpg codename mirrors mirror options
  codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
  [ -f "$keyring" ] || need_packages "checking the signature of Caffe's source" debian-archive-keyring
  # shellcheck disable=SC2016  # apt-get fills these in
  mirrors=$(apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' 'Identifier: Packages' |
    awk -v release="$codename" '$1 == release && $2 == "main" && !seen[$3]++ { print $3 }')
  [ -n "$mirrors" ] || fail "the machine's package sources name no mirror for ${codename:-its release}, main: add one, or set CAFFE_SOURCE to a Caffe 1.0 source tree"
  mkdir -p "$folder"/{lists,archives}/partial
  for mirror in $mirrors; do
    printf 'deb-src [signed-by=%s] %s %s main\n' "$keyring" "$mirror" "$suite" >"$folder/sources.list"
    options=(-o "Dir::Etc::SourceList=$folder/sources.list" -o Dir::Etc::SourceParts=/dev/null -o "Dir::State::Lists=$folder/lists"
      -o "Dir::Cache=$folder" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o "APT::Sandbox::User=$(id -un)")
    if (cd "$folder" && apt-get "${options[@]}" -o APT::Update::Error-Mode=any update && apt-get "${options[@]}" source caffe) >>"$folder/log" 2>&1; then
      mv "$folder"/caffe-1.0* "$folder/tree"
      return
    fi
  done
  tail -n 5 "$folder/log" >&2
  fail "Caffe's source package (suite $suite) could not be had from the machine's mirror: check the network, or set CAFFE_SOURCE to a Caffe 1.0 source tree"
}

# show_progress LOG : ninja's output into LOG, and "[n/N]" as it goes (a line every tenth part where it is no terminal)
show_progress() {
  local line last=-1 number total
  while IFS= read -r line; do
    printf '%s\n' "$line" >>"$1"
    [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]] || continue
    number=${BASH_REMATCH[1]} total=${BASH_REMATCH[2]}
    if [ -t 2 ]; then printf '\r    compiling %s/%s ' "$number" "$total" >&2
    elif [ $((number * 10 / total)) != $last ]; then last=$((number * 10 / total)); say "    compiling $number/$total"; fi
  done
  [ ! -t 2 ] || printf '\n' >&2
}

# compile TREE WORK : pycaffe into TREE/python/caffe
compile() {
  local tree=$1 work=$2 log=$2/build.log
  # Debian's NumPy puts its headers among Python's own; this folder makes sure that those of $python's NumPy are taken
  mkdir "$work/include"
  ln -s "$(ask_python 'sysconfig.get_path("include")')"/* "$work/include/"
  rm -f "$work/include/numpy"
  # today's protobuf takes one argument here
  sed -i 's/SetTotalBytesLimit(kProtoReadBytesLimit, *[0-9]*)/SetTotalBytesLimit(kProtoReadBytesLimit)/' "$tree/src/caffe/util/io.cpp"
  local patch
  for patch in "${patches[@]}"; do
    step "applying $(basename "$patch")"
    patch -d "$tree" -p1 --no-backup-if-mismatch -s <"$patch" >"$log" 2>&1 ||
      fail "$(basename "$patch") does not fit this Caffe source: $(tail -n 1 "$log")"
  done
  # PYTHON_LIBRARY=-lm: an extension takes Python's symbols from the interpreter that loads it, a second libpython has no place in it
  { cmake -G Ninja -S "$tree" -B "$work/build" "${cmake_options[@]}" -DPYTHON_EXECUTABLE="$python" -DPYTHON_LIBRARY:STRING=-lm \
      -DPYTHON_INCLUDE_DIR="$work/include" -DNUMPY_INCLUDE_DIR="$(ask_python '__import__("numpy").get_include()')" >"$log" 2>&1 &&
    ninja -C "$work/build" ${JOBS:+-j "$JOBS"} pycaffe 2>&1 | show_progress "$log"; } ||
    { grep -A 5 -m 3 -iE 'error' "$log" >&2 || tail -n 20 "$log" >&2
      cp "$log" "$cache/failed-build.log"; fail "Caffe did not compile (its last words are above; the whole log is $cache/failed-build.log)"; }
  cp --remove-destination "$work/build/lib/_caffe.so" "$tree/python/caffe/_caffe.so"
  strip --strip-unneeded "$tree/python/caffe/_caffe.so"
}

# runtime_packages LIBRARY : the Debian packages of the shared libraries that it names itself
runtime_packages() {
  local needed path
  needed=$(objdump -p "$1" | awk '$1 == "NEEDED" { print $2 }')
  ldd "$1" | awk '$2 == "=>" { print $1, $3 }' | while read -r name path; do
    grep -qxF "$name" <<<"$needed" || continue
    path=$(realpath "$path")
    { dpkg-query -S "$path" 2>/dev/null || dpkg-query -S "${path#/usr}" 2>/dev/null || true; } | sed 's/:.*//'
  done | sort -u
}

command -v "$python" >/dev/null || fail "there is no Python at $python: install python3, or set PYTHON to the interpreter to build for"
numpy_major=$(ask_python '__import__("numpy").__version__.split(".")[0]' 2>/dev/null) ||
  fail "$python has no NumPy: install it for that interpreter first (launch/setup.sh does)"
version=$(ask_python '"%d%d" % sys.version_info[:2]')
source=$(source_id)
key=$(cat "${BASH_SOURCE[0]}" "$here/pack_wheel.py" "${patches[@]}" - <<<"$source $(machine_id) numpy$numpy_major" | sha256sum | cut -c 1-12)
cache=$(cache_folder)
wheel=$cache/caffe-1.0.0+cpu.$key-cp$version-cp$version-linux_$(uname -m).whl

finish() {
  # shellcheck disable=SC2046
  [ ! -s "$wheel.packages" ] || need_packages "running Caffe" $(cat "$wheel.packages")
  printf '%s\n' "$wheel"
  exit 0
}

[ ! -f "$wheel" ] || finish
hold_lock "$cache/$key.lock" "building Caffe"
[ ! -f "$wheel" ] || finish                  # whoever held the lock has built it

need_packages "building Caffe" "${build_packages[@]}"
[ -f "$(ask_python 'sysconfig.get_path("include")')/Python.h" ] ||
  fail "the C headers of $python are missing: install python3-dev, or set PYTHON=/usr/bin/python3"
compgen -G "/usr/lib/*/libboost_python$version*.so" >/dev/null ||
  fail "Boost.Python on this machine is not for Python 3.${version#3} ($python): set PYTHON to a Python $(printf '%s\n' /usr/lib/*/libboost_python3*.so | sed 's/.*_python3\([0-9]*\).*/3.\1/' | sort -u | xargs)"

rm -rf "$cache/build-$key".*                 # what a killed build left; the lock says that none is running
work=$(mktemp -d "$cache/build-$key.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
if [ -n "${CAFFE_SOURCE:-}" ]; then
  step "copying Caffe's source from $CAFFE_SOURCE"
  mkdir "$work/tree" && (cd "$CAFFE_SOURCE" && tar -c --exclude=.git --exclude=./build .) | tar -x -C "$work/tree"
  tree=$work/tree
else
  step "fetching Caffe's source package"
  fetch_source "$work/source"
  tree=$work/source/tree
fi
step "building Caffe for Python 3.${version#3} (about two minutes on two cores)"
compile "$tree" "$work"
"$python" "$here/pack_wheel.py" "$tree" "$work/$(basename "$wheel")" --numpy-major "$numpy_major"
runtime_packages "$tree/python/caffe/_caffe.so" >"$work/packages"
mv "$work/packages" "$wheel.packages"
mv "$work/$(basename "$wheel")" "$wheel"
step "Caffe is built: $wheel"
finish
