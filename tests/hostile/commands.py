#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What enemy.py starts: a process under limits and signals, the commands that it hits with their inputs, and what their files must look like."""
import hashlib, json, os, re, resource, shlex, shutil, signal, struct, subprocess, time

MB = 1 << 20
NOBODY = 65534
LIMITS = {"AS": resource.RLIMIT_AS, "NPROC": resource.RLIMIT_NPROC, "STACK": resource.RLIMIT_STACK, "NOFILE": resource.RLIMIT_NOFILE,
          "FSIZE": resource.RLIMIT_FSIZE, "CPU": resource.RLIMIT_CPU}


class Done:
    """How a process ended. `code` is negative for a signal, None for a hang (it was killed then)."""

    def __init__(self, code, out, err, wall, usage, ended, handled):
        self.code, self.out, self.err, self.wall, self.ended, self.handled = code, out, err, wall, ended, handled
        self.cpu, self.rss = usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024

    def why(self):
        lines = [line for line in self.err.decode("utf-8", "replace").splitlines() if line.strip()]
        how = "hangs" if self.code is None else f"signal {-self.code}" if self.code < 0 else f"exit {self.code}"
        return how + (f": {lines[-1][:200]}" if lines else "")


def handler_stands(pid, number):
    """Does the process catch this signal (Linux: /proc tells)?"""
    try:
        with open(f"/proc/{pid}/status") as lines:
            mask = next(int(line.split()[1], 16) for line in lines if line.startswith("SigCgt"))
        return bool(mask >> (number - 1) & 1)
    except (OSError, StopIteration):
        return False


def go(argv, folder, seconds=60, limits={}, nobody=False, hit=None, out=None, grace=10, typed=False):
    """Runs argv in `folder`. `hit`: (what, delay): a signal's number, or "reader" that closes the pipe of standard output. `out`: None for a
    file that is read, "closed", "full" (/dev/full) or "pipe". `typed`: standard input is a pipe into which nobody has written yet."""

    def before():
        os.setsid()
        if nobody and os.getuid() == 0:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        for name, (soft) in limits.items():
            resource.setrlimit(LIMITS[name], (soft, soft + 5 if name == "CPU" else soft))
        if out == "closed":
            os.close(1)

    env = dict(os.environ, XDG_CACHE_HOME=os.path.join(os.path.dirname(folder), "cache"), SLIPSTREAM_LOG="info")
    where = os.path.join(os.path.dirname(folder), "streams")
    os.makedirs(where, exist_ok=True)
    reader = None
    with open(f"{where}/out", "wb+") as o, open(f"{where}/err", "wb+") as e:
        target = o
        if out == "full":
            target = open("/dev/full", "wb")
        elif out == "pipe":
            reader, writer = os.pipe()
            target = os.fdopen(writer, "wb")
        start = time.monotonic()
        try:
            p = subprocess.Popen(argv, cwd=folder, stdin=subprocess.PIPE if typed else subprocess.DEVNULL, stdout=target, stderr=e, preexec_fn=before, env=env)
        except OSError as why:  # no process to be had under this limit
            usage = resource.getrusage(resource.RUSAGE_SELF)
            return Done(126, b"", f"slipstream: not started: {why}".encode(), 0, usage, 0, False)
        finally:
            if target is not o:
                target.close()
        struck, handled, status = None, False, 0
        while True:
            pid, status, usage = os.wait4(p.pid, os.WNOHANG)
            now = time.monotonic()
            if pid:
                break
            if hit and struck is None and now - start >= hit[1]:
                if hit[0] == "reader":
                    os.close(reader)
                    reader = None
                else:
                    handled = handler_stands(p.pid, hit[0])
                    os.kill(p.pid, hit[0])
                struck = time.monotonic()
            if now - start > seconds or (struck and hit[0] != "reader" and now - struck > grace):
                os.killpg(p.pid, signal.SIGKILL)
                pid, status, usage = os.wait4(p.pid, 0)
                status = None
                break
            time.sleep(0.002)
        end = time.monotonic()
        p.returncode = 0
        if typed:
            p.stdin.close()
        if reader is not None:
            os.close(reader)
        o.seek(0), e.seek(0)
        code = None if status is None else os.waitstatus_to_exitcode(status)
        return Done(code, o.read(64 * MB), e.read(MB), end - start, usage, end - struck if struck else 0, handled)


