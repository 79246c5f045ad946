#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fields as they are decided, and acting before the answer is whole.

    stream.py MODEL [DECODER]

A planner that brakes for an open door need not wait for the explanation of why.
"""

import sys

import slipstream


def main():
    model = sys.argv[1] if len(sys.argv) > 1 else "models/demo"
    decoder = sys.argv[2] if len(sys.argv) > 2 else ""
    engine = slipstream.Engine.load(model)
    for event in engine.stream(scene=900000017, decoder=decoder):
        if event.kind == "field":
            print(f"{event.elapsed_ms:7.1f} ms  pass {event.forwards:3}  {event.name} = {event.text}")
        elif event.kind == "answer":
            print(f"{event.elapsed_ms:7.1f} ms  pass {event.forwards:3}  whole: {event.tokens} tokens")


try:
    main()
except slipstream.Error as error:
    sys.exit(f"stream.py: {error}")
