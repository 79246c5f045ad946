#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""FastDriveCoT's figure 4 in miniature: time of decoding against the longest path of an answer, a point an answer, a line by least squares.

    slipstream eval --model MODEL --decoder fields --count 60 --out fields.jsonl     # and ar, fields-spec
    bench/path_figure.py ar.jsonl fields.jsonl fields-spec.jsonl >docs/lab/0011-path.svg
"""
import json
import sys

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 780, 420, 70, 210, 30, 50
COLOURS = ("#888", "#1668b8", "#c2410c")


def points(file):
    """(longest path in tokens, passes, ms of decoding behind the prompt) by answer, and the decoder's name."""
    out, name = [], ""
    for line in open(file):
        r = json.loads(line)
        s, name = r["statistics"], r["label"]
        out.append((s["critical_path"], s["forwards"], s["ms"]["draft"] + s["ms"]["verify"]))
    return name, out


def line(xs, ys):
    """Least squares: where it begins, its slope, and the correlation."""
    n = len(xs)
    mx, my = sum(xs) / n, sum(ys) / n
    sxx, syy = sum((x - mx) ** 2 for x in xs), sum((y - my) ** 2 for y in ys)
    sxy = sum((x - mx) * (y - my) for x, y in zip(xs, ys))
    slope = sxy / sxx if sxx else 0
    return my - slope * mx, slope, sxy / (sxx * syy) ** 0.5 if sxx and syy else 0


def main(files):
    series = [points(f) for f in files]
    most_x = 10 * (max(p[0] for _, ps in series for p in ps) // 10 + 1)
    most_y = max(p[2] for _, ps in series for p in ps) * 1.05
    x = lambda v: LEFT + v / most_x * (WIDTH - LEFT - RIGHT)
    y = lambda v: HEIGHT - BOTTOM - v / most_y * (HEIGHT - TOP - BOTTOM)
    text = lambda a, b, words, anchor="start", colour="#222": f'<text x="{a:.1f}" y="{b:.1f}" text-anchor="{anchor}" fill="{colour}">{words}</text>'
    print(f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="12">')
    print(f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>')
    for i in range(6):
        ms, path = most_y * i / 5, most_x * i / 5
        print(f'<path d="M{LEFT} {y(ms):.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>' + text(LEFT - 8, y(ms) + 4, f"{ms:.0f}", "end"))
        print(text(x(path), HEIGHT - BOTTOM + 18, f"{path:.0f}", "middle"))
    print(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, "longest path, tokens", "middle") + text(10, 18, "ms behind the prompt"))
    for k, (name, ps) in enumerate(series):
        colour = COLOURS[k % len(COLOURS)]
        for path, _, ms in ps:
            print(f'<circle cx="{x(path):.1f}" cy="{y(ms):.1f}" r="3" fill="{colour}" fill-opacity="0.6"/>')
        begin, slope, r = line([p[0] for p in ps], [p[2] for p in ps])
        ends = [min(p[0] for p in ps), max(p[0] for p in ps)]
        print(f'<path d="M{x(ends[0]):.1f} {y(begin + slope * ends[0]):.1f}L{x(ends[1]):.1f} {y(begin + slope * ends[1]):.1f}" stroke="{colour}"/>')
        at = TOP + 40 * k
        print(text(WIDTH - RIGHT + 12, at + 10, name, colour=colour) + text(WIDTH - RIGHT + 12, at + 25, f"{slope:.2f} ms a token, r {r:.2f}", colour=colour))
        print(f"{name}: {begin:.1f} ms and {slope:.3f} a token of the longest path, r {r:.3f}; mean path {sum(p[0] for p in ps) / len(ps):.1f}, "
              f"passes {sum(p[1] for p in ps) / len(ps):.1f}, {sum(p[2] for p in ps) / len(ps):.1f} ms", file=sys.stderr)
    print("</svg>")


main(sys.argv[1:])
