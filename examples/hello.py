#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One answer in Python.

    hello.py MODEL                              a simulated scene
    hello.py MODEL EGO.json LEFT FRONT RIGHT    the cameras' pictures, in the model's order, and the car's history
"""

import sys

import slipstream


def main():
    if len(sys.argv) == 3:
        print("hello.py: expected the cameras' pictures behind EGO.json, got none", file=sys.stderr)
        sys.exit(2)
    model = sys.argv[1] if len(sys.argv) > 1 else "models/demo"
    engine = slipstream.Engine.load(model)
    if len(sys.argv) > 3:
        asked = {"ego": sys.argv[2], "images": sys.argv[3:]}
    else:
        asked = {"scene": 900000017}
    answer = engine.answer(**asked, decoder="scaffold-spec")

    for name, value in answer.fields.items():
        print(f"{name} = {value}")
    print("plan, m:", *(f"({x:.1f}, {y:.1f})" for x, y in answer.trajectory.waypoints))
    took = answer.statistics
    print(f"{took.tokens} tokens in {took.forwards} forward passes, {took.total_ms:.1f} ms")


try:
    main()
except slipstream.Error as error:
    sys.exit(f"hello.py: {error}")
