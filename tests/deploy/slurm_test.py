#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""deploy/slurm on a real Slurm of two nodes on this machine, one of which dies in the middle: slurm_test.py BINARY MODEL. Exit 77 (skipped)
without slurmctld, slurmd and root. Every part arrives once, and what is merged is what one process makes alone."""
import glob, json, os, signal, subprocess, sys, tempfile, time

from slurm_cluster import DEPLOY, Cluster, command, expect, skip_without_slurm

BINARY, MODEL = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
PARTS, RECORDS, FIRST_SEED = 6, 60, 900003000


def array(parts=PARTS):
    return [f"--array=0-{parts - 1}"]


def merge(*args):
    return command(sys.executable, os.path.join(DEPLOY, "merge.py"), *args).strip()


def answers_of(file):
    return [(x["record"], x["answer"], x["tokens"], x["fields"]) for x in map(json.loads, open(file))]


def main():
    skip_without_slurm()
    with tempfile.TemporaryDirectory() as folder, Cluster(folder, BINARY) as cluster:
        sets, answers, metrics = f"{folder}/sets", f"{folder}/answers", f"{folder}/metrics"
        job = cluster.submit("simulate.sbatch", sets, FIRST_SEED, RECORDS, options=array())
        cluster.wait(job)
        print(merge("records", sets, f"{folder}/set", str(FIRST_SEED), str(RECORDS)))
        command(BINARY, "simulate", "--seed", FIRST_SEED, "--count", RECORDS, "--out", f"{folder}/alone")

        job = cluster.submit("answers.sbatch", MODEL, f"{folder}/set", RECORDS, answers, "--decoder", "ar", options=array())
        end = time.time() + 60
        # In the middle: the task that runs there stands still with some of its lines.
        lost, lines = "", 0
        while not lines:
            expect(time.time() < end, "a task in the middle: " + cluster.run("squeue") + cluster.logs(job))
            lost = cluster.run("squeue", "-h", "-j", job, "-t", "RUNNING", "-w", "two", "-o", "%K").strip()
            if not lost.isdigit():
                continue
            cluster.signal("two", signal.SIGSTOP)
            partial = f"{answers}/part-{int(lost):05d}.jsonl.partial"
            lines = open(partial).read().count("\n") if os.path.exists(partial) else 0
            if not lines:
                cluster.signal("two", signal.SIGCONT)
        cluster.kill("two")
        print(f"node two dies with task {lost} of {PARTS}, which has {lines} of {RECORDS // PARTS} answers")
        cluster.wait(job)
        expect(len(glob.glob(f"{answers}/part-*.jsonl")) == PARTS, f"every part: {os.listdir(answers)}\n{cluster.logs(job)}")
        print(merge("answers", answers, f"{folder}/answers.jsonl", RECORDS))
        command(BINARY, "run", "--quiet", "--model", MODEL, "--records", f"{folder}/alone", "--out", f"{folder}/alone.jsonl", "--decoder", "ar")
        expect(answers_of(f"{folder}/answers.jsonl") == answers_of(f"{folder}/alone.jsonl"), "the same answers as one process gives to a set of its own")

        begin = time.time()
        cluster.wait(cluster.submit("answers.sbatch", MODEL, f"{folder}/set", RECORDS, answers, "--decoder", "ar", options=array()))
        print(f"the same array again: nothing to do, {time.time() - begin:.1f} s")
        os.remove(sorted(glob.glob(f"{answers}/part-*.jsonl"))[1])
        refused = subprocess.run([sys.executable, os.path.join(DEPLOY, "merge.py"), "answers", answers, f"{folder}/short.jsonl", str(RECORDS)],
                                 capture_output=True, text=True)
        expect(refused.returncode == 1 and "part-00002.jsonl: expected record" in refused.stderr and not os.path.exists(f"{folder}/short.jsonl"),
               f"a part that is missing: {refused.stderr}")

        cluster.wait(cluster.submit("eval.sbatch", MODEL, metrics, "--records", f"{folder}/set", options=array(3)))
        files = sorted(glob.glob(f"{metrics}/part-*.jsonl"))
        expect(len(files) == 3, f"{os.listdir(metrics)}")
        merged = json.loads(command(BINARY, "eval", "--json", "--merge", *files))
        alone = json.loads(command(BINARY, "eval", "--json", "--model", MODEL, "--records", f"{folder}/set"))
        (merged,) = merged["by_decoder"].values()
        same = ("records", "valid", "macro_f1", "classes", "longitudinal_accuracy", "lateral_accuracy")
        expect(all(merged[k] == alone[k] for k in same), f"the same metrics: {[(k, merged[k], alone[k]) for k in same if merged[k] != alone[k]]}")
        error = "ade_5s"
        # A mean over records: one process adds them in their order, a merge in the order of its files.
        expect(abs(merged["all"]["model"][error] - alone["all"]["model"][error]) < 1e-9, f"{merged['all']} {alone['all']}")
        print(f"eval: {merged['records']} records, macro F1 {merged['macro_f1']:.3f}, ADE {merged['all']['model'][error]:.3f} m, as of one process")


main()
