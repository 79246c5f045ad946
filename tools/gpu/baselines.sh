#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Third: what others need for the same work on the same device, in the same run. About 8 minutes.
#   baselines.sh OUT
set -uo pipefail
source "$(dirname "$0")/common.sh"
device_facts
try baselines 480 python3 "$here/baselines.py" --out "$out/baselines.jsonl"
exit $failed
