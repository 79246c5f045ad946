#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""deploy/systemd, docker, kubernetes and haproxy against the program that they start: files_test.py BINARY MODEL [TREE]. Nothing is deployed. Options
that they pass are options of `slipstream serve`, paths that they ask are answered by a server, ports, names, labels and volumes fit together, and what
the Dockerfile copies and calls is there. systemd-analyze, haproxy, kubectl and python3-yaml are used where they are installed; a line says which part
was not tried."""
import os, re, shlex, shutil, subprocess, sys, tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../serve"))
from asking import expect
from client import Server

BINARY, MODEL = sys.argv[1], sys.argv[2]
TREE = sys.argv[3] if len(sys.argv) > 3 else os.path.join(HERE, "../..")
HELP = subprocess.run([BINARY, "serve", "--help"], capture_output=True, text=True, check=True).stdout
# Options that take something have a type or a default behind their name.
OPTIONS = {m[1]: bool(m[2]) for m in re.finditer(r"^  (?:-\w,)?(--[a-z-]+)( [A-Z][^ ]*)?", HELP, re.M)}


class Skipped(Exception):
    """A tool that is not installed."""


def read(path):
    with open(os.path.join(TREE, path)) as f:
        return f.read()


def run(*args, **more):
    return subprocess.run(args, capture_output=True, text=True, **more)


def options_of(words, where):
    """Of a command line of `serve`: by name; each must be one of the program's, with a value exactly where it takes one."""
    out, words = {}, list(words)
    while words:
        name = words.pop(0)
        expect(name in OPTIONS, f"{where}: expected an option of slipstream serve, got {name}")
        takes = OPTIONS[name]
        expect(not takes or (words and not words[0].startswith("--")), f"{where}: {name} expects a value")
        out[name] = words.pop(0) if takes else None
    return out


def seconds(text):
    return float(text.removesuffix("s"))


def systemd_unit():
    path = "deploy/systemd/slipstream.service"
    unit = read(path)
    value = lambda key: re.search(rf"^{key}=(.*)$", unit, re.M)[1]
    command = value("ExecStart").split()
    expect(command[:2] == ["/usr/bin/slipstream", "serve"] and command[-1] == "$SLIPSTREAM_OPTIONS", f"{path}: {command}")
    drain = options_of(command[2:-1], path)["--drain-timeout"]
    expect(seconds(value("TimeoutStopSec")) > float(drain) + 10, f"{path}: TimeoutStopSec leaves what drains {drain} s and the program ten to end")
    example = re.search(r"^#\s+SLIPSTREAM_OPTIONS=(.*)$", unit, re.M)[1]
    expect("--model" in options_of(example.split(), f"{path}: the example"), f"{path}: the example names a model")
    expect(value("EnvironmentFile") == "/etc/default/slipstream" and "/etc/default/slipstream" in unit.split("[Unit]")[0], f"{path}: the options' file")
    # Its user reads no file that is root's, and sees no device: what the comments offer for keys and GPUs.
    expect(value("DynamicUser") == "yes" and "--api-key-file" not in example, f"{path}: the example names a file of keys that only root reads")
    offered = re.findall(r"^#(?=[A-Z]\w+=)(.*)$", unit, re.M)
    credential = next(line for line in offered if line.startswith("LoadCredential=")).split("=")[1].split(":")[0]
    keyed = next(line for line in offered if line.startswith("ExecStart=/")).removeprefix("ExecStart=").split()
    expect(options_of(keyed[2:-1], f"{path}: with keys") == {**options_of(command[2:-1], path), "--api-key-file": f"${{CREDENTIALS_DIRECTORY}}/{credential}"},
           f"{path}: with keys it is the same command, got {keyed}")
    expect("PrivateDevices=no" in offered, f"{path}: devices for a GPU, got {offered}")
    if not shutil.which("systemd-analyze"):
        raise Skipped("systemd-analyze")
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, "slipstream.service")
        for lines in (unit, re.sub(r"^#(?=[A-Z]\w+=)", "", unit, flags=re.M)):  # as it is, and with all that it offers
            with open(copy, "w") as f:  # the program need not be installed
                f.write(lines.replace("/usr/bin/slipstream", os.path.abspath(BINARY)))
            r = run("systemd-analyze", "verify", copy)
            expect(r.returncode == 0 and not r.stderr.strip(), f"{path}: {r.stderr}")


def instructions():
    """The Dockerfile's, continued lines joined: (word, rest)."""
    joined = re.sub(r"\\\n", " ", read("deploy/docker/Dockerfile"))
    return [tuple(line.split(None, 1)) for line in joined.splitlines() if line.strip() and not line.startswith("#")]


