# SPDX-License-Identifier: Apache-2.0
"""Writes a rows file for `slipstream forward`: 480 causal rows, each of which sees those before it and itself.

    python3 rows.py FILE
"""
import json
import sys

ROWS = 480
rows = [{"token": (i * 7919 + 17) % 30000, "position": i} for i in range(ROWS)]
with open(sys.argv[1], "w", encoding="utf-8") as file:
    json.dump({"rows": rows}, file)
