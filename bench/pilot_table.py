#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a choice of block per prompt is worth, by counts: the lines of `slipstream eval --out`, one file per draft length.

    pilot_table.py fixed:13=a.jsonl fixed:14=b.jsonl ... blockpilot=p.jsonl measured=m.jsonl

Rows named fixed:* are the candidates; oracle takes for each record the candidate of fewest passes (the model's and the drafter's together),
which is a bound and no method, since it knows the answer. The gain over the best fixed length carries the half width of its 95 % interval over
the records (paired differences, normal).
"""
import json
import math
import sys


def read(path):
    out = {}
    with open(path) as lines:
        for line in lines:
            v = json.loads(line)
            s = v["statistics"]
            out[v["seed"]] = {
                "passes": s["forwards"],
                "head": s.get("drafter_forwards", 0),
                "tokens": s["tokens"] - s.get("forced_tokens", 0),
                "rounds": max(1, s.get("rounds", 1)),
            }
    return out


def main():
    files = dict(argument.split("=", 1) for argument in sys.argv[1:])
    if not files:
        sys.exit(__doc__)
    runs = {name: read(path) for name, path in files.items()}
    seeds = sorted(set.intersection(*(set(r) for r in runs.values())))
    fixed = [name for name in runs if name.startswith("fixed:")]

    def mean(name, key):
        return sum(runs[name][s][key] for s in seeds) / len(seeds)

    best = min(fixed, key=lambda name: mean(name, "passes"))
    runs["oracle"] = {s: min((runs[name][s] for name in fixed), key=lambda r: r["passes"]) for s in seeds}
    print(f"{len(seeds)} records; best fixed length: {best}\n")
    print("| length | passes of the model | of the head | drawn tokens a round | passes against the best fixed |")
    print("|---|--:|--:|--:|--:|")
    for name in runs:
        d = [runs[name][s]["passes"] - runs[best][s]["passes"] for s in seeds]
        m = sum(d) / len(d)
        half = 1.96 * math.sqrt(sum((x - m) ** 2 for x in d) / max(1, len(d) - 1) / len(d))
        rate = sum(runs[name][s]["tokens"] for s in seeds) / sum(runs[name][s]["rounds"] for s in seeds)
        print(f"| {name} | {mean(name, 'passes'):.2f} | {mean(name, 'head'):.2f} | {rate:.2f} | {m:+.2f} ± {half:.2f} |")


if __name__ == "__main__":
    main()
