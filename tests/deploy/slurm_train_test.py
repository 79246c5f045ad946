#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training under srun on a real Slurm of two nodes on this machine: slurm_train_test.py TRAINER CONFIG. Two processes, one a node, make the
bits of one process; when a node dies the job ends, and goes on from its last checkpoint with another number of processes to the same bits.
Exit 77 (skipped) without slurmctld, slurmd and root."""
import glob, hashlib, json, os, re, subprocess, sys, tempfile, time

from slurm_cluster import Cluster, command, expect, skip_without_slurm

TRAINER, CONFIG = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
STEPS, TWO_NODES = 120, ["--nodes=2", "--ntasks=2", "--ntasks-per-node=1", "--cpus-per-task=1", "--no-requeue"]


def last_step(out):
    names = [re.fullmatch(r"step-(\d+)", os.path.basename(f)) for f in glob.glob(f"{out}/step-*")]
    return max([int(name[1]) for name in names if name], default=0)


def bits(out):
    expect(last_step(out) == STEPS, f"{out}: expected {STEPS} steps, got {last_step(out)}")
    return hashlib.sha256(open(f"{out}/step-{STEPS}/model.safetensors", "rb").read()).hexdigest()


def main():
    skip_without_slurm()
    os.environ["MASTER_ADDR"] = "127.0.0.1"  # the nodes' names are nobody's host names
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as folder, Cluster(folder, TRAINER) as cluster:
        config = json.load(open(CONFIG))
        config.update(steps=STEPS, threads=1, save_every=20, keep=2)
        config.pop("out", None)
        json.dump(config, open(f"{folder}/config.json", "w"))
        alone, both, broken = f"{folder}/alone", f"{folder}/both", f"{folder}/broken"
        command(TRAINER, "--config", f"{folder}/config.json", "--out", alone)

        job = cluster.submit("train.sbatch", f"{folder}/config.json", both, options=TWO_NODES)
        cluster.wait(job)
        expect(last_step(both) == STEPS, cluster.logs(job))
        expect(bits(both) == bits(alone), "two processes to make the bits of one")
        print(f"{STEPS} steps by two processes on two nodes: the bits of one process")

        job = cluster.submit("train.sbatch", f"{folder}/config.json", broken, options=TWO_NODES)
        end = time.time() + 120
        while last_step(broken) < 20:
            expect(time.time() < end, "a first checkpoint\n" + cluster.logs(job))
            time.sleep(0.02)
        cluster.kill("two")
        cluster.wait(job)
        stopped = last_step(broken)
        expect(stopped < STEPS, f"the node died too late, behind step {stopped}")
        print(f"node two dies: the job ends, its last checkpoint is step {stopped}")
        r = subprocess.run([TRAINER, "--resume", broken], capture_output=True, text=True)
        expect(r.returncode == 0, f"to go on: exit {r.returncode}: {r.stderr[-500:]}")
        expect(bits(broken) == bits(alone), "the same bits when one process goes on where two were stopped")
        print("one process goes on where two were stopped: the same bits")


main()
