#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/gpu without a GPU: gpu_scripts_test.py. Stand-ins take the places of the programs that the scripts start."""
import os, signal, subprocess, tempfile, time

TOOLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/gpu")


def expect(ok, what):
    if not ok:
        raise AssertionError(what)


def file(path, text="", mode=0o755):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write(text)
    os.chmod(path, mode)


def a_pack_replaces_nothing_but_a_pack(folder):
    build, target = f"{folder}/build", f"{folder}/target"
    for name in ("slipstream", "src/cuda/cuda_device_test", "libslipstream_cuda.so"):
        file(f"{build}/{name}")
    file(f"{target}/precious", "theirs")
    r = subprocess.run(["bash", f"{TOOLS}/pack.sh", target, build], capture_output=True, text=True)
    expect(r.returncode == 1 and f"pack: expected a new folder or an earlier pack's, got {target}" in r.stderr, f"a refusal in words, got {r.stderr}")
    expect(open(f"{target}/precious").read() == "theirs", "what was there to stay")


def processes_with(word):
    """Running processes whose command lines have the word."""
    out = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                words = f.read()
        except OSError:
            continue
        if word.encode() in words and int(pid) != os.getpid():
            out.append(int(pid))
    return out


def nobody_is_left(word, where):
    end = time.monotonic() + 10
    while left := processes_with(word):
        if time.monotonic() > end:
            for pid in left:
                os.kill(pid, signal.SIGKILL)
            raise AssertionError(f"{where}: expected no process behind it, got {len(left)}")
        time.sleep(0.05)


# A program that takes long, in a process of its own as under a build or a sanitizer.
LONG = """#!/bin/bash
sleep {seconds} &
echo begun >>"{log}"
wait
"""


def a_build_that_fails_ends_the_drives(folder):
    pack, seconds = f"{folder}/pack", f"1000.{os.getpid()}"
    os.makedirs(f"{pack}/model")
    for script in ("teach.sh", "end_tree.sh"):
        file(f"{pack}/{script}", open(f"{TOOLS}/{script}").read())
    file(f"{pack}/slipstream", LONG.format(seconds=seconds, log=f"{folder}/log"))
    file(f"{pack}/build_trainer.sh", f"#!/bin/bash\nuntil [[ -s {folder}/log ]]; do sleep 0.01; done\necho no compiler\nexit 1\n")
    r = subprocess.run([f"{pack}/teach.sh", "model", "c.json", "1", "1"], capture_output=True, text=True, timeout=30, env={**os.environ, "OUT": f"{folder}/out"})
    expect(r.returncode == 1 and "no compiler" in r.stderr and "expected the trainer to be built" in r.stderr, f"teach.sh: {r.stderr}")
    nobody_is_left(seconds, "teach.sh")


def a_check_that_is_ended_ends_its_groups(folder):
    pack, seconds = f"{folder}/pack", f"1001.{os.getpid()}"
    for name in ("correct.sh", "common.sh", "end_tree.sh"):
        file(f"{pack}/{name}", open(f"{TOOLS}/{name}").read())
    for name in ("slipstream", "cuda_device_test"):
        file(f"{pack}/{name}", LONG.format(seconds=seconds, log=f"{folder}/log"))
    p = subprocess.Popen(["bash", f"{pack}/correct.sh", f"{folder}/out"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + 20
    while not os.path.exists(f"{folder}/log"):
        expect(time.monotonic() < end, "correct.sh: to begin")
        time.sleep(0.02)
    p.send_signal(signal.SIGTERM)
    p.wait(20)
    nobody_is_left(seconds, "correct.sh")


def one_that_starts_others_all_the_time_leaves_none(folder):
    seconds = f"1002.{os.getpid()}"
    file(f"{folder}/starts", f"#!/bin/bash\nwhile :; do\n  sleep {seconds} &\n  echo begun >>{folder}/log\n  sleep 0.01\ndone\n")
    # Between reading the children and the kill there is time for many more.
    file(f"{folder}/bin/cat", '#!/bin/bash\n/bin/cat "$@"\nsleep 0.3\n')
    p = subprocess.Popen([f"{folder}/starts"])
    end = time.monotonic() + 20
    while not os.path.exists(f"{folder}/log"):
        expect(time.monotonic() < end, "a process: to begin")
        time.sleep(0.02)
    env = {**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}"}
    ended = subprocess.run(["bash", "-c", f"set -eu; source {TOOLS}/end_tree.sh; end_tree {p.pid}"], env=env, timeout=120)
    expect(ended.returncode == 0 and p.wait(10) == -signal.SIGTERM, f"end_tree: expected it ended by SIGTERM, got {p.returncode}")
    nobody_is_left(seconds, "end_tree")


CHECKS = [
    a_pack_replaces_nothing_but_a_pack,
    a_build_that_fails_ends_the_drives,
    a_check_that_is_ended_ends_its_groups,
    one_that_starts_others_all_the_time_leaves_none,
]
for check in CHECKS:
    with tempfile.TemporaryDirectory() as scratch:
        check(scratch)
    print(f"ok   {check.__name__}", flush=True)
