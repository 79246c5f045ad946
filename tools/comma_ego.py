#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ego history for `slipstream run --ego` from a comma2k19 segment (MIT licence).

    tools/comma_ego.py SEGMENT_DIR [--at SECONDS] > ego.json

Reads global_pose frame_positions, frame_velocities (ECEF, m and m/s) and frame_times (s), 20 Hz, and writes the 16 states at
4 Hz that end at --at, in the ego frame of that instant (x forward along the velocity, y left). The segment's preview.png is
its first frame; a history needs 3.75 s before it, so the earliest instant is 3.75 s into the segment.
"""
import argparse
import json
import pathlib

import numpy as np


def load(folder: pathlib.Path, name: str) -> np.ndarray:
    path = folder / name
    return np.load(path if path.exists() else path.with_suffix(".npy"))


def east_north_up(position: np.ndarray) -> np.ndarray:
    """Rows are the east, north and up axes at an ECEF position (spherical earth: 0.2 degrees off at worst, no matter here)."""
    up = position / np.linalg.norm(position)
    east = np.cross([0.0, 0.0, 1.0], up)
    east /= np.linalg.norm(east)
    return np.stack([east, np.cross(up, east), up])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("segment", type=pathlib.Path)
    parser.add_argument("--at", type=float, default=3.75)
    args = parser.parse_args()
    positions = load(args.segment, "frame_positions")
    velocities = load(args.segment, "frame_velocities")
    times = load(args.segment, "frame_times")
    times = times - times[0]

    axes = east_north_up(positions[0])
    local = (positions - positions[0]) @ axes.T
    speed = velocities @ axes.T
    at = args.at + np.arange(-15, 1) * 0.25
    xy = np.stack([np.interp(at, times, local[:, k]) for k in (0, 1)], axis=1)
    v = np.stack([np.interp(at, times, speed[:, k]) for k in (0, 1)], axis=1)
    a = np.stack([(np.interp(at + 0.1, times, speed[:, k]) - np.interp(at - 0.1, times, speed[:, k])) / 0.2 for k in (0, 1)], axis=1)

    forward = v[-1] / np.linalg.norm(v[-1])
    to_ego = np.array([forward, [-forward[1], forward[0]]])
    rows = np.concatenate([(at - args.at)[:, None], (xy - xy[-1]) @ to_ego.T, v @ to_ego.T, a @ to_ego.T], axis=1)
    print(json.dumps({"intent": "GO_STRAIGHT", "history": [[round(float(x), 3) for x in row] for row in rows]}))


if __name__ == "__main__":
    main()
