#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Parts of an array as one result.

  merge.py records OUT SET FIRST_SEED COUNT   OUT/part-* of simulate.sbatch as one record set; shards are linked, not copied, where they can be
  merge.py answers OUT FILE COUNT             OUT/part-*.jsonl of answers.sbatch as one file of COUNT lines, in the records' order

FIRST_SEED and COUNT are those that simulate.sbatch was given. Driven sets (--driven) do not say which seeds they have, and are not merged.
What is missing or comes twice is an error, and then nothing is written: FILE and SET take their names when they are whole. Parts of
eval.sbatch: slipstream eval --merge OUT/part-*.jsonl."""
import glob, json, os, shutil, sys


def fail(message):
    sys.exit("merge: " + message)


def parts(out, suffix):
    found = sorted(glob.glob(os.path.join(glob.escape(out), "part-[0-9][0-9][0-9][0-9][0-9]" + suffix)))
    if not found:
        fail(f"{out}: expected part-00000{suffix} and others, got none")
    return found


def absent(path):
    if os.path.exists(path):
        fail(f"{path}: expected a name that is not taken yet, got one that is")
    return f"{path}.merging.{os.getpid()}"


def link(source, target):
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copyfile(source, target)


def records(out, to, first, count):
    begun = absent(to)
    os.makedirs(begun)
    try:
        whole, shards = None, []
        for part in parts(out, ""):
            index = json.load(open(os.path.join(part, "index.json")))
            if "first_seed" not in index:
                fail(f"{part}: expected a set of consecutive seeds, got one that says {index.get('source', 'nothing')!r} of itself")
            if whole is None:
                whole = {**index, "first_seed": first, "records": 0}
            elif {**index, "records": 0, "shards": 0, "first_seed": 0} != {**whole, "records": 0, "shards": 0, "first_seed": 0}:
                fail(f"{part}: expected a set like the part before, got another kind")
            want = whole["first_seed"] + whole["records"]
            if index["first_seed"] != want:
                fail(f"{part}: expected records from seed {want} on, got {index['first_seed']}: is a part missing?")
            for shard in index["shards"]:
                name = f"shard-{len(shards):05d}.slip"
                link(os.path.join(part, shard["file"]), os.path.join(begun, name))
                shards.append({**shard, "file": name})
            whole["records"] += index["records"]
        if whole["records"] != count:
            fail(f"{out}: expected {count} records, got {whole['records']}: is a part missing?")
        whole["shards"] = shards
        with open(os.path.join(begun, "index.json"), "w") as f:
            f.write(json.dumps(whole, indent=2) + "\n")
        os.rename(begun, to)
    finally:
        shutil.rmtree(begun, ignore_errors=True)
    print(f"{whole['records']} records in {to}")


def answers(out, to, count):
    begun = absent(to)
    try:
        done = 0
        with open(begun, "w") as f:
            for part in parts(out, ".jsonl"):
                for line in open(part):
                    record = json.loads(line).get("record")
                    if record != done:
                        fail(f"{part}: expected record {done}, got {record}: is a part missing?")
                    f.write(line)
                    done += 1
            if done != count:
                fail(f"{out}: expected {count} answers, got {done}")
            f.flush()
            os.fsync(f.fileno())
        os.rename(begun, to)
    finally:
        if os.path.exists(begun):
            os.remove(begun)
    print(f"{done} answers in {to}")


def main(args):
    if len(args) == 5 and args[0] == "records" and args[3].isdigit() and args[4].isdigit():
        records(args[1], args[2], int(args[3]), int(args[4]))
    elif len(args) == 4 and args[0] == "answers" and args[3].isdigit():
        answers(args[1], args[2], int(args[3]))
    else:
        sys.exit(__doc__)


main(sys.argv[1:])
