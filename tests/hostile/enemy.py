#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An enemy of the command line: enemy.py BINARY MODELS_DIR [--seed N] [--scale X] [GROUP...]. Groups, all of them without a name:
signals      SIGINT, SIGTERM and closed outputs at random moments of many commands: no other end than the contract's, nothing half written
memory       limits on address space, threads, stack, open files and file sizes: the same answer, or exit 5 (3 for files)
determinism  threads 1 and 2, exact decoders, seeds, models, forms, requests under way together: the same bytes
options      numbers that no option expects, for every option that takes one: exit 0, or a refusal with its reason
bombs        schemas that ask for far more than they are long: bounded time and memory, valid answers
A line a finding with a command that shows it, then a table of counts; exit 1 where there is a finding. Linux."""
import argparse, json, os, random, re, shutil, signal, sys, tempfile, time
from collections import Counter

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from bombs import BOMBS, invalid, options, text
from commands import COMMANDS, MB, TEXT, TYPED, World, again, answer, files, go, lasting, left_behind

QUICK = ("run pictures", "run records", "run form", "simulate", "forward", "form")  # at a smaller scale
MOST_SECONDS = 10  # of processor time for a schema; what is sound takes 4 at most
SLOW = 2.0  # seconds to an end behind a signal; a machine that does other work is given two more tries
LOADER = ("error while loading shared libraries", "cannot allocate", "cannot create", "failed to map", "not started", "symbol lookup", "ld.so")


class Group:
    def __init__(self, world, scale, name):
        self.world, self.scale, self.name = world, scale, name
        self.counts, self.findings, self.notes = Counter(), 0, ""

    def times(self, n):
        return max(1, round(n * self.scale))

    def part(self, kinds, rng, least=1):
        """All kinds at full scale, else a drawn share of them."""
        return kinds if self.scale >= 1 else rng.sample(kinds, min(len(kinds), max(least, round(len(kinds) * self.scale))))

    def found(self, what, command=""):
        self.findings += 1
        print(f"finding: {self.name}: {what}" + (f"\n  {command}" if command else ""), flush=True)

    def count(self, label):
        self.counts[label] += 1


def whole_run(world, command, known={}):
    """An undisturbed run: its answer and its files, and how long it took."""
    if command.name not in known:
        folder = world.folder()
        endless = command.name == "serve"
        r = go(command.argv(world), folder, 300, hit=(signal.SIGTERM, 1.5) if endless else None)
        if r.code not in (0, 130):
            raise SystemExit(f"{command.name}: expected exit 0 undisturbed, got {r.why()}")
        known[command.name] = (answer(command, folder, r), files(folder), r.wall)
        world.drop(folder)
    return known[command.name]


def signals(g):
    w, rng, ends = g.world, random.Random(g.world.rng.random()), []
    kinds = [signal.SIGINT, signal.SIGTERM, "reader", signal.SIGTERM, signal.SIGINT, "closed", "full"]
    plan = [(c, k) for k in kinds for c in COMMANDS if not (k in ("reader", "closed", "full") and c.name in ("serve", "train"))]
    if g.scale < 1:
        plan = [p for p in plan if p[0].name in QUICK]
    for command, kind in g.part(plan, rng, 8):
        known, whole, wall = whole_run(w, command)
        argv = command.argv(w)
        delay = rng.uniform(0, min(1.5, 1.1 * wall))
        how = f"{command.name}, {getattr(kind, 'name', kind)} after {delay:.3f} s"
        wait = 25 if command.name == "train" else 10
        for tries in (2, 1, 0):
            folder = w.folder()
            shown = again(argv, struck=None if isinstance(kind, str) else (kind, delay))
            out = {"reader": "pipe", "closed": "closed", "full": "full"}.get(kind)
            r = go(argv, folder, 120, out=out, hit=None if kind in ("closed", "full") else (kind, delay), grace=wait)
            struck = r.ended > 0
            if not (struck and kind != "reader" and r.ended > SLOW and tries and r.code is not None):
                break
            w.drop(folder)
        if struck and kind != "reader":
            ends.append(r.ended)
        # What may be: done before, the contract's code, the signal's own end before handlers stood; a pipe without a reader or a refused
        # output ends a program by SIGPIPE or with a reason.
        own = kind if isinstance(kind, int) else signal.SIGPIPE
        if r.code == 0:
            g.count("exit 0")
        elif r.code in (130, 143) and isinstance(kind, int):
            g.count(f"exit {r.code}")
        elif r.code == -own and (kind == "reader" or not r.handled) and kind not in ("closed", "full"):
            g.count("the signal")
        elif isinstance(kind, str) and r.code in (3, 5):
            g.count("refused output")
        else:
            g.found(f"{how}: {r.why()}" + (f" {r.ended:.1f} s behind it" if r.code is None else ""), shown)
        if r.code is not None and struck and kind != "reader" and r.ended > SLOW and command.name != "train":
            g.found(f"{how}: ends {r.ended:.1f} s behind it, three times", shown)
        wrong = left_behind(command, folder, whole)
        if wrong:
            g.found(f"{how}, {r.why()}: {'; '.join(wrong[:3])}", shown)
        if r.code == 0 and known and not isinstance(kind, str) and answer(command, folder, r) != known:
            g.found(f"{how}: exit 0, and another answer than undisturbed", shown)
        if r.code == 130 and command.outs and not command.heavy:  # the same again: it goes on, or begins anew
            r = go(argv, folder, 120)
            if r.code != 0 or (known and answer(command, folder, r) != known):
                g.found(f"{how}, then the same again: {r.why()}" + ("" if r.code else ", another answer"), shown)
            g.count("gone on")
        w.drop(folder)
    for command in TYPED if g.scale >= 1 else TYPED[:1]:
        for kind in (signal.SIGINT, signal.SIGTERM):
            argv = command.argv(w)
            r = go(argv, w.folder(), hit=(kind, rng.uniform(0.3, 1)), typed=True)
            g.count(f"exit {r.code}" if r.code in (130, 143) else "other")
            if r.code not in (130, 143) and (r.handled or r.code != -kind):
                g.found(f"{command.name}, {kind.name} while it waits: {r.why()}", "sleep 9 | " + again(argv, struck=(kind, 0.5)))
    if ends := sorted(ends):
        g.notes = f"to the end behind a signal: {ends[int(0.95 * (len(ends) - 1))] * 1e3:.0f} ms (95 %), {ends[-1] * 1e3:.0f} ms at most"


def memory(g):
    w, rng = g.world, random.Random(g.world.rng.random())
    commands = [c for c in COMMANDS if not c.heavy and c.name != "run stream"]
    if g.scale < 1:
        commands = [c for c in commands if c.name in QUICK]
    for i in range(g.times(320)):
        command = commands[i % len(commands)]
        known, _, _ = whole_run(w, command)
        kind = ("AS", "AS", "AS", "NPROC", "AS", "STACK", "AS", "NOFILE", "AS", "FSIZE")[(i + i // 10) % 10]
        limits, nobody = {}, False
        if kind == "AS":
            limits["AS"] = int(rng.choice([rng.uniform(24, 90), rng.uniform(24, 160), rng.uniform(90, 600)]) * 1024) * 1024
        elif kind == "NPROC":
            limits["NPROC"], nobody = rng.choice([0, 1, 2, 3, 4, 8]), True
        elif kind == "STACK":
            limits["STACK"] = rng.choice([64, 128, 256]) * 1024
            if rng.random() < 0.5:
                limits["AS"] = rng.randrange(80, 300) * MB
        elif kind == "NOFILE":
            limits["NOFILE"] = rng.choice([3, 4, 5, 6, 8, 12, 24])
        else:
            limits["FSIZE"] = rng.choice([0, 1, 1024, 4096, 65536, 1 << 20])
        folder = w.folder()
        argv = command.argv(w)
        r = go(argv, folder, 120, limits, nobody)
        shown = again(argv, limits, nobody)
        how = f"{command.name} under {', '.join(f'{k} {v}' for k, v in limits.items())}"
        words = r.err.decode("utf-8", "replace")
        if r.code == 0:
            g.count("answered")
            if known and answer(command, folder, r) != known:
                g.found(f"{how}: exit 0, and another answer than without limits", shown)
        elif (r.code in (126, 127) and (any(x in words for x in LOADER) or not words)) or (nobody and "Permission denied" in words):
            g.count("not loaded")
        elif r.code == 5 or (r.code == 3 and kind in ("NOFILE", "FSIZE")):
            g.count(f"exit {r.code}")
            if "slipstream" not in words and kind != "FSIZE":
                g.found(f"{how}: exit {r.code} without a reason", shown)
        else:
            g.found(f"{how}: {r.why()}", shown)
        # A last line without an end is cut off where the next run goes on.
        wrong = [x for x in left_behind(command, folder, []) if ".partial: its last line" not in x] if r.code != 0 else []
        if wrong:
            g.found(f"{how}, {r.why()}: {'; '.join(wrong[:3])}", shown)
        if r.code in (3, 5) and command.outs and not nobody:
            r = go(argv, folder, 120)
            g.count("gone on")
            if r.code != 0 or (known and answer(command, folder, r) != known):
                g.found(f"{how}, then the same without: {r.why()}" + ("" if r.code else ", another answer"), shown)
        w.drop(folder)


# Models, what is asked, and the exact decoders of each (docs/guide/choosing-a-decoder.md); the first is what the others are held against.
DECODERS = {
    "chain": "ar auto scaffold-ar scaffold-spec self-spec self-spec-quadratic scaffold-ar+lookup scaffold-spec+fixed:3 scaffold-spec+measured".split(),
    "demo": ["scaffold-spec+diffusion:lora", "scaffold-spec+dflash:{m}/demo/dflash", "scaffold-spec+blockpilot:{m}/demo/blockpilot.bin"],
    "pair": ["draft-model+model:{m}/pair-draft", "draft-model+coupled:{m}/pair-draft"],
    "graph": "fields auto fields-spec ar scaffold-ar scaffold-spec self-spec-quadratic fields+lookup fields-spec+fixed:2 fields-spec+measured fields-spec+diffusion:ahead".split(),
    "text": "ar auto self-spec self-spec-quadratic ar+lookup:3 self-spec+fixed:5 self-spec+lookup".split(),
}
ASKED = [("demo", "--records {i}/set --count 4", "chain", "demo"),
         ("demo-cot", "--records {i}/set --count 4", "graph", None),
         ("pair-target", "--records {i}/set --count 4", "chain", "pair"),
         ("tri", "--batch {i}/b.jsonl", "text", None), ("demo", "--form {i}/form.json --records {i}/set --count 4", "chain", None),
         ("demo-cot", "--form {i}/form.json --records {i}/set --count 4", "graph", None), ("demo", "--visibility graph --records {i}/set --count 4", "graph", None)]


def answers(path):
    """The answers of a file of run --records or --batch, and the errors."""
    return [lasting(json.loads(line)) for line in open(path, encoding="utf-8")]


def determinism(g):
    w, rng = g.world, random.Random(g.world.rng.random())
    for model, question, kind, more in g.part(ASKED, rng):
        draws = ["0:0", "0.7:3", "1.3:11"] if g.scale >= 1 else ["0.7:3"]
        for draw in draws:
            temperature, seed = draw.split(":")
            want = None
            kinds = DECODERS[kind] + DECODERS.get(more, [])
            for decoder in kinds if g.scale >= 1 else kinds[:1] + rng.sample(kinds[1:], 2):
                name, _, part = decoder.partition("+")
                part = part.format(m=w.models)
                words = ["--decoder", name]
                if part:
                    words += ["--width" if re.match(r"fixed|measured|blockpilot", part) else "--drafter", part]
                for threads in ("1", "2"):
                    folder = w.folder()
                    ask = question.format(i=w.inputs).split()
                    if "--batch" in ask:  # a request says itself how it is sampled
                        lines = [json.loads(line) for line in open(f"{w.inputs}/b.jsonl")]
                        for line in lines:
                            line["body"].update(temperature=float(temperature), seed=int(seed), max_tokens=32)
                        open(f"{folder}/b.jsonl", "w").write("".join(json.dumps(line) + "\n" for line in lines))
                        ask[ask.index("--batch") + 1] = f"{folder}/b.jsonl"
                    else:
                        ask += ["--temperature", temperature, "--seed", seed]
                    argv = [w.binary, "run", "-q", "-m", f"{w.models}/{model}", "--out", "a.jsonl", "--threads", threads, "--at-once",
                            str(rng.choice([1, 3, 16])), *ask, *words]
                    r = go(argv, folder, 300)
                    got = answers(f"{folder}/a.jsonl") if r.code == 0 else []
                    how = f"{model}, {' '.join(words)}, temperature {temperature}, threads {threads}"
                    if r.code != 0 or not got:
                        g.found(f"{how}: {r.why()}", again(argv))
                    want = want or got
                    other = [(i, a, b) for i, (a, b) in enumerate(zip(got, want)) if a != b or a.startswith(("{'record'", "{'id'"))]
                    if other:
                        i, a, b = other[0]
                        g.found(f"{how}: {len(other)} answers are not {kinds[0]}'s, first number {i}: {a[:200]!r}, {b[:200]!r}", again(argv))
                    g.counts["equal"] += len(got) - len(other)
                    g.counts["other"] += len(other)
                    if r.code == 0 and len(got) != len(want):
                        g.found(f"{how}: {len(got)} answers in place of {len(want)}", again(argv))
                    w.drop(folder)


def bombs(g):
    w, rng = g.world, random.Random(g.world.rng.random())
    worst = Counter()
    for name in g.part(sorted(BOMBS), rng):
        schema = text(BOMBS[name])
        path = f"{w.inputs}/{re.sub('[^a-z0-9]+', '-', name)}.json"
        open(path, "w").write(schema)
        asks = [["form", path, "--check", "-q"], ["form", path, "--check", "-q", "-m", f"{w.models}/demo"],
                ["run", "-q", "-m", f"{w.models}/tri", "--form", path, "-p", TEXT, "--temperature", "1", "--seed", "5"],
                ["run", "-q", "-m", f"{w.models}/demo-cot", "--form", path, "-p", "ahead"]]
        for ask in asks:
            folder = w.folder()
            argv = [w.binary, *ask]
            r = go(argv, folder, 120, {"AS": 6 << 30, "CPU": 40})
            how = f"{name}: {' '.join(ask[:1] + [a for a in ask if a.endswith(('tri', 'demo', 'demo-cot'))])}"
            if r.code not in (0, 2, 3, 4, 5) or (r.code and b"slipstream" not in r.err and b"#" not in r.err + r.out):
                g.found(f"{how}: {r.why()}", again(argv))
            else:
                g.count(f"{ask[0]} exit {r.code}")
            worst["s"], worst["MB"] = max(worst["s"], r.cpu), max(worst["MB"], r.rss / MB)
            if r.cpu > MOST_SECONDS:
                g.found(f"{how}: {r.cpu:.1f} s of processor time, {r.why()}", again(argv))
            if r.rss > 1 << 30:
                g.found(f"{how}: {r.rss >> 20} MB, {r.why()}", again(argv))
            if ask[0] == "run" and r.code == 0 and '"x-' not in schema:
                why = invalid(json.loads(schema), r.out.decode("utf-8", "replace"))
                if why:
                    g.found(f"{how}: an answer that is not valid: {why}", again(argv))
            w.drop(folder)
        os.remove(path)
    g.notes = f"{worst['s']:.1f} s and {worst['MB']:.0f} MB at most"


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("binary")
    ap.add_argument("models")
    ap.add_argument("groups", nargs="*")
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--scale", type=float, default=1.0)
    o = ap.parse_intermixed_args()
    if set(o.groups) - set(GROUPS):
        ap.error(f"groups are {', '.join(GROUPS)}")
    root = tempfile.mkdtemp(prefix="enemy-")
    world = World(o.binary, o.models, root, random.Random(o.seed))
    table = []
    try:
        for name in o.groups or GROUPS:
            world.rng = random.Random(f"{o.seed} {name}")  # alone it draws what it draws among others
            g, start = Group(world, o.scale, name), time.monotonic()
            GROUPS[name](g)
            table.append((name, sum(g.counts.values()), g.findings, time.monotonic() - start, g))
    finally:
        if not any(row[2] for row in table):
            shutil.rmtree(root, ignore_errors=True)
        else:
            print(f"inputs of the commands above: {root}")
    print(f"{'group':<12} {'runs':>6} {'findings':>9} {'s':>7}  ends")
    for name, runs, findings, seconds, g in table:
        ends = ", ".join(f"{k} {v}" for k, v in sorted(g.counts.items())) + (f"; {g.notes}" if g.notes else "")
        print(f"{name:<12} {runs:>6} {findings:>9} {seconds:>7.1f}  {ends}")
    return 1 if any(row[2] for row in table) else 0


GROUPS = {"signals": signals, "memory": memory, "determinism": determinism, "options": options, "bombs": bombs}
if __name__ == "__main__":
    sys.exit(main())
