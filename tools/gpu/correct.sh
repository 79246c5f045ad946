#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# First: is what the device computes right? About 3 minutes.
#   correct.sh OUT
set -uo pipefail
source "$(dirname "$0")/common.sh"
device_facts
try tests 120 "$here/cuda_device_test"
SLIPSTREAM_CUDA_OVERLAP=0 try tests-no-overlap 120 "$here/cuda_device_test"
SLIPSTREAM_CUDA_CLUSTERS=0 try tests-no-clusters 120 "$here/cuda_device_test"
CUDA_FORCE_PTX_JIT=1 try tests-translated 120 "$here/cuda_device_test" # as on devices that no code was compiled for, with that for sm_90
for model in demo demo-cot; do
  try "verify-$model" 120 "$here/slipstream" verify --model "$models/$model" --device cuda:0 --json
  try "demo-$model" 60 "$here/slipstream" demo --model "$models/$model" --device cuda:0 --json
done
if command -v compute-sanitizer >/dev/null; then
  try memcheck 150 compute-sanitizer --tool memcheck --error-exitcode 9 "$here/cuda_device_test" --gtest_filter='CudaLm.*:Vision.*'
  try racecheck 150 compute-sanitizer --tool racecheck --error-exitcode 9 "$here/cuda_device_test" --gtest_filter='CudaLm.Picks*:CudaLm.Chooses*'
fi
# Two layers of the released shape, 480 rows: the same file at every split, and near the processor's.
shape_3b_2_layers
python3 "$here/rows.py" "$work/rows.json"
rm -f "$work"/split-*.safetensors "$work/cpu.safetensors" # of an earlier run: they would speak for this one
for split in 0 200 64 7; do
  try "forward-split-$split" 60 "$here/slipstream" forward --model "$work/3b-2" --dtype bf16 --device cuda:0 --rows "$work/rows.json" --split "$split" \
    --out "$work/split-$split.safetensors"
done
try forward-cpu 120 "$here/slipstream" forward --model "$work/3b-2" --dtype bf16 --rows "$work/rows.json" --out "$work/cpu.safetensors"
(cd "$work" && sha256sum split-*.safetensors) | tee "$out/splits.sha256"
[[ $(cut -d' ' -f1 "$out/splits.sha256" | sort -u | wc -l) == 1 ]] || { echo 'correct: the splits differ: no timing before this is understood'; failed=1; }
try near-cpu 60 python3 "$here/compare_logits.py" "$work/split-0.safetensors" "$work/cpu.safetensors"
exit $failed
