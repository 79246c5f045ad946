#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A round of teaching on a machine with a GPU, by a pack with the engine in it (pack_trainer.sh): while the trainer is compiled, the model drives, and
# every family's drives become as many records; then the trainer learns from them on the device (train_on_device.sh).
#   teach.sh MODEL CONFIG COUNT MINUTES [KEY=JSON...]     MODEL: who drives; COUNT: records of each family
# CONFIG reads them from RECORDS/FAMILY and RECORDS/all, with RECORDS (out/alike) in ROOT (the pack's folder), where paths start. Results go to OUT (results).
# SEED (9000000): of the first family's drives; the next ones' lie 10,000 apart.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
refuse() { echo "teach: $*" >&2; exit 1; }
model=${1:?expected a model that drives} config=${2:?expected a configuration} count=${3:?expected how many records} minutes=${4:?expected minutes}
overrides=("${@:5}")
export ROOT=${ROOT:-$here} OUT=${OUT:-results}
[[ -x "$here/slipstream" ]] || refuse "expected $here/slipstream (pack_trainer.sh without ENGINE=0)"
[[ -d "$ROOT/$model" ]] || refuse "expected a model in $ROOT/$model"
families=(lead_brake lead_stopped red_light stop_sign pedestrian_crosswalk pedestrian_midblock cyclist_ahead construction_taper debris animal_crossing
  cut_in cross_traffic all)
records=$ROOT/${RECORDS:-out/alike}
mkdir -p "$records" "$OUT"
began=$SECONDS
source "$here/end_tree.sh"
building="" drives=()
trap 'for process in $building "${drives[@]}"; do end_tree "$process"; done' EXIT
"$here/build_trainer.sh" >"$OUT/build.log" 2>&1 &
building=$!
seed=${SEED:-9000000}
for family in "${families[@]}"; do
  of=(--family "$family")
  [[ "$family" != all ]] || of=()
  LD_LIBRARY_PATH=$here/lib "$here/slipstream" simulate --seed "$seed" "${of[@]}" --driven 12 --driver "$ROOT/$model" --ensemble 3 --count "$count" \
    --threads 1 --out "$records/$family" -q >"$OUT/drives-$family.log" 2>&1 &
  drives+=($!)
  seed=$((seed + 10000))
done
# The build first: where it fails nobody needs the drives, which take longer.
wait "$building" || { tail -n 5 "$OUT/build.log" >&2; refuse "expected the trainer to be built"; }
building=""
tail -n 1 "$OUT/build.log"
failed=0
for i in "${!drives[@]}"; do
  wait "${drives[i]}" || { tail -n 2 "$OUT/drives-${families[i]}.log" >&2; failed=1; }
done
drives=()
((failed == 0)) || refuse "expected records of every family"
cat "$OUT"/drives-*.log >"$OUT/drives.log"
rm "$OUT"/drives-*.log
echo "teach: $((count * ${#families[@]})) records and a trainer after $((SECONDS - began)) s"
"$here/train_on_device.sh" "$ROOT/$config" "$minutes" "$OUT" "${overrides[@]}"
