#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""deploy/slurm without a Slurm: slurm_scripts_test.py. What merge.py takes and refuses, and what the scripts do where another attempt runs or has left
something behind. Stand-ins take the places of slipstream and srun. slurm_test.py runs them on a real controller."""
import fcntl, json, os, subprocess, sys, tempfile

from slurm_cluster import DEPLOY, expect


def merge(*args):
    r = subprocess.run([sys.executable, os.path.join(DEPLOY, "merge.py"), *map(str, args)], capture_output=True, text=True)
    expect("Traceback" not in r.stderr, r.stderr)
    return r


def part_of_records(out, number, records, **index):
    part = f"{out}/part-{number:05d}"
    os.makedirs(part)
    with open(f"{part}/shard-00000.slip", "w") as f:
        f.write("x" * records)
    with open(f"{part}/index.json", "w") as f:
        json.dump({"format": "f", "version": 1, "records": records, **index, "shards": [{"file": "shard-00000.slip", "records": records}]}, f)


def parts_of_record_sets(folder):
    def merged(numbers, first, count):
        out = tempfile.mkdtemp(dir=folder)
        for i in numbers:
            part_of_records(out, i, 10, first_seed=100 + 10 * i)
        return merge("records", out, f"{out}/set", first, count), f"{out}/set"

    r, to = merged([0, 1, 2], 100, 30)
    expect(r.returncode == 0, r.stderr)
    whole = json.load(open(f"{to}/index.json"))
    expect((whole["first_seed"], whole["records"], len(whole["shards"])) == (100, 30, 3), f"{whole}")
    # The first, one in the middle, the last.
    for there, words in (([1, 2], "expected records from seed 100 on, got 110"), ([0, 2], "expected records from seed 110 on, got 120"), ([0, 1], "expected 30 records, got 20")):
        r, to = merged(there, 100, 30)
        expect(r.returncode == 1 and words in r.stderr and not os.path.exists(to), f"{there}: {r.stderr}")
    # An array of more tasks than records begins later, and nothing is missing.
    out = tempfile.mkdtemp(dir=folder)
    part_of_records(out, 1, 1, first_seed=7)
    expect(merge("records", out, f"{out}/set", 7, 1).returncode == 0, "a set of one record from the second of two tasks")
    out = tempfile.mkdtemp(dir=folder)
    part_of_records(out, 0, 10, source="simulate --seed 100 --driven 5")
    r = merge("records", out, f"{out}/set", 100, 10)
    expect(r.returncode == 1 and "expected a set of consecutive seeds, got one that says 'simulate --seed 100 --driven 5'" in r.stderr, r.stderr)


def programs(folder, **scripts):
    """A folder of stand-ins, and an environment that finds them first."""
    at = tempfile.mkdtemp(dir=folder)
    for name, text in scripts.items():
        with open(f"{at}/{name}", "w") as f:
            f.write("#!/bin/bash\n" + text)
        os.chmod(f"{at}/{name}", 0o755)
    return {**os.environ, "PATH": f"{at}:{os.environ['PATH']}", "SLURM_ARRAY_TASK_ID": "0", "SLURM_ARRAY_TASK_COUNT": "1", "SLURM_CPUS_PER_TASK": "1"}


def start(script, *args, env):
    return subprocess.Popen(["bash", os.path.join(DEPLOY, script), *args], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def two_attempts_at_a_part(folder):
    # Each attempt tells of itself and waits for a line before it writes what stands behind --out.
    env = programs(folder, slipstream="""
while [[ $1 != --out ]]; do shift; done
echo begun >>"$LOG"
read -r <"$GATE"
echo whole >"$2"
""")
    for script, args in (("answers.sbatch", ["MODEL", "SET", "10"]), ("eval.sbatch", ["MODEL"])):
        out = tempfile.mkdtemp(dir=folder)
        env |= {"LOG": f"{out}/log", "GATE": f"{out}/gate"}
        os.mkfifo(env["GATE"])
        first = start(script, *args, out, env=env)
        with open(env["GATE"], "w") as gate:  # opened by the first attempt, in the middle of its work
            second = start(script, *args, out, env=env)
            try:
                second.wait(0.5)
            except subprocess.TimeoutExpired:
                pass
            expect(second.poll() is None, f"{script}: the second attempt waits for the first, got exit code {second.returncode}")
            gate.write("on\n")
        expect((first.wait(20), second.wait(20)) == (0, 0), f"{script}: both end well, got {first.returncode} and {second.returncode}: {second.stdout.read()}")
        expect(open(env["LOG"]).read() == "begun\n", f"{script}: the part is made once")
        expect(sorted(os.listdir(out)) == ["gate", "log", "part-00000.jsonl"], f"{script}: no lock stays, got {os.listdir(out)}")


def a_lock_that_nobody_lets_go(folder):
    env = programs(folder, slipstream='echo begun >>"$LOG"\n') | {"SLIP_LOCK_SECONDS": "1"}
    for script, args, lock in (("answers.sbatch", ["MODEL", "SET", "10"], "part-00000.jsonl.lock"), ("eval.sbatch", ["MODEL"], ".part-00000.jsonl.lock")):
        out = tempfile.mkdtemp(dir=folder)
        with open(f"{out}/{lock}", "w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            attempt = start(script, *args, out, env=env | {"LOG": f"{out}/log"})
            try:
                told = attempt.communicate(timeout=10)[0]
            except subprocess.TimeoutExpired:
                told = ""
                attempt.kill()
        expect(attempt.wait() == 1 and f"{out}/{lock}: expected it free within 1 s, got it held by another attempt: start task 0 again" in told, f"{script}: {told}")
        expect(os.listdir(out) == [lock], f"{script}: nothing begun, and the lock left to whoever holds it, got {os.listdir(out)}")


def training_goes_on_from_whole_checkpoints(folder):
    env = programs(folder, srun='echo "$*"\n')
    for there, word in (([], "--config"), (["step-100.partial"], "--config"), (["step-100", "step-200.partial"], "--resume"), (["step-200.replaced", "step-200.partial"], "--resume")):
        out = tempfile.mkdtemp(dir=folder)
        for name in there:
            os.mkdir(f"{out}/{name}")
        told = start("train.sbatch", "c.json", out, env=env).communicate(timeout=20)[0]
        expect(f"slipstream-train {word} " in told, f"{there}: expected {word}, got {told}")


with tempfile.TemporaryDirectory() as scratch:
    for check in (parts_of_record_sets, two_attempts_at_a_part, a_lock_that_nobody_lets_go, training_goes_on_from_whole_checkpoints):
        check(scratch)
        print(f"ok   {check.__name__}", flush=True)
