# SPDX-License-Identifier: Apache-2.0
"""Plans of a trajectory head: told as they come, there when a deadline passes, and nothing of the answer depends on them."""
import json, os, subprocess, tempfile, time

from asking import expect, scene, with_decoder
from client import Server, WebSocket, pack, unpack
from content_checks import observation_of
from random_head import write_random_head
from registry import BINARY, MODEL, check


def plans_of(chunks):
    """The plan events of a stream, and the own part of its end."""
    plans, end = [], None
    for chunk in chunks:
        if chunk == "[DONE]":
            break
        own = chunk.get("slipstream") or {}
        if own.get("event") == "plan":
            plans.append(own)
        elif own:
            end = own
    return plans, end


def partial_in_time(ask, ms):
    """The first partial reply that has a plan, its deadline being made to fit."""
    for _ in range(200):
        partial, plan, reply = ask(ms)
        if partial and plan:
            return reply
        ms = max(2, ms * (1.2 if partial else 0.85))
    expect(False, "a deadline that leaves an early plan and no whole answer")


@check
def a_heads_plans_come_early_and_change_no_byte(server):
    body, s = scene(server)
    # The slowest decoder, so that there is time between the first plan and the answer.
    asked = with_decoder(body, "ar", temperature=0.9, seed=1)
    more = lambda **own: {**asked, "slipstream": {**asked["slipstream"], **own}}
    status, refused, _ = server.chat(more(trajectory_head=True))
    expect(status == 400 and "trajectory_head" in refused["error"]["message"], f"a server without one: {status} {refused}")
    without = server.chat(asked)[1]
    with tempfile.TemporaryDirectory() as folder:
        head = os.path.join(folder, "head")
        write_random_head(MODEL, head)
        with Server(BINARY, MODEL, "--trajectory-head", head) as own:
            status, refused, _ = own.chat(more(fast_plan=True))
            expect(status == 400 and "trajectory_head" in refused["error"]["message"], f"without its head: {status} {refused}")
            plain = own.chat(asked)[1]
            expect(plain["slipstream"]["plan_source"] == "answer", "who does not ask for it has the answer's plan")
            began = time.time()
            whole = own.chat(more(trajectory_head=True))[1]
            ms = 700 * (time.time() - began)
            expect(whole["choices"] == without["choices"] == plain["choices"], "the content stays")
            result = whole["slipstream"]
            expect(result["plan_source"] == "head" and head not in str(whole), f"whose plan, and no folder of this machine: {result}")
            expect(result["answer_trajectory"] == without["slipstream"]["trajectory"], "the answer's own plan is beside it")
            plans, end = plans_of(own.events(more(trajectory_head=True, fast_plan=True)))
            sections = [(p["plan_source"], p.get("after_section"), p["final"]) for p in plans]
            expect(sections[0] == ("head", "prompt", False) and ("answer", None, True) in sections, f"{sections}")
            expect(sum(p[2] for p in sections if p[0] == "head") == 1, f"one last plan of the head: {sections}")
            expect(end["trajectory"] == result["trajectory"], "the last plan is the one without early ones")
            early = {p["after_section"]: p["trajectory"] for p in plans if p["plan_source"] == "head"}

            def http(deadline):
                answer = own.chat(more(trajectory_head=True, fast_plan=True, deadline_ms=deadline, partial=True))[1]
                return bool(answer.get("partial")), answer["slipstream"].get("trajectory"), answer["slipstream"]

            part = partial_in_time(http, ms)
            expect(part["plan_source"] == "head" and part["trajectory"] == early[part["after_section"]], f"the newest early plan: {part}")
            observation = {**observation_of(s), "trajectory_head": True, "fast_plan": True, "partial": True, "decoder": "ar", "temperature": 0.9, "seed": 1}
            ws = WebSocket(own.port)
            unpack(ws.receive())

            def socket(deadline):
                ws.send(pack({**observation, "deadline_ms": deadline}))
                reply = ws.receive()
                reply = unpack(reply) if isinstance(reply, bytes) else {"partial": True}
                return bool(reply.get("partial")), reply.get("actions"), reply

            part = partial_in_time(socket, ms)
            expect(part["plan_source"] == "head" and part["after_section"] in early, f"the websocket's: {part}")
            expect(part["actions"][b"shape"] == [25, 2], f"{part}")
            ws.close()


@check
def a_file_of_requests_may_ask_for_the_head_and_another_name(server):
    """`run --batch` takes both as `serve` does, and its answers are those that a server gives."""
    body, _ = scene(server)
    own = {**body, "model": "car-7"}
    headed = {**own, "slipstream": {**body["slipstream"], "trajectory_head": True}}
    asked = {"headed": headed, "own": own, "other": {**body, "model": os.path.basename(MODEL)}}
    with tempfile.TemporaryDirectory() as folder:
        head, requests, out = (os.path.join(folder, name) for name in ("head", "requests.jsonl", "out.jsonl"))
        write_random_head(MODEL, head)
        with open(requests, "w") as f:
            for name, request in asked.items():
                f.write(json.dumps({"custom_id": name, "method": "POST", "url": "/v1/chat/completions", "body": request}) + "\n")
        r = subprocess.run([BINARY, "run", "--model", MODEL, "--batch", requests, "--out", out, "--trajectory-head", head, "--name", "car-7"],
                           capture_output=True, text=True, timeout=300)
        expect(r.returncode == 0, f"exit {r.returncode}: {r.stderr[-300:]}")
        told = {line["custom_id"]: line["response"] for line in map(json.loads, open(out))}
        with Server(BINARY, MODEL, "--trajectory-head", head, "--name", "car-7") as named:
            served = named.chat(headed)[1]
    answers = {name: told[name]["body"] for name in ("headed", "own")}
    expect(all(a["model"] == "car-7" for a in answers.values()), f"whose answers: {told}")
    expect([answers[name]["slipstream"]["plan_source"] for name in ("headed", "own")] == ["head", "answer"], "the head plans for who asks")
    expect(answers["headed"]["slipstream"]["trajectory"] == served["slipstream"]["trajectory"], "a server's plan")
    expect(told["other"]["status_code"] == 404, f"the folder's name is another model's: {told['other']}")
