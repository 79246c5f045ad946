#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the Debian packages and a wheel, asks lintian, unpacks them, and runs what is in them.
#   packages_test.sh SOURCE_DIR BUILD_DIR
set -euo pipefail
source_dir=$1 build_dir=$2
work=$build_dir/packages-test
model=$source_dir/models/demo
python=${SLIP_PYTHON_EXECUTABLE:-/usr/bin/python3}
fail() { printf 'packages_test: %s\n' "$*" >&2; exit 1; }
command -v dpkg-shlibdeps >/dev/null || { echo 'packages_test: skipped: no dpkg-dev here'; exit 77; }
rm -rf "$work" "$build_dir/packages"
mkdir -p "$work"

(cd "$build_dir" && cpack >"$work/cpack.log" 2>&1) || fail "cpack: $(tail -20 "$work/cpack.log")"
names=$(for deb in "$build_dir"/packages/*.deb; do dpkg-deb -f "$deb" Package; done | sort | tr '\n' ' ')
[[ "$names" == 'libslipstream-dev libslipstream0 python3-slipstream slipstream ' ]] || fail "expected four packages, got $names"
for deb in "$build_dir"/packages/*.deb; do dpkg-deb -x "$deb" "$work/root"; done
dpkg-deb -f "$build_dir"/packages/libslipstream0_*.deb Depends | grep -q 'libc6 (>= ' || fail 'expected dependencies by shlibdeps'
if command -v lintian >/dev/null; then
  lintian --allow-root --fail-on error,warning --tag-display-limit 0 "$build_dir"/packages/*.deb || fail 'lintian has objections'
else
  echo 'packages_test: lintian is not installed, so nobody asked it' >&2
fi

libraries=$(dirname "$(find "$work/root" -name libslipstream.so)")
"$work/root/usr/bin/slipstream" verify --model "$model" >/dev/null
hello=$(LD_LIBRARY_PATH=$libraries PYTHONPATH=$work/root/usr/lib/python3/dist-packages "$python" "$source_dir/examples/hello.py" "$model")
grep -q '^plan, m: (' <<<"$hello" || fail "hello.py of the packages: got $hello"

if "$python" -c 'import build, wheel' 2>/dev/null; then
  cp -r "$source_dir/python" "$work/python" # setuptools leaves folders beside the sources
  (cd "$work/python" && SLIPSTREAM_BUILD=$build_dir "$python" -m build --no-isolation --wheel --outdir "$work/wheel" >"$work/wheel.log" 2>&1) ||
    fail "wheel: $(tail -20 "$work/wheel.log")"
  "$python" -m zipfile -e "$work"/wheel/slipstream-*-cp3*-linux_*.whl "$work/unpacked"
  hello=$(PYTHONPATH=$work/unpacked "$python" "$source_dir/examples/hello.py" "$model")
  grep -q '^plan, m: (' <<<"$hello" || fail "hello.py of the wheel: got $hello"
fi
echo 'packages_test: the packages work'
