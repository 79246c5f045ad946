#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Slipstream beside llama.cpp (Debian forky's package, in a chroot) and oneDNN (libdnnl-dev), in alternation, on the shape of
# Qwen2.5-VL-3B's text decoder. Prints a table of ratios (compare_table.py); the JSON lines go to OUT.
#
#   bench/compare.sh WORK [OUT]
#
# WORK gets everything that is made or installed (2 GB for 8 layers, 15 GB for 36). Root is needed for debootstrap and chroot.
#   LAYERS=8          of 36: weights still exceed every cache by far, and a round takes seconds. 36 for the whole model
#   ROUNDS=3          alternations   ROWS="1 8 32 512"   TYPES="bf16 int8 int4"   THREADS=2
#   SLIPSTREAM=...    the binary     RUN=...   a prefix for every measuring command (a lock, a priority)
#   IK_LLAMA=DIR      a built checkout of ik_llama.cpp (build/ggml/src/libggml.so), which no package has; without it, it is left out
#   ISA=avx2          all of them by AVX2 alone: llama.cpp's backends for later processors are put aside, oneDNN is told so
#   MODEL=DIR         a synthesized folder to use in place of making one   MIRROR=URL   of Debian; else the one that apt uses
#
# Like for like: one pass of so many rows behind no keys, logits of the last row. llama.cpp's nearest types: BF16, Q8_0, Q4_0 (its own
# kernels, weights repacked as its CPU backend does by default). Q4_0 is measured twice: all of it Q4_0, and with a head of Q6_K as llama.cpp's own quantizer
# (llama-quant.cpp, without --pure) writes it; our int4 has a head of int8. oneDNN and ik_llama.cpp's ggml are compared with the matrix products
# alone, head on all rows. Our run stands before and after every other's; a pair that memory binds and between whose runs the read bandwidth changed by
# more than 12 % says nothing and is left out.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=${1:?usage: compare.sh WORK [OUT]}
mkdir -p "$work"
out=${2:-$work/compare.jsonl}
layers=${LAYERS:-8} rounds=${ROUNDS:-3} rows=${ROWS:-1 8 32 512} types=${TYPES:-bf16 int8 int4} threads=${THREADS:-2} run=${RUN:-}
slip=${SLIPSTREAM:-$here/../build/release/slipstream}
model=${MODEL:-$work/thin-3b-$layers}
chroot=$work/forky
width=2048 heads=16 kv_heads=2 mlp=11008 vocab=151936

case "${ISA:-}" in
  "") ;;
  avx2)
    [ -z "${IK_LLAMA:-}" ] || { echo "compare: ISA: expected no IK_LLAMA beside it, which is built for one processor, got one" >&2; exit 2; }
    export SLIPSTREAM_ISA=avx2 ONEDNN_MAX_CPU_ISA=AVX2 ;;
  *) echo "compare: ISA: expected avx2 or nothing, got $ISA" >&2; exit 2 ;;
esac

[ -d "$model" ] || "$slip" synthesize --like qwen2.5-vl-3b --layers "$layers" --dtype bf16 --out "$model"
have_llama=1
if [ ! -x "$chroot/usr/bin/llama-bench" ]; then
  debootstrap --variant=minbase --include=llama.cpp forky "$chroot" "${MIRROR:-$(sed -n 's/^URIs: *//p;s/^deb \(\[[^]]*\] \)\?\([^ ]*\).*/\2/p' /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | head -1)}" /usr/share/debootstrap/scripts/sid \
    > "$work/debootstrap.log" 2>&1 || have_llama=0
fi
[ $have_llama = 1 ] || echo "compare: llama.cpp: expected Debian forky's package in $chroot, got no installation ($work/debootstrap.log)" >&2
[ -x "$work/random_gguf" ] || c++ -O2 -std=c++20 -o "$work/random_gguf" "$here/random_gguf.cc" || { have_llama=0; echo "compare: llama.cpp: expected a compiler that makes random_gguf.cc, got an error" >&2; }
have_dnnl=1
[ -x "$work/onednn_products" ] || c++ -O2 -std=c++20 -o "$work/onednn_products" "$here/onednn_products.cc" -ldnnl || have_dnnl=0
[ $have_dnnl = 1 ] || echo "compare: oneDNN: expected libdnnl-dev, got none" >&2