def json_words(text):
    return [w for w in re.findall(r'"([^"]*)"', text)]


def dockerfile():
    path, stages = "deploy/docker/Dockerfile", set()
    lines = instructions()
    value = lambda word: [rest for w, rest in lines if w == word]
    for word, rest in lines:
        if word == "FROM":
            expect(rest.split()[0].startswith("debian:12"), f"{path}: expected Debian 12, got {rest}")
            stages |= {rest.split()[-1]} if " AS " in rest else set()
        if word == "COPY":
            words = rest.split()
            stage = words[0].removeprefix("--from=") if words[0].startswith("--from=") else None
            expect(stage is None or stage in stages, f"{path}: expected a stage before, got {rest}")
            for source in words[:-1] if stage is None else []:
                expect(os.path.exists(os.path.join(TREE, source)), f"{path}: COPY {source}: no such file")
        if word == "RUN":
            for command in rest.split("&&"):
                check_command(shlex.split(command), path)
    expect(run("bash", "-c", f"cd {shlex.quote(TREE)} && ./run help").returncode == 0, "./run help")
    command = json_words(value("ENTRYPOINT")[0]) + json_words(value("CMD")[0])
    expect(command[:2] == ["/usr/bin/slipstream", "serve"], f"{path}: {command}")
    options = options_of(command[2:], path)
    expect(options["--port"] == value("EXPOSE")[0].strip() and options["--host"] == "0.0.0.0", f"{path}: the port that is exposed is the one listened on")
    expect(value("STOPSIGNAL") == ["SIGTERM"], f"{path}: SIGTERM drains")
    packages = set(re.findall(r"packages/(\w+)_\*\.deb", read(path)))
    made = set(re.search(r"set\(CPACK_COMPONENTS_ALL ([^)]*)\)", read("cmake/packages.cmake"))[1].split())
    expect(packages and packages <= made, f"{path}: expected packages of cmake/packages.cmake, got {packages}")
    return options


def check_command(words, path):
    if words[0] == "./run":
        expect(os.access(os.path.join(TREE, "run"), os.X_OK), f"{path}: ./run is no program")
        expect(re.search(rf"^  {words[1]}\)", read("run"), re.M), f"{path}: ./run has no {words[1]}")
        return
    at = shutil.which(words[0], path="/usr/sbin:/usr/bin:/sbin:/bin")
    if not os.path.exists("/etc/debian_version"):
        return
    expect(at, f"{path}: expected a command of Debian, got {words[0]}")
    owner = next((r.stdout.split(":")[0] for p in (at, at.replace("/usr", "", 1)) if (r := run("dpkg", "-S", p)).returncode == 0), "")
    what = run("dpkg-query", "-W", "-f=${Essential} ${Priority}", owner).stdout
    expect("yes" in what or "required" in what or owner == "apt", f"{path}: {words[0]} is in {owner}, which a bare Debian has not: {what}")


def of_kind(documents, kind, name):
    found = [d for d in documents if d["kind"] == kind and d["metadata"]["name"] == name]
    expect(len(found) == 1, f"expected one {kind} {name}, got {len(found)}")
    return found[0]


def port_of(container, ref):
    return next(p["containerPort"] for p in container["ports"] if ref in (p["name"], p["containerPort"]))


def labels_fit(selector, template, what):
    labels = template["metadata"]["labels"]
    expect(selector and all(labels.get(k) == v for k, v in selector.items()), f"{what}: selects {selector}, its pods have {labels}")


def mounts_fit(spec):
    volumes = {v["name"] for v in spec["volumes"]}
    for c in spec["containers"]:
        mounted = {m["name"] for m in c["volumeMounts"]}
        expect(mounted <= volumes, f"{c['name']}: mounts {mounted} of {volumes}")


