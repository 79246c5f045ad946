# SPDX-License-Identifier: Apache-2.0
"""A real Slurm of two nodes on this machine, for the tests of deploy/slurm: one controller, two slurmd, in a folder of their own."""
import glob, os, shutil, signal, socket, subprocess, sys, time

DEPLOY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../deploy/slurm")


def expect(ok, what):
    if not ok:
        raise AssertionError(what)


def skip_without_slurm():
    """Exit 77 (skipped) without slurmctld, slurmd and root."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("slurmctld", "slurmd", "sbatch"))):
        print("skipped: expected root, slurmctld, slurmd and sbatch")
        sys.exit(77)


def free_ports(n):
    held = [socket.socket() for _ in range(n)]
    for s in held:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in held]
    [s.close() for s in held]
    return ports


def parents():
    """Of every process: its parent and its name."""
    out = {}
    for stat in glob.glob("/proc/[0-9]*/stat"):
        try:
            head, rest = open(stat).read().rsplit(") ", 1)
            pid, name = head.split(" (", 1)
            out[int(pid)] = int(rest.split()[1]), name
        except OSError:
            pass
    return out


class Cluster:
    """Without authentication: a test's cluster, never a real one. `programs`: files that jobs call by their names."""

    def __init__(self, folder, *programs):
        self.folder, self.processes = folder, {}
        ports = free_ports(3)
        host = socket.gethostname().split(".")[0]
        node = lambda name, port: f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=1 State=UNKNOWN"
        lines = ["ClusterName=test", f"SlurmctldHost={host}(127.0.0.1)", f"SlurmctldPort={ports[0]}", "AuthType=auth/none", "CredType=cred/none",
                 "SlurmUser=root", "SlurmdUser=root", f"StateSaveLocation={folder}/state", f"SlurmdSpoolDir={folder}/spool-%n",
                 f"SlurmctldPidFile={folder}/ctld.pid", f"SlurmdPidFile={folder}/%n.pid", f"SlurmctldLogFile={folder}/ctld.log",
                 f"SlurmdLogFile={folder}/%n.log", "ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none", "SelectType=select/cons_tres",
                 "SelectTypeParameters=CR_CPU", "SwitchType=switch/none", "MpiDefault=none", "ReturnToService=2", "SlurmdTimeout=6",
                 "SlurmdParameters=config_overrides", "JobRequeue=1", "SchedulerParameters=sched_interval=1,bf_interval=1",
                 "AccountingStorageType=accounting_storage/none", "JobAcctGatherType=jobacct_gather/none",
                 node("one", ports[1]), node("two", ports[2]), "PartitionName=all Nodes=one,two Default=YES MaxTime=INFINITE State=UP"]
        self.configuration = f"{folder}/slurm.conf"
        open(self.configuration, "w").write("\n".join(lines) + "\n")
        os.makedirs(f"{folder}/state")
        self.env = {**os.environ, "SLURM_CONF": self.configuration, "PATH": f"{folder}/bin:{os.environ['PATH']}"}
        os.makedirs(f"{folder}/bin")
        for program in programs:
            os.symlink(program, f"{folder}/bin/{os.path.basename(program)}")

    def __enter__(self):
        self.start("ctld", ["slurmctld", "-D", "-f", self.configuration])
        for name in ("one", "two"):
            os.makedirs(f"{self.folder}/spool-{name}", exist_ok=True)
            self.start(name, ["slurmd", "-D", "-N", name, "-f", self.configuration])
        end = time.time() + 60
        while self.run("sinfo", "-h", "-t", "idle", "-o", "%D").strip() != "2":
            expect(time.time() < end, "two idle nodes: " + self.run("sinfo"))
            time.sleep(0.3)
        return self

    def __exit__(self, *_):
        for name in list(self.processes):
            self.kill(name)

    def start(self, name, command):
        self.processes[name] = subprocess.Popen(command, env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def run(self, *command):
        r = subprocess.run(command, env=self.env, capture_output=True, text=True)
        return r.stdout + r.stderr

    def kill(self, name):
        """As without power: all at once, so that nobody is left who could tell the controller how a job ended."""
        self.signal(name, signal.SIGSTOP)
        self.signal(name, signal.SIGKILL)
        self.processes.pop(name).wait()

    def signal(self, name, sign):
        for pid in self.tree(self.processes[name].pid, self.steps_of(name)):
            try:
                os.kill(pid, sign)
            except ProcessLookupError:
                pass

    def tree(self, pid, steps):
        """A daemon, the managers of its jobs, which are nobody's children, and all below them."""
        known = parents()
        managers = {known[p][0] for p in steps if p in known and known.get(known[p][0], (0, ""))[1] == "slurmstepd"}
        tree = {pid} | managers | steps
        while more := {p for p, (parent, _) in known.items() if parent in tree} - tree:
            tree |= more
        return tree

    def steps_of(self, name):
        """Processes of a node's jobs."""
        out = set()
        for environ in glob.glob("/proc/[0-9]*/environ"):
            try:
                words = open(environ, "rb").read().split(b"\0")
            except OSError:
                continue
            if f"SLURM_CONF={self.configuration}".encode() in words and f"SLURMD_NODENAME={name}".encode() in words:
                out.add(int(environ.split("/")[2]))
        return out

    def submit(self, script, *args, options=()):
        out = self.run("sbatch", "--parsable", "--export=ALL", f"--output={self.folder}/job-%A-%a.log", *options,
                       os.path.join(DEPLOY, script), *map(str, args))
        expect(out.strip().isdigit(), f"sbatch: {out}")
        return out.strip()

    def wait(self, job, seconds=240):
        end = time.time() + seconds
        while left := self.run("squeue", "-h", "-j", job, "-o", "%K %T %N %r").strip():
            expect("Invalid job id" not in left or time.time() < end, left)
            if "Invalid job id" in left:
                return
            expect(time.time() < end, f"job {job} to end: {left}\n{self.logs(job)}")
            time.sleep(0.3)

    def logs(self, job):
        return "\n".join(f"{os.path.basename(f)}: {open(f).read()[-2000:]}" for f in sorted(glob.glob(f"{self.folder}/job-{job}-*.log")))


def command(*args):
    r = subprocess.run(list(map(str, args)), capture_output=True, text=True)
    expect(r.returncode == 0, f"{args}: exit {r.returncode}: {r.stderr}")
    return r.stdout