if [ $have_llama = 1 ]; then
  haswell=$(find "$chroot/usr/lib" -name libggml-cpu-haswell.so)
  backends=$(dirname "$haswell")
  put_back() { for lib in "$work"/aside/*.so; do [ ! -e "$lib" ] || mv "$lib" "$backends/"; done; }
  if [ -n "$haswell" ]; then put_back; fi  # of a run that was killed
  if [ "${ISA:-}" = avx2 ]; then
    [ -n "$haswell" ] || { echo "compare: ISA: expected libggml-cpu-haswell.so in $chroot, got none" >&2; exit 5; }
    mkdir -p "$work/aside"
    trap put_back EXIT
    for later in zen4 skylakex cannonlake cascadelake icelake cooperlake sapphirerapids alderlake; do
      [ ! -e "$backends/libggml-cpu-$later.so" ] || mv "$backends/libggml-cpu-$later.so" "$work/aside/"
    done
  fi
fi

have_ik=0
if [ -n "${IK_LLAMA:-}" ]; then
  ik_lib=$IK_LLAMA/build/ggml/src
  [ -x "$work/ik_products" ] ||
    c++ -O2 -std=c++20 -I"$IK_LLAMA/ggml/include" -o "$work/ik_products" "$here/ik_products.cc" -L"$ik_lib" -lggml -Wl,-rpath,"$ik_lib"
  have_ik=1
fi

declare -A gguf=([bf16]=bf16 [int8]=q8_0 [int4]=q4_0)
list() { echo "$rows" | tr ' ' ','; }
ours() { # TYPE COMMAND: a line per width, marked with what it is
  $run "$slip" bench "$2" --model "$model" --dtype "$1" --widths "$(list)" --threads "$threads" --seconds 0.05 --json \
    ${3:-} | sed "s/^{/{\"engine\": \"slipstream\", \"round\": $round, /" >> "$out"
}
llama() { # TYPE FILETYPE ENGINE
  local file=random-$layers-$2.gguf
  [ -f "$chroot/$file" ] || "$work/random_gguf" "$chroot/$file" "$2" "$layers" $width $heads $kv_heads $mlp $vocab
  $run chroot "$chroot" llama-bench -m "/$file" -p "$(list)" -n 0 -r 3 -t "$threads" -b 2048 -ub 2048 -o jsonl 2>> "$work/llama.log" |
    sed "s/^{/{\"engine\": \"$3\", \"type\": \"$1\", \"round\": $round, \"layers\": $layers, /" >> "$out"
}
dnnl() { # TYPE
  OMP_NUM_THREADS=$threads $run "$work/onednn_products" "$1" "$layers" $width $((width / heads * kv_heads)) $mlp $vocab 5 $rows |
    sed "s/^{/{\"round\": $round, \"layers\": $layers, /" >> "$out"
}
say_without() { echo "compare.sh: oneDNN gives no $1 products on this processor: going on without" >&2; }
ik() { # TYPE: weights as they lie, and repacked
  for repack in 0 1; do
    $run "$work/ik_products" "$1" $repack "$layers" $width $((width / heads * kv_heads)) $mlp $vocab 5 "$threads" $rows |
      sed "s/^{/{\"round\": $round, \"layers\": $layers, /" >> "$out"
  done
}

: > "$out"
for round in $(seq 1 "$rounds"); do
  for type in $types; do
    if [ $have_llama = 1 ]; then
      ours "$type" prefill
      llama "$type" "${gguf[$type]}" llama.cpp
      ours "$type" prefill
      if [ "$type" = int4 ]; then
        llama int4 q4_0_q6_k "llama.cpp, Q6_K head"
        ours int4 prefill
      fi
    fi
    if [ $have_dnnl = 1 ] && [ "$type" != int4 ]; then
      ours "$type" forward "--keys 0"
      dnnl "$type" || say_without "$type"
      ours "$type" forward "--keys 0"
    fi
    if [ $have_ik = 1 ]; then
      ours "$type" forward "--keys 0"
      ik "$type"
      ours "$type" forward "--keys 0"
    fi
  done
done
python3 "$here/compare_table.py" "$out"