def manifests(image, server):
    try:
        import yaml
    except ImportError:
        raise Skipped("python3-yaml") from None
    folder = "deploy/kubernetes"
    resources = yaml.safe_load(read(f"{folder}/kustomization.yaml"))["resources"]
    documents = [d for name in resources for d in yaml.safe_load_all(read(f"{folder}/{name}"))]
    expect(set(resources) == set(os.listdir(os.path.join(TREE, folder))) - {"kustomization.yaml"}, f"every manifest is named: {resources}")

    replicas, service = of_kind(documents, "StatefulSet", "slipstream"), of_kind(documents, "Service", "slipstream-replicas")
    spec = replicas["spec"]["template"]["spec"]
    container = spec["containers"][0]
    options = {**image, **options_of(container["args"], folder)}  # args take the place of CMD
    port = int(options["--port"])
    expect(port_of(container, "http") == port and service["spec"]["ports"][0]["port"] == port, f"the port of the image, {port}")
    expect(spec["terminationGracePeriodSeconds"] > float(image["--drain-timeout"]) + 10, "a grace period that lets what drains end")
    expect(options["--model"] in {m["mountPath"] for m in container["volumeMounts"]}, "the model's folder is mounted")
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        get = container[probe]["httpGet"]
        expect(port_of(container, get["port"]) == port, f"{probe}: its port")
        expect(get["path"] == ("/livez" if probe == "livenessProbe" else "/health"), f"{probe}: {get['path']}")
        expect(server.get(get["path"])[0] == 200, f"{probe}: the server answers {get['path']}")
    notes = replicas["spec"]["template"]["metadata"]["annotations"]
    expect(notes["prometheus.io/port"] == str(port) and server.get(notes["prometheus.io/path"])[0] == 200, f"metrics: {notes}")
    expect(replicas["spec"]["serviceName"] == service["metadata"]["name"], "the replicas' service")
    labels_fit(replicas["spec"]["selector"]["matchLabels"], replicas["spec"]["template"], "the replicas")
    labels_fit(service["spec"]["selector"], replicas["spec"]["template"], "their service")
    labels_fit(of_kind(documents, "PodDisruptionBudget", "slipstream")["spec"]["selector"]["matchLabels"], replicas["spec"]["template"], "their budget")
    mounts_fit(spec)

    front = of_kind(documents, "Deployment", "slipstream-front")
    proxy = front["spec"]["template"]["spec"]["containers"][0]
    given = {e["name"]: e.get("value", "") for e in proxy["env"]}
    asked = set(re.findall(r"\$\{(\w+)\}", read("deploy/haproxy/haproxy.cfg")))
    expect(asked <= given.keys(), f"haproxy.cfg asks for {asked}, the front has {set(given)}")
    expect(given["SLIPSTREAM_FRONT"].endswith(f":{port_of(proxy, 'http')}"), "the front's port")
    hosts = [f"{replicas['metadata']['name']}-{k}.{service['metadata']['name']}.$(NAMESPACE).svc.cluster.local:{port}" for k in range(replicas["spec"]["replicas"])]
    expect([given[f"SLIPSTREAM_{k + 1}"] for k in range(len(hosts))] == hosts, f"the replicas by name: {hosts}")
    expect(len(asked) == len(hosts) + 1, f"a server of haproxy.cfg for each of {len(hosts)} replicas")
    labels_fit(front["spec"]["selector"]["matchLabels"], front["spec"]["template"], "the front")
    labels_fit(of_kind(documents, "Service", "slipstream")["spec"]["selector"], front["spec"]["template"], "its service")
    mounts_fit(front["spec"]["template"]["spec"])
    if not shutil.which("kubectl"):
        raise Skipped("kubectl")
    r = run("kubectl", "kustomize", os.path.join(TREE, folder))
    expect(r.returncode == 0 and r.stdout.count("\nkind: ") == len(documents), f"kubectl kustomize: {r.stderr}")


def proxy():
    config = "deploy/haproxy/haproxy.cfg"
    path = re.search(r"option httpchk GET (\S+)", read(config))[1]
    expect(path == "/health", f"{config}: replicas are watched by {path}")
    if not shutil.which("haproxy"):
        raise Skipped("haproxy")
    env = {**os.environ, "SLIPSTREAM_1": "127.0.0.1:1", "SLIPSTREAM_2": "127.0.0.1:2", "SLIPSTREAM_FRONT": "127.0.0.1:3"}
    r = run("haproxy", "-c", "-f", os.path.join(TREE, config), env=env)
    expect(r.returncode == 0, f"{config}: {r.stdout} {r.stderr}")


def main():
    failed = 0
    with Server(BINARY, MODEL) as server:
        for what in (systemd_unit, dockerfile, lambda: manifests(dockerfile(), server), proxy):
            name = what.__name__ if what.__name__ != "<lambda>" else "manifests"
            try:
                what()
                print(f"ok   {name}", flush=True)
            except Skipped as e:
                print(f"skip {name}: what needs {e}, which is not installed", flush=True)
            except Exception as e:
                failed += 1
                print(f"FAIL {name}: {type(e).__name__}: {e}", flush=True)
    return 1 if failed else 0


sys.exit(main())
