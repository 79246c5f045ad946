# SPDX-License-Identifier: Apache-2.0
"""What else a server promises: under load, hang-ups, hostile bodies, keys, drains, and beside others."""
import base64, json, os, shutil, socket, statistics, struct, subprocess, tempfile, threading, time, zlib

from asking import expect, scene, with_decoder
from client import Client, Server, WebSocket, pack
from load import load, told
from pressure import Overload
from registry import BINARY, LONG, MODEL, Skipped, check, timed


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
    begin = time.time()
    bystander.join()
    expect(results == [want], "a bystander's bytes")
    expect(server.wait_idle(0.1 if LONG else 60), "at once nothing runs and no slot is held")
    took = time.time() - begin
    time.sleep(0.2)  # a request that was still being read would begin now
    expect(server.wait_idle(0.1 if LONG else 60), "and nothing begins afterwards")
    print(f"    {n} hang-ups, idle {took * 1e3:.1f} ms after the last, the bystander's answer included", flush=True)


def hostile_bodies():
    png = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sIIBBBBB", 13, b"IHDR", 100000, 100000, 8, 2, 0, 0, 0) + b"\0\0\0\0"
    image = lambda url: {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]}
    form = lambda name: {"messages": [{"role": "user", "content": "x"}], "response_format": {"type": "json_schema", "json_schema": {"name": name}}}
    deep = {"type": "object"}
    for _ in range(200):
        deep = {"type": "object", "properties": {"a": deep}}
    nested = {"messages": [{"role": "user", "content": "x"}], "response_format": {"type": "json_schema", "json_schema": {"name": "d", "schema": deep}}}
    return [image("data:image/png;base64," + base64.b64encode(png).decode()), image("http://169.254.169.254/latest/meta-data"), image("file:///etc/passwd"),
            form("../../etc/passwd"), form("/etc/passwd"), form("x.json"), nested, {"messages": "x"}, {"prompt": "x"}, b"{", b"\xff\xfe", b"[" * 100000,
            {"messages": [{"role": "user", "content": "x"}], "slipstream": {"drafter": "previous:/etc/passwd"}},
            {"messages": [{"role": "user", "content": "x"}], "max_tokens": -1}, {"messages": [{"role": "user", "content": "x"}], "nonsense": 1}]


