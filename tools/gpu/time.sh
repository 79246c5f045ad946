#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Second: how long does it take, beside what the device can do at best? About 9 minutes.
#   time.sh OUT
set -uo pipefail
source "$(dirname "$0")/common.sh"
device_facts
shape_3b
model=$work/3b
for overlap in 1 0; do
  SLIPSTREAM_CUDA_OVERLAP=$overlap try "forward-overlap-$overlap" 120 "$here/slipstream" bench forward --model "$model" --dtype bf16 --device cuda:0 \
    --widths 1,8,32,64 --keys 2000 --seconds 1 --json
done
try prefill 90 "$here/slipstream" bench prefill --model "$model" --dtype bf16 --device cuda:0 --widths 128,512,1440 --json
try answer 150 "$here/slipstream" bench answer --model "$model" --dtype bf16 --device cuda:0 --every 1 --no-images --json
for name in demo demo-cot; do
  try "decoders-$name" 60 "$here/slipstream" bench decoders --model "$models/$name" --device cuda:0 --repeats 9 --json
done
if command -v ncu >/dev/null; then
  shape_3b_2_layers
  try ncu 120 ncu --launch-skip 200 --launch-count 60 --section SpeedOfLight --section LaunchStats "$here/slipstream" bench forward --model "$work/3b-2" \
    --dtype bf16 --device cuda:0 --widths 8 --keys 2000 --seconds 0.2 --json
fi
exit $failed
