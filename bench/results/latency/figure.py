#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The figure of docs/lab/0017: score against latency, a line for who drives with injected delays, a point for every decoder and table of costs.

    bench/results/latency/figure.py >docs/lab/0017-latency.svg

`slipstream drive --figure` draws one table of costs; this one lays several over each other, from bench/results/drive-latency.csv (baselines) and
bench/results/drive-decoders.csv (the model).
"""
import csv
import math
import pathlib

HERE = pathlib.Path(__file__).resolve().parent.parent
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 900, 520, 60, 250, 40, 60
LEAST, MOST = 10.0, 30000.0  # milliseconds; 0 stands at LEAST
TICKS = (10, 20, 50, 100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600)
LINES = {"expert": "#222", "idm": "#888", "stay": "#bbb", "constant-velocity": "#999", "models/demo": "#1668b8"}
COLOURS = {"demo-amx": "#1668b8", "demo-zen3": "#0891b2", "05b-zen4": "#c2410c", "3b-zen5": "#7c2d12", "3b-h100": "#15803d", "3b-thor": "#7e22ce",
           "3b-orin": "#be185d"}
NAMES = {"demo-amx": "models/demo, its own (AMX)", "demo-zen3": "models/demo, its own (Zen 3)", "05b-zen4": "0.5B, two cores (Zen 4), priced", "3b-zen5": "3B, two cores (Zen 5), priced",
         "3b-h100": "3B, H100, priced", "3b-thor": "3B, Thor, priced", "3b-orin": "3B, Orin, priced"}
MARKS = {"ar": "square", "scaffold-ar": "diamond", "self-spec": "up", "scaffold-spec": "disc", "scaffold-spec, adapter": "ring",
         "section-diffusion": "cross"}


def x_of(ms):
    at = math.log(max(ms, LEAST) / LEAST) / math.log(MOST / LEAST)
    return LEFT + at * (WIDTH - LEFT - RIGHT)


def y_of(score):
    return HEIGHT - BOTTOM - score * (HEIGHT - TOP - BOTTOM)


def text(x, y, words, size=12, anchor="start", colour="#222"):
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{colour}">{words}</text>'


def mark(kind, x, y, colour):
    r = 5
    if kind == "square":
        return f'<rect x="{x - r + 1:.1f}" y="{y - r + 1:.1f}" width="{2 * r - 2}" height="{2 * r - 2}" fill="{colour}"/>'
    if kind == "disc":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r}" fill="{colour}"/>'
    if kind == "ring":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r}" fill="#fff" stroke="{colour}" stroke-width="2"/>'
    if kind == "cross":
        return f'<path d="M{x - r:.1f} {y - r:.1f}l{2 * r} {2 * r}m0 {-2 * r}l{-2 * r} {2 * r}" stroke="{colour}" stroke-width="2"/>'
    points = ((0, -r - 1), (r + 1, 0), (0, r + 1), (-r - 1, 0)) if kind == "diamond" else ((0, -r), (r, r - 1), (-r, r - 1))
    return '<polygon points="' + " ".join(f"{x + a:.1f},{y + b:.1f}" for a, b in points) + f'" fill="{colour}"/>'


def rows(name):
    with open(HERE / name, newline="") as lines:
        return list(csv.DictReader(lines))


def curves():
    out = {}
    for r in rows("drive-latency.csv"):
        who, delay = r["entrant"].rsplit(", ", 1)
        if r["mode"] == "async":
            out.setdefault(who, []).append((float(delay.split()[0]), float(r["score"])))
    for r in rows("drive-decoders.csv"):
        if r["costs"] == "injected" and r["mode"] == "async" and r["scenes"] == "42":
            out.setdefault("models/demo", []).append((float(r["latency_ms"]), float(r["score"])))
    return out


def main():
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
           'font-family="sans-serif" fill="none">', f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>']
    out.append(text(LEFT, 22, "Closed loop: score against the latency of an answer", 15))
    for ms in TICKS:
        out.append(f'<path d="M{x_of(ms):.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#eee"/>')
        out.append(text(x_of(ms), HEIGHT - BOTTOM + 18, "0" if ms == LEAST else f"{ms:,}", 11, "middle"))
    for tenth in range(0, 11, 2):
        out.append(f'<path d="M{LEFT} {y_of(tenth / 10):.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        out.append(text(LEFT - 8, y_of(tenth / 10) + 4, f"{tenth / 10:.1f}", 11, "end"))
    out.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14, "latency, milliseconds (logarithmic from 20 on)", 12, "middle"))
    for who, points in curves().items():
        path = " ".join(f"{'M' if i == 0 else 'L'}{x_of(a):.1f} {y_of(b):.1f}" for i, (a, b) in enumerate(sorted(points)))
        width = 2 if who in ("expert", "models/demo") else 1.3
        out.append(f'<path d="{path}" stroke="{LINES[who]}" stroke-width="{width}"/>')
        a, b = min(points)
        out.append(text(x_of(a) + 4, y_of(b) - 5, who, 11, colour=LINES[who]))
    priced = [r for r in rows("drive-decoders.csv") if r["costs"] in COLOURS and r["mode"] == "async"]
    for r in priced:
        out.append(f'<path d="M{x_of(float(r["latency_ms"])):.1f} {y_of(float(r["low"])):.1f}V{y_of(float(r["high"])):.1f}" '
                   f'stroke="{COLOURS[r["costs"]]}" stroke-opacity="0.25"/>')
    for r in priced:
        out.append(mark(MARKS[r["decoder"]], x_of(float(r["latency_ms"])), y_of(float(r["score"])), COLOURS[r["costs"]]))
    x, y = WIDTH - RIGHT + 20, TOP + 10
    for decoder, kind in MARKS.items():
        out += [mark(kind, x, y - 4, "#444"), text(x + 14, y, decoder)]
        y += 19
    y += 12
    for costs, colour in COLOURS.items():
        out += [mark("disc", x, y - 4, colour), text(x + 14, y, NAMES[costs])]
        y += 19
    out += [text(x - 6, y + 14, "Thin bars: 95 % intervals.", 11), "</svg>"]
    print("\n".join(out))


if __name__ == "__main__":
    main()
