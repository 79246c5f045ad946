#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Puts all that a machine with a GPU needs into one folder and an archive of it, for a machine that can build nothing: the program, the plug-in, the device tests,
# the libraries that they load (not the C and C++ libraries, which must be Debian 12's or later), the tests' fixtures and the scripts beside this one.
#   pack.sh FOLDER [BUILD]     BUILD: build/release, built before with SLIP_CUDA
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=$(realpath -m "${1:?expected a folder to write}") build=${2:-build/release}
refuse() { echo "pack: $*" >&2; exit 1; }
programs=("$build/slipstream" "$build/src/cuda/cuda_device_test")
plugin=$build/libslipstream_cuda.so
for file in "${programs[@]}" "$plugin"; do
  [[ -f "$file" ]] || refuse "expected $file (cmake --build $build --target slipstream slipstream_cuda cuda_device_test)"
done
[[ ! -e "$folder" || -f "$folder/commit" ]] || refuse "expected a new folder or an earlier pack's, got $folder"
rm -rf "$folder" "$folder.tar.gz"
mkdir -p "$folder/lib" "$folder/fixtures/models"
git describe --always --dirty --abbrev=40 --exclude '*' >"$folder/commit"
for file in "${programs[@]}" "$plugin"; do strip -o "$folder/$(basename "$file")" "$file"; done
# The C and C++ libraries are the machine's.
ldd "${programs[@]}" "$plugin" | awk '$2 == "=>" { print $3 }' | sort -u |
  grep -vE '/(libc|libm|libdl|libpthread|librt|libgcc_s|libstdc\+\+)\.so' | xargs -I{} cp -L {} "$folder/lib/"
for model in llama3 ministral3 ministral3_ramp nemotron_labs_diffusion qwen2 qwen2_5_vl qwen3; do
  cp -rL "tests/fixtures/models/$model" "$folder/fixtures/models/"
done
cp tools/gpu/*.sh tools/gpu/*.py "$folder/"
rm "$folder/pack.sh"
tar -C "$(dirname "$folder")" -czf "$folder.tar.gz" "$(basename "$folder")"
bytes=$(stat -c %s "$folder.tar.gz")
echo "pack: $((bytes >> 10)) KiB in $folder.tar.gz"
