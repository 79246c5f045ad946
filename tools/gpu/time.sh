#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Second: how long does it take, beside what the device can do at best? About 6 minutes, most of them to load the model again and again.
#   time.sh OUT
set -uo pipefail
source "$(dirname "$0")/common.sh"
device_facts
shape_3b
model=$work/3b
dtype=bf16
bench_forward() { try "$1" 120 env "${@:2}" "$here/slipstream" bench forward --model "$model" --dtype $dtype --device cuda:0 --widths 1,8,16,32,64 --keys 2000 --seconds 0.5 --json; }
bench_forward forward
bench_forward forward-no-overlap SLIPSTREAM_CUDA_OVERLAP=0
bench_forward forward-no-clusters SLIPSTREAM_CUDA_CLUSTERS=0
dtype=int8 bench_forward forward-int8
try prefill 90 "$here/slipstream" bench prefill --model "$model" --dtype bf16 --device cuda:0 --widths 128,512,1440 --json
try vision 60 "$here/slipstream" bench vision --model "$model" --dtype bf16 --device cuda:0 --repeats 9 --json
# IMAGES: picture files in place of noise as PNG, which takes long to decode.
read -ra images <<<"${IMAGES:+--image $IMAGES}"
for dtype in bf16 int8; do
  try answer-with-pictures-$dtype 150 "$here/slipstream" bench answer --model "$model" --dtype $dtype --device cuda:0 --every 1 \
    --decoders scaffold-spec,fields-spec "${images[@]}" --json
done
try answer 150 "$here/slipstream" bench answer --model "$model" --dtype bf16 --device cuda:0 --every 1 --no-images --json
for name in demo demo-cot; do
  try "decoders-$name" 60 "$here/slipstream" bench decoders --model "$models/$name" --device cuda:0 --repeats 9 --json
done
if command -v ncu >/dev/null; then
  shape_3b_2_layers
  # A pass of two layers kernel by kernel, as it runs: the first launches of the command measure the ceilings.
  kernels='regex:product|attend|norm|place|join|embed|pick'
  profile() { try "$1" 30 ncu --csv --clock-control none --cache-control none --graph-profiling node --metrics gpu__time_duration.sum "${@:2}"; }
  for dtype in bf16 int8; do
    profile "ncu-$dtype-8" --kernel-name "$kernels" --launch-skip 60 --launch-count 22 "$here/slipstream" bench forward --model "$work/3b-2" --dtype $dtype \
      --device cuda:0 --widths 8 --keys 2000 --seconds 0.05 --json
  done
  # A prompt's kernels and the tower's (the model of two layers has four of its blocks), by the shapes that short passes do not have.
  long='regex:walk_kernel|product_kernel<\(int\)2|place_pairs_kernel<\(int\)4|resize|cut|gather|put'
  profile ncu-prefill --kernel-name-base demangled --kernel-name "$long" --launch-count 60 "$here/slipstream" bench prefill --model "$work/3b-2" \
    --dtype bf16 --device cuda:0 --widths 1440 --seconds 0.05 --json
  profile ncu-vision --kernel-name-base demangled --kernel-name "$long" --launch-count 120 "$here/slipstream" bench vision --model "$work/3b-2" \
    --dtype bf16 --device cuda:0 --repeats 1 --json
fi
exit $failed
