# SPDX-License-Identifier: Apache-2.0
"""Questions about simulated scenes for a server, and the command line's answers to them."""
import base64, json, os, subprocess, tempfile


def expect(ok, what):
    if not ok:
        raise AssertionError(what)


def scene(server, seed=900000017):
    status, data = server.get(f"/v1/scene?seed={seed}")
    expect(status == 200, f"scene: {status}")
    s = json.loads(data)
    parts = [{"type": "image_url", "image_url": {"url": u}} for u in s["images"]]
    return {"messages": [{"role": "user", "content": parts}], "slipstream": {"ego": s["ego"]}}, s


def files_of(s, folder):
    """The same question for the command line."""
    out = []
    for i, url in enumerate(s["images"]):
        path = os.path.join(folder, f"{i}.ppm")
        open(path, "wb").write(base64.b64decode(url.split(",", 1)[1]))
        out += ["--image", path]
    ego = os.path.join(folder, "ego.json")
    json.dump(s["ego"], open(ego, "w"))
    return out + ["--ego", ego]


def with_decoder(body, decoder, **more):
    out = dict(body)
    out["slipstream"] = {**body["slipstream"], "decoder": decoder}
    out.update(more)
    return out


KINDS = [("auto", 0, 0), ("ar", 0, 0), ("scaffold-ar", 0.8, 3), ("scaffold-spec", 0.8, 3), ("self-spec", 0, 0), ("scaffold-spec", 0, 0)]


def wanted(binary, model, body, s):
    """The command line's answers to every kind of request, by (temperature, seed)."""
    out = {}
    with tempfile.TemporaryDirectory() as folder:
        question = files_of(s, folder)
        for _, temperature, seed in KINDS:
            if (temperature, seed) not in out:
                r = subprocess.run([binary, "run", "--model", model, "--json", "--temperature", str(temperature), "--seed", str(seed), *question],
                                   capture_output=True, check=True)
                out[(temperature, seed)] = json.loads(r.stdout)["answer"]
    return out
