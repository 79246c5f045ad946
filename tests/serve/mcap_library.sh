#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A drive and a record set as MCAP files, read by the format's own library: mcap_library.sh SLIPSTREAM NODE
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$1" drive --family free_flow --baselines expert --video "$work/drive.mcap" >/dev/null 2>"$work/said" || { cat "$work/said" >&2; exit 1; }
"$1" simulate --out "$work/set" --count 3 >/dev/null 2>"$work/said" || { cat "$work/said" >&2; exit 1; }
"$1" export mcap --records "$work/set" --out "$work/set.mcap" >/dev/null 2>"$work/said" || { cat "$work/said" >&2; exit 1; }
"$2" "$(dirname "$0")/mcap.mjs" "$work/drive.mcap" "$work/set.mcap"
