#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The server's promises, checked from outside: checks.py BINARY MODEL [--long] [NAME...]. Each check prints a line; exit 1 if any fails."""
import base64, json, os, shutil, socket, struct, subprocess, sys, tempfile, threading, time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from asking import KINDS, expect, scene, wanted, with_decoder
from client import Client, Server, WebSocket, floats, pack, unpack
from storm import Storm

args = [a for a in sys.argv[1:] if a != "--long"]
LONG = "--long" in sys.argv
BINARY, MODEL, NAMES = args[0], args[1], args[2:]
CHECKS = []


def check(f):
    CHECKS.append(f)
    return f


def timed(f):
    """A check by the clock, which a busy machine fails: with --long, or by its name."""
    return check(f) if LONG or f.__name__ in NAMES else f


@check
def the_content_is_the_command_lines(server):
    body, s = scene(server)
    want = wanted(BINARY, MODEL, body, s)
    for decoder, temperature, seed in KINDS:
        status, answer, _ = server.chat(with_decoder(body, decoder, temperature=temperature, seed=seed))
        expect(status == 200, f"{decoder}: {status} {answer}")
        expect(answer["choices"][0]["message"]["content"] == want[(temperature, seed)], f"{decoder} at {temperature}: other bytes")
        text = fields = 0
        streamed = ""
        for e in server.events(with_decoder(body, decoder, temperature=temperature, seed=seed),
                               stream_options={"include_usage": True, "include_fields": True}):
            if e == "[DONE]":
                text = 1
            else:
                expect("error" not in e, e)
                fields += e.get("slipstream", {}).get("event") == "field"
                streamed += "".join(c["delta"].get("content", "") for c in e["choices"])
        expect(text == 1, "a stream ends in [DONE]")
        expect(streamed == want[(temperature, seed)], f"{decoder}: the stream's bytes")
        expect(fields == len(answer["slipstream"]["fields"]), f"{decoder}: {fields} fields told")


@check
def a_storm_gives_one_answer_each(server_unused):
    total, at_once, restarts, scenes = (5000, 64, 4, 6) if LONG else (60, 16, 1, 1)
    storm = Storm(BINARY, MODEL, [900000017 + i for i in range(scenes)])
    begin = time.time()
    jobs = storm.run(total, at_once, restarts)
    expect(not storm.wrong, f"{len(storm.wrong)} of {total} other than the command line's: {storm.wrong[:3]}")
    expect(sum(storm.counts.values()) == total and not storm.counts.get("lost"), f"{storm.counts}")
    complete = storm.counts.get("whole", 0) + storm.counts.get("stream", 0)
    expect(complete >= sum(job[2] in ("whole", "stream") for job in jobs), f"{storm.counts}")
    print(f"    {total} requests of {scenes} scenes, {at_once} at once, {restarts} restarts, {time.time() - begin:.0f} s: {storm.counts}; 0 differences", flush=True)


@check
def a_restart_and_a_warm_cache_change_nothing(server):
    body, _ = scene(server)
    first, second = server.chat(body)[1], server.chat(body)[1]
    expect(first["choices"] == second["choices"], "the same again")
    expect(second["usage"]["prompt_tokens_details"]["cached_tokens"] > 0, "rows are kept")
    with Server(BINARY, MODEL) as other:
        third = other.chat(body)[1]
    expect(third["choices"] == first["choices"] and third["system_fingerprint"] == first["system_fingerprint"], "after a restart")


@check
def hang_ups_leave_nothing_behind(server):
    body, _ = scene(server)
    want = server.chat(body)[1]["choices"][0]["message"]["content"]
    n = 200 if LONG else 40
    results = []
    bystander = threading.Thread(target=lambda: results.append(server.chat(with_decoder(body, "ar"))[1]["choices"][0]["message"]["content"]))
    bystander.start()
    for i in range(n):
        c = server.connect()
        c.request("POST", "/v1/chat/completions", json.dumps({**with_decoder(body, "ar"), "stream": i % 2 == 0}), {"Content-Type": "application/json"})
        time.sleep(0.002 * (i % 5))
        c.close()
    bystander.join()
    expect(results == [want], "a bystander's bytes")
    expect(server.wait_idle(1.0 if LONG else 60), "at once nothing runs and no slot is held")


