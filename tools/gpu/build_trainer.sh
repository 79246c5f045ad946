#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the trainer of a pack (pack_trainer.sh) against the torch of this machine: compiles the few files that include torch, at once, and
# links them with what was packed. The program is built/slipstream-train in the pack's folder. One that is there for the same torch stays.
#   build_trainer.sh     TORCH_INCLUDE and TORCH_LIB: in place of what python3 says; CXX: g++; JOBS: all processors
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here"
refuse() { echo "build_trainer: $*" >&2; exit 1; }
seconds() { echo "$(($(date +%s%N) - $1))" | awk '{ printf "%.1f s", $1 / 1e9 }'; }
began=$(date +%s%N)
if [[ -z "${TORCH_INCLUDE:-}" || -z "${TORCH_LIB:-}" ]]; then
  # Without importing it, which takes seconds.
  torch=$(python3 -c 'import importlib.util as u; print(u.find_spec("torch").submodule_search_locations[0])' 2>/dev/null) ||
    refuse "expected python3 to have torch, or TORCH_INCLUDE and TORCH_LIB, got neither"
fi
include=${TORCH_INCLUDE:-$torch/include} lib=${TORCH_LIB:-$torch/lib}
[[ -f "$include/ATen/ATen.h" ]] || refuse "expected torch's headers in $include, got no ATen/ATen.h"
for name in libtorch_cpu.so libc10.so; do [[ -f "$lib/$name" ]] || refuse "expected torch's libraries in $lib, got no $name"; done
command -v "${CXX:-g++}" >/dev/null || refuse "expected a compiler, got no ${CXX:-g++}"

identity=$(echo "$include $lib"; "${CXX:-g++}" -dumpfullversion; cat commit; cat "$include/torch/headeronly/version.h" "$include/torch/csrc/api/include/torch/version.h" 2>/dev/null || true)
if [[ -x built/slipstream-train && "$(cat built/identity 2>/dev/null)" == "$identity" ]]; then
  echo "build_trainer: is built already: $here/built/slipstream-train"
  exit 0
fi
rm -rf built
mkdir -p built

# The pack's headers come first: its archives were compiled with them.
headers="-Isrc -Iinclude -isystem third_party"
[[ "$(realpath "$include")" == /usr/include ]] || headers+=" -isystem $include"  # named again, it would break the C++ library's #include_next
headers+=" -isystem $include/torch/csrc/api/include"
compile() {
  local source=$1 flags=$2 object=built/${1//\//_}.o began code=0
  began=$(date +%s%N)
  # shellcheck disable=SC2086
  ${CXX:-g++} $flags $headers -MD -c -o "$object" "$source" >"$object.log" 2>&1 || code=$?
  echo "build_trainer: $source: exit code $code, $(seconds "$began")"
  return "$code"
}
export -f compile seconds
export headers
tr '\t' '\n' <sources | xargs -d '\n' -n 2 -P "${JOBS:-$(nproc)}" bash -c 'compile "$1" "$2"' _ ||
  { grep -h -m 5 -E 'error|fatal' built/*.log | cut -c1-300 >&2; refuse "expected every file to compile; the compiler's words are in $here/built/*.log"; }
compiled=$(date +%s%N)
strangers=$(cat built/*.d | tr ' ' '\n' | grep -E '/(boost|fmt)/' | grep -v '^third_party/' | sort -u || true)
[[ -z "$strangers" ]] || echo "build_trainer: beware: these headers of Boost and fmt are not the pack's: $(tr '\n' ' ' <<<"$strangers")" >&2

# A library that torch loads itself is torch's: Debian's torch, say, does not run on an older OpenBLAS than its own. The wheel's loads none of ours.
torch_libraries=("$lib/libtorch_cpu.so" "$lib/libc10.so")
for name in libtorch_cuda.so libc10_cuda.so; do [[ ! -f "$lib/$name" ]] || torch_libraries+=("$lib/$name"); done
{ ldd "${torch_libraries[@]}" 2>/dev/null || true; } | awk '$2 == "=>" && $3 ~ /^\// { print $1, $3 }' | sort -u >built/libraries_of_torch
mkdir -p built/lib
for file in lib/*; do grep -qF "$(basename "$file") " built/libraries_of_torch || cp "$file" built/lib/; done
shared=()
while read -r file; do
  theirs=$(awk -v name="$(basename "$file")" '$1 == name { print $2; exit }' built/libraries_of_torch)
  shared+=("${theirs:-built/$file}")
done <shared

# Torch registers its operations when it is loaded, so its libraries stay although nothing names a symbol of libtorch_cuda. What they need in turn,
# such as NVIDIA's, they find by their own paths, or by ours, which hold for everybody (DT_RPATH): OpenBLAS and what Python would have loaded before.
paths=$here/built/lib:\$ORIGIN/lib:$lib
for nvidia in "$lib"/../../nvidia/*/lib; do [[ ! -d "$nvidia" ]] || paths+=:$(realpath "$nvidia"); done
${CXX:-g++} -fopenmp -o built/slipstream-train objects/*.o built/*.o -Wl,--start-group archives/*.a -Wl,--end-group \
  -Wl,--no-as-needed "${torch_libraries[@]}" -Wl,--as-needed "${shared[@]}" -ldl -lpthread \
  -Wl,--disable-new-dtags "-Wl,-rpath,$paths" -Wl,--unresolved-symbols=ignore-in-shared-libs >built/link.log 2>&1 ||
  { tail -n 5 built/link.log >&2; refuse "expected the trainer to link; the linker's words are in $here/built/link.log"; }
linked=$(date +%s%N)
missing=$(ldd built/slipstream-train | grep 'not found' || true)
[[ -z "$missing" ]] || echo "build_trainer: beware: $missing" >&2
code=0
built/slipstream-train --help >built/help.log 2>&1 || code=$?
grep -q -- --config built/help.log || { tail -n 5 built/help.log >&2; refuse "expected the trainer to start"; }
((code == 0)) || echo "build_trainer: beware: the trainer's process ended with exit code $code after its work was done: $(tail -n 1 built/help.log)" >&2
echo "$identity" >built/identity
echo "build_trainer: $(seconds "$began") ($(awk -v a="$began" -v b="$compiled" -v c="$linked" 'BEGIN { printf "compiling %.1f, linking %.1f", (b - a) / 1e9, (c - b) / 1e9 }')), ${#torch_libraries[@]} libraries of torch: $here/built/slipstream-train"
