# SPDX-License-Identifier: Apache-2.0
"""Many mixed requests with hang-ups, deadlines and restarts of the server, each answer compared with the command line's bytes."""
import concurrent.futures, http.client, json, random, threading, time

from asking import KINDS, expect, scene, wanted, with_decoder
from client import Server


class Restarting:
    """A server that is drained and started anew while it is asked: `now` is the one to ask."""

    def __init__(self, binary, model, *options):
        self.start = lambda: Server(binary, model, *options)
        self.now, self.old = self.start(), []

    def restart(self):
        """The next one first, as behind a proxy: somebody always answers."""
        self.old.append(self.now)
        self.now = self.start()
        self.old[-1].terminate()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for s in (*self.old, self.now):
            s.__exit__()


class Storm:
    """Mixed requests, each with a fate of its own: answered whole or streamed, hung up on, with a deadline, with a part wanted."""

    def __init__(self, binary, model, seeds):
        self.binary, self.model = binary, model
        with Server(binary, model) as server:
            scenes = [scene(server, seed) for seed in seeds]
        self.questions = [(body, wanted(binary, model, body, s)) for body, s in scenes]
        self.lock, self.counts, self.wrong = threading.Lock(), {}, []

    def note(self, what):
        with self.lock:
            self.counts[what] = self.counts.get(what, 0) + 1

    def compare(self, job, got, want, whole=True):
        if not (got == want if whole else want.startswith(got)):
            self.wrong.append((job, got[:80]))

    def ask(self, current, job):
        """One request; asked again where its server is full or goes away before it answers."""
        question, (decoder, temperature, seed), fate = job
        body, wants = self.questions[question]
        want = wants[(temperature, seed)]
        asked = with_decoder(body, decoder, temperature=temperature, seed=seed)
        if fate == "hang-up":
            try:
                c = current().connect()
                c.request("POST", "/v1/chat/completions", json.dumps({**asked, "stream": seed == 0}), {"Content-Type": "application/json"})
                time.sleep(0.05 * random.random())
                c.close()
            except OSError:
                pass
            return self.note(fate)
        if fate in ("deadline", "part"):
            asked["slipstream"] = {**asked["slipstream"], "deadline_ms": random.choice((1, 20, 200)), "partial": fate == "part"}
        for _ in range(400):
            server = current()
            try:
                if fate == "stream":
                    ended, got = False, ""
                    for e in server.events(asked):
                        ended = ended or e == "[DONE]"
                        got += "" if e == "[DONE]" else "".join(x["delta"].get("content", "") for x in e.get("choices", []))
                    if ended:
                        self.compare(job, got, want)
                        return self.note(fate)
                else:
                    status, answer, _ = server.chat(asked)
                    if status == 200:
                        self.compare(job, answer["choices"][0]["message"]["content"], want, not answer.get("partial"))
                        return self.note("part" if answer.get("partial") else "whole")
                    if status == 504 and fate == "deadline" or status == 503 and fate in ("deadline", "part"):
                        return self.note(f"late ({status})")
                    expect(status == 503, f"{status} {answer}")
            except (OSError, http.client.HTTPException, ValueError):
                pass  # its server went away
            time.sleep(0.05)
        self.note("lost")

    def run(self, total, at_once, restarts):
        r = random.Random(7)
        fates = ["whole"] * 10 + ["stream"] * 5 + ["hang-up"] * 3 + ["deadline", "part"]
        jobs = [(r.randrange(len(self.questions)), r.choice(KINDS), r.choice(fates)) for _ in range(total)]
        with Restarting(self.binary, self.model) as servers, concurrent.futures.ThreadPoolExecutor(at_once) as pool:
            for k in range(restarts + 1):
                part = [pool.submit(self.ask, lambda: servers.now, job) for job in jobs[k * total // (restarts + 1):(k + 1) * total // (restarts + 1)]]
                if k < restarts:
                    [f.result() for f in part[:len(part) // 2]]
                    servers.restart()  # under the other half
                [f.result() for f in part]
            for s in servers.old:
                expect(s.process.wait(60) == 0, f"a drained server ends with exit {s.process.returncode}")
            expect(servers.now.wait_idle(), "nothing runs and no slot is held afterwards")
        return jobs
