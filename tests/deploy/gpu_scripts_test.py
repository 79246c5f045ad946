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


CHECKS = [a_pack_replaces_nothing_but_a_pack]
for check in CHECKS:
    with tempfile.TemporaryDirectory() as scratch:
        check(scratch)
    print(f"ok   {check.__name__}", flush=True)