@check
def hostile_requests_get_4xx(server):
    slow = socket.create_connection(("127.0.0.1", server.port))
    slow.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n")
    png = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sIIBBBBB", 13, b"IHDR", 100000, 100000, 8, 2, 0, 0, 0) + b"\0\0\0\0"
    image = lambda url: {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]}
    form = lambda name: {"messages": [{"role": "user", "content": "x"}], "response_format": {"type": "json_schema", "json_schema": {"name": name}}}
    deep = {"type": "object"}
    for _ in range(200):
        deep = {"type": "object", "properties": {"a": deep}}
    nested = {"messages": [{"role": "user", "content": "x"}], "response_format": {"type": "json_schema", "json_schema": {"name": "d", "schema": deep}}}
    bad = [image("data:image/png;base64," + base64.b64encode(png).decode()), image("http://169.254.169.254/latest/meta-data"), image("file:///etc/passwd"),
           form("../../etc/passwd"), form("/etc/passwd"), form("x.json"), nested, {"messages": "x"}, {"prompt": "x"}, b"{", b"\xff\xfe", b"[" * 100000,
           {"messages": [{"role": "user", "content": "x"}], "slipstream": {"drafter": "previous:/etc/passwd"}},
           {"messages": [{"role": "user", "content": "x"}], "max_tokens": -1}, {"messages": [{"role": "user", "content": "x"}], "nonsense": 1}]
    slowest = 0
    for body in bad:
        status, _, data = server.post("/v1/chat/completions", body)
        expect(400 <= status < 500, f"{str(body)[:80]}: {status}")
        expect("message" in json.loads(data)["error"], "an error body as OpenAI's")
        begin = time.time()
        expect(server.get("/livez")[0] == 200, "it lives")
        slowest = max(slowest, time.time() - begin)
    status, _, _ = server.post("/v1/chat/completions", b"x" * (33 << 20))
    expect(status == 413, f"33 MiB: {status}")
    expect(server.get("/nowhere")[0] == 404 and server.get("/../../etc/passwd")[0] == 404, "no file leaves")
    expect(not LONG or slowest < 0.5, f"/livez took {slowest:.3f} s")  # by the clock, which a busy machine fails
    if LONG:
        slow.settimeout(15)
        expect(slow.recv(100) == b"", "slow headers are cut off")
    slow.close()