def again(argv, limits={}, nobody=False, struck=None):
    """The same for a shell. `struck`: a signal's number and when."""
    short = {"AS": "v", "NPROC": "u", "STACK": "s", "NOFILE": "n", "FSIZE": "f"}
    unit = {"AS": 1024, "STACK": 1024, "FSIZE": 1024}
    words = [f"ulimit -{short[k]} {v // unit.get(k, 1)}; " for k, v in limits.items() if k in short]
    who = "setpriv --reuid 65534 --regid 65534 --clear-groups " if nobody else ""
    after = f"timeout -s {signal.Signals(struck[0]).name[3:]} {struck[1]:.3f} " if struck else ""
    return "(cd $(mktemp -d); " + "".join(words) + who + after + " ".join(shlex.quote(a) for a in argv) + ")"


EGO = {"intent": "GO_STRAIGHT", "history": [[-3.75 + 0.25 * i, -30 + 2 * i, 0, 8, 0, 0, 0] for i in range(16)]}
TEXT = "speed 8.2 m/s\nintent left\nseen pedestrian, cyclist\ncritical pedestrian\nplan slow down, turn left\n"
FORM = {"type": "object", "properties": {
    "kind": {"enum": ["pedestrian", "cyclist", "debris"]}, "n": {"type": "integer", "minimum": 0, "maximum": 1920},
    "d": {"type": "number", "minimum": 0, "maximum": 200}, "tags": {"type": "array", "items": {"type": "string", "pattern": "^[a-z]{1,12}$"}, "maxItems": 3},
    "at": {"anyOf": [{"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}, {"type": "null"}]}}, "required": ["kind", "d"]}
LARGE = {"type": "object", "properties": {f"m{i}": {"type": "array", "items": {"anyOf": [
    {"type": "object", "properties": {"k": {"const": k}, "v": {"type": "string", "pattern": f"^[a-z]{{1,{9 + i}}}$"}}, "required": ["k", "v"]}
    for k in "abcdef"]}, "maxItems": 3} for i in range(4)}}


class Command:
    def __init__(self, name, words, outs=(), heavy=False, free=False):
        self.name, self.words, self.outs, self.heavy, self.free = name, words.split(), outs, heavy, free  # free: other bytes each time

    def argv(self, world):
        return [world.binary] + [w.format(m=world.models, i=world.inputs) for w in self.words]


RUN = "run -q -m {m}/"
COMMANDS = [
    Command("run pictures", RUN + "demo --image {i}/0.ppm {i}/1.ppm {i}/2.ppm --ego {i}/ego.json"),
    Command("run cot", RUN + "demo-cot --record {i}/set:1 --threads 2"),
    Command("run written", RUN + "demo --record {i}/set:2 --picture p.png --trace t.json --threads 2", ("p.png", "t.json"), free=True),
    Command("run records", RUN + "demo-cot --records {i}/set --out a.jsonl --at-once 4", ("a.jsonl",)),
    Command("run records, one", RUN + "pair-target --records {i}/set --out a.jsonl --threads 1 --at-once 1 --decoder ar", ("a.jsonl",)),
    Command("run batch", RUN + "tri --batch {i}/b.jsonl --out o.jsonl", ("o.jsonl",)),
    Command("run text", RUN + "tri --form none --prompt-file {i}/text.txt --max-tokens 60 --temperature 0.9 --seed 4"),
    Command("run stream", RUN + "demo --record {i}/set:0 --stream --decoder scaffold-ar", free=True),
    Command("run pair", RUN + "pair-target --record {i}/set:0 --decoder draft-model --drafter model:{m}/pair-draft"),
    Command("run form", RUN + "demo-cot --form {i}/form.json -p ahead --threads 2"),
    Command("run large form", RUN + "tri --form {i}/large.json -p ahead", heavy=True),
    Command("form check", "form {i}/large.json --check -q -m {m}/demo", heavy=True),
    Command("form", "form {i}/form.json -q --json -m {m}/demo-cot"),
    Command("eval", "eval -q -m {m}/demo --records {i}/set --out e.jsonl --json", ("e.jsonl",)),
    Command("eval table", "eval -q -m {m}/demo-cot --count 4 --decoders ar,fields --csv e.csv", ("e.csv",), free=True, heavy=True),
    Command("drive", "drive -q -m {m}/demo --family free_flow --count 1 --out d.jsonl --csv d.csv", ("d.jsonl", "d.csv"), heavy=True, free=True),
    Command("drive baselines", "drive -q --baselines stay,expert --family cut_in --count 2 --out d.jsonl --csv d.csv", ("d.jsonl", "d.csv")),
    Command("reach", "reach -q -m {m}/reach-target --episodes 2 --csv r.csv", ("r.csv",), heavy=True, free=True),
    Command("reach replay", "reach -q -m {m}/reach-target --draft-model {m}/reach-draft --episodes 1 --replay r.json", ("r.json",)),
    Command("simulate", "simulate -q --seed 5 --count 24 --out made --threads 2", ("made",)),
    Command("simulate picture", "simulate -q --seed 5 --picture s.png", ("s.png",)),
    Command("codebook", "codebook -q --records {i}/set --codes 8 --out b.json", ("b.json",)),
    Command("quantize", "quantize -q {m}/demo --type int8 --out q --records 2", ("q",), free=True),
    Command("synthesize", "synthesize -q --like qwen2.5-0.5b --layers 1 --out syn", ("syn",), heavy=True, free=True),
    Command("synthesize tiny", "synthesize -q --like qwen2.5-vl-3b --tiny --out syn", ("syn",)),
    Command("grow", "grow -q {m}/demo --times 4 --out g", ("g",)),
    Command("export", "export mcap -q --records {i}/set --out x.mcap", ("x.mcap",)),
    Command("preprocess", "preprocess -q -m {m}/demo --image {i}/0.ppm {i}/1.ppm --out px.safetensors", ("px.safetensors",)),
    Command("forward", "forward -q -m {m}/tri --rows {i}/rows.json --out l.safetensors --threads 2", ("l.safetensors",)),
    Command("tokenize", "tokenize -q -m {m}/demo --file {i}/long.txt"),
    Command("bench forward", "bench forward -q -m {m}/tri --widths 1 8 --seconds 0.2 --json", heavy=True, free=True),
    Command("bench answer", "bench answer -q -m {m}/demo --repeats 2 --json", heavy=True, free=True),
    Command("bench decoders", "bench decoders -q -m {m}/pair-target --record {i}/set:0 --repeats 1 --json", heavy=True, free=True),
    Command("bench serve", "bench serve -q -m {m}/demo --decoders auto --clients 2 --seconds 0.2 --turns 1 --scenes 2", heavy=True, free=True),
    Command("bench text", "bench text -q -m {m}/tri --count 20 --decoders self-spec", heavy=True, free=True),
    Command("demo", "demo -q -m {m}/demo-cot --picture d.png", ("d.png",), heavy=True, free=True),
    Command("verify", "verify -q -m {m}/tri --max-width 16", heavy=True, free=True),
    Command("limits", "limits -q --machine h100 -m {m}/demo --out lim", ("lim",), free=True),
    Command("serve", "serve -q -m {m}/demo --port 0 --port-file port", ("port",), heavy=True, free=True),
    Command("train", "train -q --config {i}/train.json --out tr", ("tr",), heavy=True, free=True),
]


# Those that wait for what a person types.
TYPED = [Command("run typed", RUN + "tri --prompt-file -"), Command("run picture typed", RUN + "demo --image - --form none -p x"),
         Command("form typed", "form -"), Command("tokenize typed", "tokenize -q -m {m}/tri --file -")]


class World:
    """The binary, the models, and the inputs that all commands read."""

    def __init__(self, binary, models, root, rng):
        self.binary, self.models, self.root, self.rng = os.path.abspath(binary), os.path.abspath(models), root, rng
        self.inputs = os.path.join(root, "inputs")
        self.serial = 0
        os.makedirs(self.inputs)
        os.chmod(root, 0o755)
        for i in range(3):
            body = bytes(rng.randrange(256) for _ in range(224 * 3)) * 196
            open(f"{self.inputs}/{i}.ppm", "wb").write(b"P6 224 196 255\n" + body)
        draft = os.path.join(self.models, "pair-draft")
        train = {"kind": "sasd", "model": f"{draft}/config.json", "init": draft, "tokenizer": draft,
                 "data": {"kind": "simulated", "first_seed": 4000000, "count": 100000, "model": f"{draft}/config.json", "action_step": 0.1},
                 "objective": {"minimum_noise": 0.001, "sections": [{"name": "action", "weight": 1.0, "beta": [2, 1]}]}, "batch": 4, "seed": 5,
                 "steps": 60, "optimizer": {"lr": 0.0001, "betas": [0.9, 0.98], "epsilon": 1e-08, "weight_decay": 0.0, "clip": 1},
                 "schedule": {"kind": "cosine", "warmup": 4}, "log_every": 5, "save_every": 10, "keep": 2, "out": "out"}
        ask = [{"custom_id": f"q{i}", "method": "POST", "url": "/v1/chat/completions", "body": {
            "messages": [{"role": "user", "content": TEXT + "What is next?"}], "max_tokens": 12, "seed": i, "temperature": 0.5 * (i % 3)}} for i in range(9)]
        for name, text in {"ego.json": json.dumps(EGO), "text.txt": TEXT + "Describe the scene.", "form.json": json.dumps(FORM), "large.json": json.dumps(LARGE),
                           "train.json": json.dumps(train), "b.jsonl": "".join(json.dumps(a) + "\n" for a in ask), "long.txt": TEXT * 2000,
                           "rows.json": json.dumps({"rows": [{"token": 12 + i, "position": i} for i in range(64)]})}.items():
            open(f"{self.inputs}/{name}", "w").write(text)
        r = go([self.binary, "simulate", "-q", "--seed", "1", "--count", "9", "--out", f"{self.inputs}/set"], self.folder(), 120)
        assert r.code == 0, r.why()

    def folder(self):
        self.serial += 1
        path = os.path.join(self.root, f"r{self.serial}")
        os.makedirs(path)
        os.chmod(path, 0o777)
        return path

    def drop(self, folder):
        shutil.rmtree(folder, ignore_errors=True)


def files(folder):
    return sorted(os.path.relpath(os.path.join(at, f), folder) for at, _, names in os.walk(folder) for f in names)


def lasting(line):
    """Of a line of answers, metrics or drives: what is no time."""
    if "response" in line:
        return str([c["message"]["content"] for c in (line["response"] or {}).get("body", {}).get("choices", [])] or line)
    if "answer" in line or "error" in line:
        return str(line.get("answer", line))
    return str([line.get(k) for k in ("seed", "family", "frame_s", "objects", "longitudinal_right", "lateral_right", "entrant", "score", "success")])


def answer(command, folder, done):
    """What must be the same each time: answers, not times."""
    if command.free:
        return None
    h = hashlib.sha256(b"" if command.outs else done.out)
    for f in files(folder):
        data = open(os.path.join(folder, f), "rb").read()
        if f.endswith(".csv"):
            continue
        if f.endswith(".jsonl"):
            data = "\n".join(lasting(json.loads(line)) for line in data.splitlines()).encode()
        h.update(f.encode() + b"\0" + data)
    return h.hexdigest()


def wrong_file(path):
    """Why a file is not whole, or None."""
    data = open(path, "rb").read()
    name = os.path.basename(path)
    try:
        if name.endswith((".jsonl", ".partial")):
            if data and not data.endswith(b"\n"):
                return "its last line has no end"
            for line in data.splitlines():
                json.loads(line)
        elif name.endswith(".json"):
            json.loads(data)
        elif name.endswith(".png") and not (data.startswith(b"\x89PNG") and b"IEND" in data[-12:]):
            return "not a whole PNG"
        elif name.endswith(".safetensors"):
            size = struct.unpack("<Q", data[:8])[0]
            ends = [v["data_offsets"][1] for k, v in json.loads(data[8:8 + size]).items() if k != "__metadata__"]
            if 8 + size + max(ends) != len(data):
                return "other bytes than its header says"
        elif name.endswith((".csv", "port")) and data and not data.endswith(b"\n"):
            return "its last line has no end"
    except (ValueError, KeyError, struct.error) as why:
        return f"not whole: {why}"
    return None


def left_behind(command, folder, whole):
    """What must not be there after a command was ended. `whole`: the files that an undisturbed one leaves."""
    found = []
    for f in files(folder):
        if re.search(r"\.tmp-|\.gone\b", f) or (re.search(r"\.partial\b", f) and f[:-8] not in command.outs):
            found.append(f"left behind: {f}")
            continue
        why = wrong_file(os.path.join(folder, f))
        if why:
            found.append(f"{f}: {why}")
    for top in command.outs:
        there = {f for f in files(folder) if f.startswith(top + "/")}
        wanted = {f for f in whole if f.startswith(top + "/")}
        if there and command.name != "train" and there < wanted:
            found.append(f"{top}/ lacks {sorted(wanted - there)[0]}")
    found += [f"an empty folder is left: {d}" for d in os.listdir(folder) if os.path.isdir(f"{folder}/{d}") and not os.listdir(f"{folder}/{d}")]
    return found
