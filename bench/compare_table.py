#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ratios out of compare.sh's JSON lines: how many times longer the other engine takes, per type and number of rows.

Every line of another engine stands between two groups of ours. Ours is the mean of the two; where the read bandwidth of the two
differs by more than 12 % the machine changed in between, and the pair is left out. Printed: the median over the pairs that are left."""
import json
import statistics
import sys

STEADY = 0.12


def read(path):
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f if line.strip().startswith("{")]


def groups(lines):
    """Consecutive lines of one engine, round, type and kind."""
    out = []
    for line in lines:
        kind = (line["engine"], line["round"], line["type"], line.get("bench", ""))
        if not out or out[-1][0] != kind or any(l_rows(x) == l_rows(line) for x in out[-1][1]):
            out.append((kind, []))
        out[-1][1].append(line)
    return out


def l_rows(line):
    return line["n_prompt"] if line["engine"].startswith("llama.cpp") else line["rows"]


def other_ms(line):
    if line["engine"].startswith("llama.cpp"):
        return statistics.median(line["samples_ns"]) * 1e-6
    return line["ms"]


def main():
    lines = read(sys.argv[1])
    found, dropped = {}, 0
    g = groups(lines)
    ours_at = [i for i, x in enumerate(g) if x[0][0] == "slipstream"]
    for i, other in enumerate(g):
        engine = other[0][0]
        earlier, later = [j for j in ours_at if j < i], [j for j in ours_at if j > i]
        if engine == "slipstream" or not earlier or not later:
            continue
        before, after = g[earlier[-1]], g[later[0]]
        if before[0][2] != other[0][2] or after[0][2] != other[0][2]:
            continue
        for line in other[1]:
            rows = l_rows(line)
            a = next((x for x in before[1] if x["rows"] == rows), None)
            b = next((x for x in after[1] if x["rows"] == rows), None)
            if a is None or b is None:
                continue
            gbps = sorted((a["read_gbps"], b["read_gbps"]))
            if gbps[1] - gbps[0] > STEADY * gbps[1] and a["bound"] == "memory":
                dropped += 1
                continue
            key = "ms" if engine.startswith("llama.cpp") else "products_ms"
            ours = (a[key] + b[key]) / 2
            found.setdefault((engine, line["type"], rows), []).append((other_ms(line) / ours, ours, other_ms(line), sum(gbps) / 2))
    layers = sorted({x["layers"] for x in lines if "layers" in x})
    print(f"layers of the shape: {', '.join(map(str, layers))} (Qwen2.5-VL-3B has 36); pairs left out for the bandwidth: {dropped}\n")
    print(f"  {'engine':<21} {'type':<5} {'rows':>5} {'pairs':>5} {'ours ms':>9} {'its ms':>9} {'GB/s':>6} {'times longer':>13}")
    for (engine, kind, rows), pairs in sorted(found.items()):
        ratio, ours, its, gbps = (statistics.median(p[i] for p in pairs) for i in range(4))
        print(f"  {engine:<21} {kind:<5} {rows:>5} {len(pairs):>5} {ours:>9.2f} {its:>9.2f} {gbps:>6.1f} {ratio:>12.2f}x")
        print(json.dumps({"compare": engine, "type": kind, "rows": rows, "pairs": len(pairs), "ours_ms": ours, "ms": its,
                          "read_gbps": gbps, "ratio": ratio}), file=sys.stderr)


if __name__ == "__main__":
    main()