@check
def overload_is_refused_at_once(server_unused):
    seconds, clients = (20, 256) if LONG else (2, 64)
    with Server(BINARY, MODEL, "--running", "8", "--waiting", "8") as server:
        body, _ = scene(server)
        for _ in range(4):
            server.chat(body)
        end = time.time() + seconds
        seen, refused, answered = {}, [], []
        lock = threading.Lock()

        def client():
            while time.time() < end:
                begin = time.time()
                status, answer, headers = server.chat(body)
                took = time.time() - begin
                with lock:
                    seen[status] = seen.get(status, 0) + 1
                    if status == 503:
                        refused.append(took)
                        expect("retry-after" in headers, "Retry-After")
                    if status == 200:
                        answered.append(took)
                if status == 503:
                    time.sleep(0.05)

        before = server.memory_kb()
        threads = [threading.Thread(target=client) for _ in range(clients)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        expect(set(seen) <= {200, 503} and seen.get(200) and seen.get(503), f"{seen}")
        expect(server.wait_idle(), "idle afterwards")
        refused.sort()
        print(f"    {seen}, refusal p50 {refused[len(refused) // 2] * 1e3:.1f} ms, memory {before >> 10} -> {server.memory_kb() >> 10} MB", flush=True)


@check
def sigterm_drains(server_unused):
    with Server(BINARY, MODEL) as server:
        body, _ = scene(server)
        ends = []

        def client():
            last = None
            for e in server.events(with_decoder(body, "ar")):
                last = e
            ends.append(last)

        threads = [threading.Thread(target=client) for _ in range(6)]
        [t.start() for t in threads]
        while server.metric("num_requests_running") + len(ends) < 6:
            time.sleep(0.005)
        server.terminate()
        until = time.monotonic() + 2  # kill(2) returns before a busy process has had the signal
        while (health := server.get("/health")[0]) == 200 and time.monotonic() < until:
            time.sleep(0.002)
        expect(health in (0, 503), f"/health while it drains: {health}")
        [t.join() for t in threads]
        expect(server.process.wait(30) == 0, f"exit {server.process.returncode}")
        expect(ends == ["[DONE]"] * 6, f"accepted streams end in [DONE]: {ends}")


@check
def a_deadline_gives_504_or_a_part(server):
    """By no clock but the server's own: one millisecond is over before three pictures are read, and any time between none and the whole
    answer's gives a part."""
    body, _ = scene(server)
    asked = with_decoder(body, "ar", temperature=0.9, seed=1)
    hurried = lambda ms, **more: {**asked, "slipstream": {**asked["slipstream"], "deadline_ms": ms, **more}}
    for _ in range(3):
        expect(server.chat(hurried(1))[0] in (503, 504), "a deadline that cannot be kept")
        status, answer, _ = server.chat(hurried(1, partial=True))
        expect(status == 200 and answer["partial"] and answer["choices"][0]["finish_reason"] == "length", f"{status} {answer}")
    began = time.time()
    whole = server.chat(asked)[1]
    fields, text = whole["slipstream"]["fields"], whole["choices"][0]["message"]["content"]
    ms, parts, tries = 700 * (time.time() - began), 0, 0
    while parts == 0 or tries < 5:
        tries += 1
        expect(tries < 200, "a part with some of the fields")
        status, answer, _ = server.chat(hurried(ms, partial=True))
        expect(status == 200, f"{status} {answer}")
        got = answer["slipstream"]["fields"]
        content = answer["choices"][0]["message"]["content"]
        expect(text.startswith(content), "the content is the answer's beginning")
        if not answer.get("partial"):
            expect(content == text, "in time it is whole")
        expect(all(fields_at(fields, name) == value for name, value in (got.items() if answer.get("partial") else ())), f"fields are the answer's: {got}")
        plan = answer["slipstream"].get("trajectory")
        expect(not plan or plan["waypoints"] == whole["slipstream"]["trajectory"]["waypoints"], "and so is the plan")
        some = bool(answer.get("partial")) and len(got) > 0
        parts += some
        ms = max(2, ms if some else ms * (0.8 if not answer.get("partial") else 1.25))


def fields_at(fields, name):
    """The value of a field in the result object, whose parts may lie in objects of their own."""
    if name in fields:
        return fields[name]
    at = fields
    for part in name.split("."):
        at = at[int(part)] if isinstance(at, list) else at[part]
    return at


@check
def openpi_frames(server):
    _, s = scene(server)
    raw = [base64.b64decode(u.split(",", 1)[1]) for u in s["images"]]
    history = {b"__ndarray__": True, b"data": struct.pack("<112f", *[x for row in s["ego"]["history"] for x in row]), b"dtype": "<f4", b"shape": [16, 7]}
    observation = {"images": raw, "ego": {"intent": s["ego"]["intent"], "history": history}}
    ws = WebSocket(server.port)
    expect(ws.status == 101, f"upgrade: {ws.status}")
    expect(unpack(ws.receive())["server"] == "slipstream", "metadata first")
    ws.send(pack({**observation, "frame_id": 1}))
    first = unpack(ws.receive())
    expect(first["frame_id"] == 1 and first["actions"][b"shape"] == [20, 2] and len(floats(first["actions"])) == 40, f"{first}")
    ws.send(pack({**observation, "frame_id": 2}))
    again = unpack(ws.receive())
    expect(again["text"] == first["text"] and again["frame_id"] == 2, "the previous answer drafts, the bytes stay")
    ws.send(pack({"endpoint": "reset"}))
    expect(ws.receive() == "reset successful", "reset")
    frames = 500 if LONG else 60
    answered = superseded = 0
    last = None
    for i in range(frames):
        ws.send(pack({**observation, "frame_id": 100 + i}))
        time.sleep(0.05 if LONG else 0.01)
    while answered + superseded < frames:
        reply = unpack(ws.receive())
        if reply.get("superseded"):
            superseded += 1
        else:
            answered += 1
            expect(reply["text"] == first["text"], "the same bytes")
            last = reply["frame_id"]
    expect(last == 100 + frames - 1, "the newest frame is answered")
    expect(answered >= 2, f"frames that come faster than answers do not starve them: {answered} answered")
    ws.send(b"\xc1")
    expect("msgpack" in ws.receive(), "bad bytes are told")
    ws.close()
    print(f"    {frames} frames, {answered} answered, {superseded} superseded", flush=True)


def largest_gap(budget):
    """Of a stream beside long prompts, in seconds: the quietest of some turns, for the machine is shared."""
    gaps = []
    with Server(BINARY, MODEL, "--pass-budget", str(budget)) as server:
        body, _ = scene(server)
        server.chat(with_decoder(body, "ar"))
        for turn in range(4):
            ask = lambda k: {"prompt": f"{turn} {k} " + "go " * 900, "max_tokens": 1, "slipstream": {"decoder": "ar"}}
            statuses = []
            prompts = [threading.Thread(target=lambda k=k: statuses.append(server.post("/v1/completions", ask(k))[0])) for k in range(4)]
            told = []
            for _ in server.events(with_decoder(body, "ar"), stream_options={"include_fields": True}):
                told.append(time.time())
                if len(told) == 8:
                    [t.start() for t in prompts]
            [t.join() for t in prompts]
            expect(statuses == [200] * 4, f"{statuses}")
            gaps.append(max(b - a for a, b in zip(told[8:], told[9:])))
    return min(gaps)


@timed
def a_long_prompt_does_not_hold_up_a_stream(server_unused):
    budget = 20
    cut, whole = largest_gap(budget), largest_gap(10000)
    print(f"    largest gap {cut * 1e3:.0f} ms with a budget of {budget} ms, {whole * 1e3:.0f} ms without", flush=True)
    expect(cut <= 2e-3 * budget or cut < whole / 3, "the largest gap is at most two budgets, or where the machine is not ours a third of what it is without")


@check
def log_probabilities_and_stops(server):
    body, _ = scene(server)
    answer = server.chat({**body, "logprobs": True})[1]["choices"][0]
    tokens = answer["logprobs"]["content"]
    expect(b"".join(bytes(t["bytes"]) for t in tokens).decode() == answer["message"]["content"], "the tokens' bytes are the text")
    expect(all(t["logprob"] <= 0 for t in tokens) and any(t["logprob"] < 0 for t in tokens), "logarithms of probabilities")
    end = None
    for e in server.events({**body, "logprobs": True}):
        if e != "[DONE]" and e["choices"] and e["choices"][0]["logprobs"]:
            end = e["choices"][0]["logprobs"]
    expect(end == answer["logprobs"], "a stream tells the same at its end")
    for decoder in ("ar", "self-spec"):
        ask = {"prompt": "go on", "max_tokens": 24, "slipstream": {"decoder": decoder}}
        text = json.loads(server.post("/v1/completions", ask)[2])["choices"][0]["text"]
        stop = text[4:6]
        cut = json.loads(server.post("/v1/completions", {**ask, "stop": [stop, "no such text"], "logprobs": 0})[2])["choices"][0]
        expect(cut["text"] == text.split(stop)[0] and cut["finish_reason"] == "stop", f"{decoder}: the text before the stop: {cut}")
        expect(len(cut["logprobs"]["token_logprobs"]) == len(cut["logprobs"]["tokens"]), "as many numbers as tokens")
    chat = server.chat({**body, "logprobs": True, "top_logprobs": 3})[1]["choices"][0]["logprobs"]["content"]
    expect([t["logprob"] for t in chat] == [t["logprob"] for t in tokens], "the same numbers with others beside them")
    drawn = [t for t in chat if t["logprob"] < 0]
    expect(drawn and all(1 <= len(t["top_logprobs"]) <= 3 and t["top_logprobs"][0] == {k: t[k] for k in ("token", "logprob", "bytes")} for t in drawn),
           "greedy draws the likeliest")
    text = json.loads(server.post("/v1/completions", {"prompt": "go on", "max_tokens": 8, "logprobs": 2})[2])["choices"][0]["logprobs"]
    expect(all(max(top.values()) == number for top, number in zip(text["top_logprobs"], text["token_logprobs"])), "completions tell them by text")
    ask = {"prompt": "go on", "max_tokens": 24, "temperature": 1.5, "seed": 3, "n": 12}
    each = json.loads(server.post("/v1/completions", ask)[2])["choices"]
    stop = each[1]["text"][2:4]
    cut = json.loads(server.post("/v1/completions", {**ask, "stop": stop})[2])["choices"]
    expect(all(b["text"] == a["text"].split(stop)[0] and b["finish_reason"] == ("stop" if stop in a["text"] else a["finish_reason"]) for a, b in zip(each, cut)),
           f"every choice ends for a reason of its own: {[(b['text'], b['finish_reason']) for b in cut]}")
    refused = server.chat({**body, "stop": "x"})
    expect(refused[0] == 400 and refused[1]["error"]["param"] == "stop", "a stop with a form is refused")


@check
def other_sites_and_types_are_refused(server):
    ask = {"prompt": "go on", "max_tokens": 2}
    here = f"http://127.0.0.1:{server.port}"
    expect(server.post("/v1/completions", ask, {"Origin": here})[0] == 200, "its own page")
    expect(server.post("/v1/completions", ask, {"Origin": "http://elsewhere.example"})[0] == 403, "another site's page")
    expect(server.post("/v1/completions", ask, {"Origin": "null"})[0] == 403, "a page of nowhere")
    expect(server.post("/v1/completions", ask, {"Content-Type": "text/plain"})[0] == 415, "text is no JSON")
    expect(WebSocket(server.port, "Origin: http://elsewhere.example\r\n").status == 403, "another site's websocket")


@check
def large_bodies_have_a_limit_together(server):
    held = []
    for _ in range(20):
        s = socket.create_connection(("127.0.0.1", server.port), timeout=10)
        s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n{" % (32 << 20))
        held.append(s)
    refused = set()

    def look():
        for i, s in enumerate(held):
            s.setblocking(False)
            try:
                head = s.recv(4096)
                if head.startswith(b"HTTP/1.1 503") and b"Retry-After" in head:
                    refused.add(i)
            except OSError:
                pass

    end = time.time() + 60
    while len(refused) < 4 and time.time() < end:
        time.sleep(0.05)
        look()
    time.sleep(0.3)
    look()
    expect(len(refused) == 4, f"of 20 bodies of 32 MiB 16 have room, {len(refused)} refused")
    [s.close() for s in held]
    end = time.time() + 60
    while (status := server.post("/v1/completions", {"prompt": "go on", "max_tokens": 2})[0]) == 503 and time.time() < end:
        time.sleep(0.05)
    expect(status == 200, "room again when they have gone")


@check
def two_replicas_and_one_is_killed(server_unused):
    if not shutil.which("haproxy"):
        print("    skipped: no haproxy", flush=True)
        return
    config = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../deploy/haproxy/haproxy.cfg")
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        front = s.getsockname()[1]
    with Server(BINARY, MODEL) as one, Server(BINARY, MODEL) as two:
        body, _ = scene(one)
        want = one.chat(body)[1]
        env = {**os.environ, "SLIPSTREAM_1": f"127.0.0.1:{one.port}", "SLIPSTREAM_2": f"127.0.0.1:{two.port}", "SLIPSTREAM_FRONT": f"127.0.0.1:{front}"}
        proxy = subprocess.Popen(["haproxy", "-f", config], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            through = Client(front)
            end = time.time() + 20
            while through.get("/health")[0] != 200 and time.time() < end:
                time.sleep(0.05)
            lost, got, retried = [], [], [0]
            until = time.time() + (20 if LONG else 4)

            def client(k):
                while time.time() < until:
                    for attempt in (0, 1):  # a request whose answer had begun cannot be given to another: its client asks once more
                        try:
                            status, answer, _ = through.chat(body)
                        except Exception as e:
                            status, answer = 0, repr(e)
                        if status == 200:
                            got.append((answer["choices"][0]["message"]["content"], answer["system_fingerprint"]))
                            break
                        retried[0] += 1
                        if attempt:
                            lost.append((status, answer))
                        time.sleep(0.2)

            threads = [threading.Thread(target=client, args=(k,)) for k in range(6)]
            [t.start() for t in threads]
            time.sleep(1)
            before = len(got)
            two.process.kill()
            [t.join() for t in threads]
            expect(not lost, f"every request is answered within one retry: {lost[:3]}")
            expect(set(got) == {(want["choices"][0]["message"]["content"], want["system_fingerprint"])}, "the same bytes and fingerprint from both")
            expect(before > 0 and len(got) > before, f"answers before and after: {before}, {len(got)}")
            print(f"    {len(got)} answers, {before} before the kill, {retried[0]} asked once more", flush=True)
        finally:
            proxy.terminate()
            proxy.wait()


@check
def keys_and_small_doors(server_unused):
    with tempfile.NamedTemporaryFile("w") as keys:
        keys.write("secret\n")
        keys.flush()
        with Server(BINARY, MODEL, "--api-key-file", keys.name) as server:
            expect(server.get("/v1/models")[0] == 401 and server.get("/livez")[0] == 200, "keys")
            c = server.connect()
            c.request("GET", "/v1/models", headers={"Authorization": "Bearer secret"})
            expect(json.loads(c.getresponse().read())["data"][0]["object"] == "model", "models")
            status, _, data = server.post("/tokenize", {"prompt": "go on"}, {"Authorization": "Bearer secret"})
            ids = json.loads(data)["tokens"]
            status, _, data = server.post("/detokenize", {"tokens": ids}, {"Authorization": "Bearer secret"})
            expect(json.loads(data)["prompt"] == "go on", "there and back")
            expect(WebSocket(server.port).status == 401, "the websocket too")


def main():
    failed = 0
    with Server(BINARY, MODEL) as server:
        for f in CHECKS:
            if NAMES and f.__name__ not in NAMES:
                continue
            begin = time.time()
            try:
                f(server)
                print(f"ok   {f.__name__} ({time.time() - begin:.1f} s)", flush=True)
            except Exception as e:
                failed += 1
                print(f"FAIL {f.__name__}: {type(e).__name__}: {e}", flush=True)
    return 1 if failed else 0


sys.exit(main())
