#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# First: is what the device computes right? About a minute: what is not timed runs side by side.
#   correct.sh OUT
set -uo pipefail
source "$(dirname "$0")/common.sh"

device_tests() {
  try tests 120 "$here/cuda_device_test"
  SLIPSTREAM_CUDA_OVERLAP=0 try tests-no-overlap 120 "$here/cuda_device_test"
  SLIPSTREAM_CUDA_CLUSTERS=0 try tests-no-clusters 120 "$here/cuda_device_test"
  CUDA_FORCE_PTX_JIT=1 try tests-translated 120 "$here/cuda_device_test" # as on devices that no code was compiled for, with that for sm_90
}

demo_models() {
  for model in demo demo-cot; do
    try "verify-$model" 120 "$here/slipstream" verify --model "$models/$model" --device cuda:0 --json
    try "demo-$model" 60 "$here/slipstream" demo --model "$models/$model" --device cuda:0 --json
  done
  try verify-demo-cot-int8 60 "$here/slipstream" verify --model "$models/demo-cot" --dtype int8 --device cuda:0 --json
}

sanitize() {
  try "$1" 150 compute-sanitizer --tool "$1" --error-exitcode 9 "$here/cuda_device_test" --gtest_filter="$2"
}

# Two layers of the released shape, 480 rows: the same file at every split, and near the processor's.
splits() {
  shape_3b_2_layers
  python3 "$here/rows.py" "$work/rows.json"
  rm -f "$work"/split-*.safetensors "$work/cpu.safetensors" # of an earlier run: they would speak for this one
  local dtype split
  for dtype in bf16 int8; do
    for split in 0 200 64 7; do
      try "forward-$dtype-split-$split" 60 "$here/slipstream" forward --model "$work/3b-2" --dtype $dtype --device cuda:0 --rows "$work/rows.json" \
        --split "$split" --out "$work/split-$dtype-$split.safetensors"
    done
    (cd "$work" && sha256sum split-$dtype-*.safetensors) | tee "$out/splits-$dtype.sha256"
    [[ $(cut -d' ' -f1 "$out/splits-$dtype.sha256" | sort -u | wc -l) == 1 ]] ||
      { echo "correct: the splits of $dtype differ: no timing before this is understood"; failed=1; }
  done
  try forward-cpu 120 "$here/slipstream" forward --model "$work/3b-2" --dtype bf16 --rows "$work/rows.json" --out "$work/cpu.safetensors"
  try near-cpu 60 python3 "$here/compare_logits.py" "$work/split-bf16-0.safetensors" "$work/cpu.safetensors"
}

device_facts
groups=(device_tests demo_models splits)
if command -v compute-sanitizer >/dev/null; then
  groups+=("sanitize memcheck CudaLm.*:Vision.*" "sanitize racecheck CudaLm.Picks*:CudaLm.Chooses*")
fi
running=()
trap 'for process in "${running[@]}"; do end_tree "$process"; done' EXIT
for group in "${groups[@]}"; do
  (read -ra words <<<"$group" && "${words[@]}" && exit $failed) &
  running+=($!)
done
for process in "${running[@]}"; do wait "$process" || failed=1; done
running=()
exit $failed
