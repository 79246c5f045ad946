#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Trains with the trainer of a pack (build_trainer.sh) on the device, for so many minutes, and leaves what is to travel back: the trainer's output, the
# loss log, the device's load, the configuration and the newest checkpoint as NAME.tar.gz. NAME is the configuration's file name.
#   train_on_device.sh CONFIG MINUTES [FOLDER [KEY=JSON...]]     FOLDER: $OUT, or results; KEY=JSON: in place of the configuration's, such as data_threads=8
# The configuration's paths start from ROOT (the pack's folder). The optimizer's state travels where all of it packs to at most 14 MiB; a model that is
# larger alone is cut into parts of that size (cat NAME.tar.gz.* >NAME.tar.gz). The trainer's own folder stays in WORK (work in the pack's folder).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
refuse() { echo "train_on_device: $*" >&2; exit 1; }
config=$(realpath "${1:?expected a configuration}") minutes=${2:?expected minutes}
root=$(realpath "${ROOT:-$here}")
folder=$(realpath -m "${3:-${OUT:-results}}") work=$(realpath -m "${WORK:-$here/work}")
overrides=("${@:4}")
limit=$((14 << 20))
trainer=$here/built/slipstream-train
[[ -x "$trainer" ]] || refuse "expected $trainer (build_trainer.sh)"
name=$(basename "$config" .json)
run=$work/$name
mkdir -p "$folder" "$work"
[[ ! -e "$run" ]] || refuse "expected no folder $run, which an earlier run left"

python3 - "$config" "$folder/$name.json" "$run" "$minutes" "${overrides[@]}" <<'PYTHON'
import json, sys
source, target, run, minutes, *overrides = sys.argv[1:]
config = json.load(open(source))
config.update({"device": "cuda", "out": run, "max_minutes": float(minutes)})
for word in overrides:
    key, value = word.split("=", 1)
    config[key] = json.loads(value)
json.dump(config, open(target, "w"), indent=2)
PYTHON

cd "$root"
watch=
if command -v nvidia-smi >/dev/null; then
  nvidia-smi --query-gpu=utilization.gpu,memory.used,power.draw --format=csv,nounits -l 5 >"$folder/$name.device.csv" 2>&1 &
  watch=$!
fi
trap '[[ -z "$watch" ]] || kill "$watch" 2>/dev/null || true' EXIT
code=0
# The trainer stops by itself; an interrupt, after which it still writes a checkpoint, is for a step or a start that hangs.
timeout --signal=INT --kill-after=60 "$(awk -v m="$minutes" 'BEGIN { printf "%d", 60 * m + 60 }')" \
  "$trainer" --config "$folder/$name.json" >"$folder/$name.log" 2>&1 || code=$?
tail -n 5 "$folder/$name.log"
if [[ -f "$run/loss.jsonl" ]]; then
  tail -n 3 "$run/loss.jsonl"
  cp "$run/loss.jsonl" "$folder/$name.loss.jsonl"
fi
step=$(find "$run" -maxdepth 1 -name 'step-*' ! -name '*.partial' 2>/dev/null | sort -V | tail -n 1 || true)
[[ -n "$step" ]] || refuse "expected a checkpoint in $run, got none; the trainer's exit code is $code, its words are in $folder/$name.log"
archive=$folder/$name.tar.gz
tar -C "$run" -czf "$archive" "$(basename "$step")"
left=
if (($(stat -c %s "$archive") > limit)); then
  tar -C "$run" -czf "$archive" --exclude trainer.safetensors "$(basename "$step")"
  left=", without the optimizer's state"
fi
bytes=$(stat -c %s "$archive")
if ((bytes > limit)); then
  split -b "$limit" -d "$archive" "$archive."
  rm "$archive"
  left+=", in parts"
fi
echo "train_on_device: $(basename "$step"): $((bytes >> 10)) KiB in $archive$left; the trainer's exit code is $code"
exit "$code"