@check
def hostile_requests_get_4xx(server):
    """While another process asks /livez all the time: always 200, and in the long run within 100 ms each."""
    seconds, attackers = (10, 4) if LONG else (1, 2)
    lives = load(server.port, 1, seconds, 0.005, path="/livez")
    end = time.time() + seconds
    rounds, wrong = [], []

    def attack():
        first = True
        while first or time.time() < end:
            for body in hostile_bodies():
                status, _, data = server.post("/v1/chat/completions", body)
                if not 400 <= status < 500 or "message" not in json.loads(data)["error"]:
                    wrong.append(f"{str(body)[:80]}: {status} {data[:80]}")
            status, _, _ = server.post("/v1/chat/completions", b"x" * (33 << 20))
            if status != 413 or server.get("/nowhere")[0] != 404 or server.get("/../../etc/passwd")[0] != 404:
                wrong.append(f"33 MiB: {status}, or a file that leaves")
            first = False
            rounds.append(1)

    threads = [threading.Thread(target=attack) for _ in range(attackers)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    alive = told(lives)
    expect(not wrong and len(rounds) >= attackers, f"each is refused with 4xx and an error body as OpenAI's: {wrong[:3]}")
    expect(set(alive["ms"]) == {200} and not alive["lost"], f"/livez answers throughout: {alive}")
    ms = alive["ms"][200]
    print(f"    {len(rounds)} rounds of {len(hostile_bodies()) + 3} attacks, {len(ms)} x /livez, the slowest {ms[-1]:.1f} ms", flush=True)
    expect(not LONG or ms[-1] < 100, f"/livez took {ms[-1]:.1f} ms")


def is_sanitized():
    """Sanitizers keep what was freed for a while: memory grows."""
    with open(BINARY, "rb") as f:
        program = f.read()
    return b"__asan_init" in program or b"__tsan_init" in program


@check
def overload_is_refused_at_once(server_unused):
    """By counts alone: nothing but answers and refusals that say when to come again; and of four waves of them the last two take no more memory, and
    leave no more behind, than the first two did and a quarter."""
    seconds, connections, room = (20, 256, "8") if LONG else (2, 32, "3")
    with Server(BINARY, MODEL, "--running", room, "--waiting", room) as server:
        body = with_decoder(scene(server)[0], "ar")  # which takes far longer to answer than to read: the queue is full on any machine
        for _ in range(4):
            server.chat(body)
        peaks, rests = [], []
        for _ in range(4):
            wave = Overload(server, body, connections, seconds / 4)
            expect(wave.counts().keys() == {200, 503}, f"answers and refusals: {wave.counts()}")
            expect(wave.lost == 0 and wave.without_retry_after == 0, f"{wave.lost} lost, {wave.without_retry_after} refusals without Retry-After")
            expect(server.wait_idle(), "idle afterwards")
            peaks.append(wave.peak_kb)
            rests.append(server.rest_kb())
            print(f"    {wave}, {rests[-1] >> 10} MB afterwards", flush=True)
        for kb, what in ((peaks, "the most memory of each wave"), (rests, "what each leaves")):
            expect(is_sanitized() or max(kb[2:]) <= 1.25 * max(kb[:2]), f"{what} to be flat, got {kb} kB")


@check
def a_body_that_comes_takes_a_place(server_unused):
    """Two places, and two bodies that are half there: the third is refused by its head, until one of them hangs up."""
    with Server(BINARY, MODEL, "--running", "1", "--waiting", "1") as server:
        question = {"messages": [{"role": "user", "content": "go on"}], "max_tokens": 4}
        slow = [socket.create_connection(("127.0.0.1", server.port), timeout=30) for _ in range(2)]
        for s in slow:
            s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{")
        end = time.time() + 30
        while (refused := server.chat(question))[0] != 503 and time.time() < end:  # until both heads have been read
            time.sleep(0.01)
        expect(refused[0] == 503 and refused[1]["error"]["code"] == "queue_full", f"{refused}")
        expect(server.get("/livez")[0] == 200 and server.post("/tokenize", {"prompt": "x"})[0] == 200, "what asks for no answer needs no place")
        slow[0].close()
        while (taken := server.chat(question))[0] != 200 and time.time() < end:
            time.sleep(0.01)
        expect(taken[0] == 200, f"a place that was given back: {taken}")
        slow[1].close()


@timed
def refusals_are_quick_and_deadlines_kept(server_unused):
    """99 of 100 refusals come within 50 ms, and 99 of 100 answers within the deadline: first for texts, then for three pictures each."""
    deadline_ms, refusal_ms = 2000, 50
    wrong = []
    with Server(BINARY, MODEL, "--running", "8", "--waiting", "8") as server:
        pictures, _ = scene(server)
        text = {"messages": [{"role": "user", "content": "go on"}], "max_tokens": 100, "slipstream": {"decoder": "ar"}}
        for name, body in (("texts", text), ("pictures", pictures)):
            body["slipstream"]["deadline_ms"] = deadline_ms
            for _ in range(4):
                server.chat(body)
            crowd = Overload(server, body, 256, 20 if LONG else 4)
            print(f"    {name}: {crowd}", flush=True)
            expect(crowd.lost == 0 and crowd.without_retry_after == 0 and {200, 503} <= crowd.counts().keys() <= {200, 503, 504}, f"{crowd}")
            late = len(crowd.ms.get(504, [])) + sum(ms > deadline_ms for ms in crowd.ms[200])
            if crowd.p99(503) > refusal_ms:
                wrong.append(f"{name}: refusals within {refusal_ms} ms, got {crowd.p99(503):.0f} ms at p99")
            if late > 0.01 * (len(crowd.ms[200]) + len(crowd.ms.get(504, []))):
                wrong.append(f"{name}: what is admitted ends within {deadline_ms} ms, {late} did not")
    expect(not wrong, "; ".join(wrong))


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
def sigterm_while_loading_is_no_failure(server_unused):
    for _ in range(3):
        with tempfile.TemporaryDirectory() as folder:
            port = os.path.join(folder, "port")
            process = subprocess.Popen([BINARY, "serve", "--model", MODEL, "--port", "0", "--port-file", port], stderr=subprocess.DEVNULL)
            while not os.path.exists(port) and process.poll() is None:
                time.sleep(0.001)
            process.terminate()
            expect(process.wait(60) == 0, f"exit 0, got {process.returncode}")


@check
def streams_that_outlast_a_drain_are_told(server_unused):
    """An error and the end mark, where the time that SIGTERM leaves is too short."""
    with Server(BINARY, MODEL, "--drain-timeout", "0") as server:
        ask = {"messages": [{"role": "user", "content": "go on"}], "max_tokens": 400, "temperature": 1.5, "seed": 3, "n": 16}
        told = []
        for e in server.events(ask, stream_options={"include_fields": True}, slipstream={"decoder": "ar"}):
            if not told:
                server.terminate()
            told.append(e)
        expect(len(told) > 2 and told[-1] == "[DONE]" and told[-2].get("error", {}).get("code") == "draining", f"the end of a stream: {told[-2:]}")
        expect(server.process.wait(30) == 0, f"exit {server.process.returncode}")


def stream_beside_prompts(server, name, prompts):
    """A stream of text, a token a pass, and long prompts that come when it has begun: when each token came, and between which of them each prompt ran."""
    tokens, spans = [], []

    def prompt(k):
        begin = len(tokens)
        status = server.post("/v1/completions", {"prompt": f"{name} {k} " + "go " * 900, "max_tokens": 1, "slipstream": {"decoder": "ar"}})[0]
        spans.append((status, begin, len(tokens)))

    threads = [threading.Thread(target=prompt, args=(k,)) for k in range(prompts)]
    ask = {"messages": [{"role": "user", "content": "go on"}], "max_tokens": 250, "slipstream": {"decoder": "ar"}}
    for e in server.events(ask, stream_options={"include_fields": True}):
        if e != "[DONE]" and e.get("slipstream", {}).get("event") == "pass":
            tokens.append(time.monotonic())
            if len(tokens) == 20:
                [t.start() for t in threads]
    [t.join() for t in threads]
    expect(len(tokens) > 100 and all(status == 200 for status, _, _ in spans), f"{len(tokens)} tokens, {spans}")
    return tokens, spans


@check
def a_stream_goes_on_beside_a_prompt(server_unused):
    """By counts: with the least budget a prompt of 900 rows takes at least fourteen passes, and a stream has a token in each of them."""
    with Server(BINARY, MODEL, "--pass-budget", "1") as server:
        tokens, spans = stream_beside_prompts(server, "count", 1)
        beside = spans[0][2] - spans[0][1]
        print(f"    {beside} tokens while a prompt ran", flush=True)
        expect(beside >= 10, f"a stream to go on beside a prompt: {beside} tokens of {len(tokens)}")


def largest_gaps(budget, turns):
    """Of streams beside four long prompts, in seconds, sorted."""
    with Server(BINARY, MODEL, "--pass-budget", str(budget)) as server:
        stream_beside_prompts(server, "first", 1)
        runs = [stream_beside_prompts(server, turn, 4)[0] for turn in range(turns)]
    return sorted(max(b - a for a, b in zip(tokens[20:], tokens[21:])) for tokens in runs)


@timed
def a_long_prompt_does_not_hold_up_a_stream(server_unused):
    """In most of nine turns the largest gap of a stream is at most two budgets: the median turn, since whatever else runs on the machine widens gaps
    too. A stream of text, where each pass gives a token: an answer in a form tells several passes at once."""
    budget_ms = 20
    cut, whole = largest_gaps(budget_ms, 9), largest_gaps(10000, 1)
    print(f"    largest gaps with a budget of {budget_ms} ms: {', '.join(f'{1e3 * x:.0f}' for x in cut)} ms; {1e3 * whole[0]:.0f} ms without", flush=True)
    expect(statistics.median(cut) <= 2e-3 * budget_ms, f"the largest gap is at most {2 * budget_ms} ms")


@check
def other_sites_and_types_are_refused(server):
    ask = {"prompt": "go on", "max_tokens": 2}
    here = f"http://127.0.0.1:{server.port}"
    expect(server.post("/v1/completions", ask, {"Origin": here})[0] == 200, "its own page")
    expect(server.post("/v1/completions", ask, {"Origin": "http://elsewhere.example"})[0] == 403, "another site's page")
    expect(server.post("/v1/completions", ask, {"Origin": "null"})[0] == 403, "a page of nowhere")
    expect(server.post("/v1/completions", ask, {"Content-Type": "text/plain"})[0] == 415, "text is no JSON")
    expect(WebSocket(server.port, "Origin: http://elsewhere.example\r\n").status == 403, "another site's websocket")
    name = f"elsewhere.example:{server.port}"
    expect(server.post("/v1/completions", ask, {"Host": name, "Origin": "http://" + name})[0] == 403, "another site's name for this machine")


def grey_png(side):
    def part(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = zlib.compress((b"\0" + b"\x40" * (3 * side)) * side, 1)
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", head) + part(b"IDAT", rows) + part(b"IEND", b"")


@check
def large_pictures_keep_nobody_waiting(server):
    """Small requests are answered beside requests with large pictures, and those end at their deadlines."""
    url = "data:image/png;base64," + base64.b64encode(grey_png(4000)).decode()
    picture = {"type": "image_url", "image_url": {"url": url}}
    large = {"messages": [{"role": "user", "content": [picture] * 3 + [{"type": "text", "text": "x"}]}], "max_tokens": 2}
    small = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 2}

    def all_at_once(bodies):
        begin, took = time.time(), []

        def ask(body):
            status = server.post("/v1/chat/completions", body)[0]
            took.append((time.time() - begin, status))

        threads = [threading.Thread(target=ask, args=(b,)) for b in bodies]
        [t.start() for t in threads]
        return threads, took

    threads, took = all_at_once([large] * 6)
    time.sleep(0.3)
    begin = time.time()
    expect(server.post("/v1/chat/completions", small)[0] == 200, "a small one is answered")
    waited = time.time() - begin
    [t.join() for t in threads]
    expect({s for _, s in took} == {200} and waited < max(took)[0] / 2, f"in {waited:.2f} s, where the large ones took {sorted(took)}")
    threads, took = all_at_once([{**large, "slipstream": {"deadline_ms": 100}}] * 6)
    [t.join() for t in threads]
    late = max(took)[0]
    expect({s for _, s in took} <= {503, 504} and late < 3, f"late ones read no picture to its end but the first: {sorted(took)}")
    print(f"    a small request took {waited * 1e3:.0f} ms beside 18 pictures, six late ones {late * 1e3:.0f} ms", flush=True)


@check
def large_bodies_have_a_limit_together(server):
    """Of 512 MiB large bodies have seven eighths: 14 of 31 MiB that have come but for a byte, and no 15th. The last eighth is for small ones, which
    are answered meanwhile. Who announces a body and sends nothing keeps out nobody."""
    head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (31 << 20)
    idle = [socket.create_connection(("127.0.0.1", server.port), timeout=10) for _ in range(20)]
    [s.sendall(head) for s in idle]
    time.sleep(0.3)
    expect(server.post("/v1/completions", {"prompt": "go on", "max_tokens": 2})[0] == 200, "room beside bodies that are announced alone")
    [s.close() for s in idle]
    held = []
    for _ in range(20):
        s = socket.create_connection(("127.0.0.1", server.port), timeout=30)
        try:
            s.sendall(head + b"{" * ((31 << 20) - 1))
        except OSError:  # it was refused, and has closed meanwhile
            pass
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
    while len(refused) < 6 and time.time() < end:
        time.sleep(0.05)
        look()
    time.sleep(0.3)
    look()
    expect(len(refused) == 6, f"of 20 bodies of 31 MiB 14 have room, {len(refused)} refused")
    expect(server.post("/v1/completions", {"prompt": "go on", "max_tokens": 2})[0] == 200, "a small one has room beside them")
    [s.close() for s in held]
    end = time.time() + 60
    while (status := server.post("/v1/completions", {"prompt": "go on", "max_tokens": 2})[0]) == 503 and time.time() < end:
        time.sleep(0.05)
    expect(status == 200, "room again when they have gone")


@check
def two_replicas_and_one_is_killed(server_unused):
    if not shutil.which("haproxy"):
        raise Skipped("haproxy is not installed")
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
            stop = threading.Event()

            def client():
                while not stop.is_set():
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

            def go_on(seconds):
                """So long, and on a busy machine until some have been answered."""
                so_far, end = len(got), time.time() + seconds
                while time.time() < end or (len(got) < so_far + 6 and time.time() < end + 60):
                    time.sleep(0.05)

            threads = [threading.Thread(target=client) for _ in range(6)]
            [t.start() for t in threads]
            go_on(1)
            before = len(got)
            two.process.kill()
            go_on(20 if LONG else 3)
            stop.set()
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
            expect(server.post("/livez", {"a": 1})[0] == 401, "no room for bodies without a key")


@check
def a_key_has_a_limit_of_its_own(server_unused):
    with tempfile.NamedTemporaryFile("w") as keys:
        keys.write("one\ntwo\n")
        keys.flush()
        with Server(BINARY, MODEL, "--api-key-file", keys.name, "--key-limit", "1") as server:
            short = {"prompt": "go on", "max_tokens": 2}
            bearer = lambda key: {"Authorization": f"Bearer {key}"}
            c = server.connect()
            c.request("POST", "/v1/completions", json.dumps({"prompt": "go on", "max_tokens": 1000, "stream": True, "slipstream": {"decoder": "ar"}}),
                      {"Content-Type": "application/json", **bearer("one")})
            c.getresponse().readline()  # it is under way
            status, headers, data = server.post("/v1/completions", short, bearer("one"))
            error = json.loads(data).get("error", {})
            expect(status == 429 and error["code"] == "quota" and "retry-after" in headers, f"a second one of the same key: {status} {data[:200]}")
            expect(server.post("/v1/completions", short, bearer("two"))[0] == 200, "another key's")
            c.close()
            end = time.time() + 60
            while (status := server.post("/v1/completions", short, bearer("one"))[0]) == 429 and time.time() < end:
                time.sleep(0.02)
            expect(status == 200, f"the key's next, when its first one has gone: {status}")
            c = server.connect()
            c.request("GET", "/metrics", headers=bearer("two"))
            expect(b'requests_rejected_total{model_name="' in (text := c.getresponse().read()) and b'reason="quota"' in text, "refusals are counted")


@check
def bench_serve_tells_its_loads(server):
    """A few questions of each kind of load, in the process and over sockets: a line for each decoder and load, with the numbers that its readers take."""
    common = ["--decoders", "ar", "--seconds", "0.3", "--turns", "1", "--scenes", "2", "--json"]
    loads = {"per_s": ["--rates", "20"], "hz": ["--hz", "5", "--clients", "2"], "clients": ["--clients", "1,2"]}
    for whom in (["--model", MODEL], ["--url", f"http://127.0.0.1:{server.port}"]):
        for name, options in loads.items():
            r = subprocess.run([BINARY, "bench", "serve", *whom, *options, *common], capture_output=True, text=True, timeout=300)
            expect(r.returncode == 0, f"{whom[0]} {options}: exit {r.returncode}: {r.stderr[-300:]}")
            lines = [json.loads(line) for line in r.stdout.splitlines()]
            expect(len(lines) == (2 if name == "clients" else 1), f"{whom[0]} {options}: {len(lines)} lines")
            for line in lines:
                times = ("first_field_ms", "plan_ms", "answer_ms")
                expect(line["decoder"] == "ar" and name in line and line["answers"] >= 1 and line["missed"] == 0 and line["answers_per_s"] > 0, f"{line}")
                expect(all(0 < line[t]["p50"] <= line[t]["p95"] <= line[t]["p99"] for t in times), f"{line}")
                expect(line["first_field_ms"]["p50"] <= line["answer_ms"]["p50"], f"{line}")
                expect(line.get("sockets") is True if whom[0] == "--url" else line["rows_per_pass"] >= 1, f"{line}")
    r = subprocess.run([BINARY, "bench", "serve", "--url", "http://127.0.0.1:1", *common], capture_output=True, text=True, timeout=60)
    expect(r.returncode not in (0, 1) and r.stderr, f"nobody there: exit {r.returncode} {r.stderr}")
