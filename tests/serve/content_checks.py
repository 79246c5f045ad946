# SPDX-License-Identifier: Apache-2.0
"""What is answered: the command line's bytes, whatever asks, streams, draws or was asked before."""
import base64, json, struct, time

from asking import KINDS, expect, scene, wanted, with_decoder
from client import Server, WebSocket, floats, pack, unpack
from registry import BINARY, LONG, MODEL, check
from storm import Storm


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


def observation_of(s):
    raw = [base64.b64decode(u.split(",", 1)[1]) for u in s["images"]]
    history = {b"__ndarray__": True, b"data": struct.pack("<112f", *[x for row in s["ego"]["history"] for x in row]), b"dtype": "<f4", b"shape": [16, 7]}
    return {"images": raw, "ego": {"intent": s["ego"]["intent"], "history": history}}


@check
def openpi_frames(server):
    observation = observation_of(scene(server)[1])
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
    ws.send(pack({**observation, "frame_id": 7, "form": "no such form"}))
    refused = unpack(ws.receive())
    expect(refused["frame_id"] == 7 and "form" in refused["error"], f"whose error it is: {refused}")
    ws.close()
    print(f"    {frames} frames, {answered} answered, {superseded} superseded", flush=True)


@check
def earlier_answers_change_no_byte(server):
    """Six scenes, the first one twice: sessions whose last answer drafts, and the same with a reset before every frame, write what requests without a
    past write. Decoders that are named always take the last answer; `auto` where it expects to win by it."""
    graph = json.loads(server.get("/props")[1])["visibility"] == "graph"
    frames = [scene(server, 900000017 + max(0, i - 1)) for i in range(7)]
    by_auto = 0
    for decoder in ("fields-spec" if graph else "scaffold-spec", "ar", "auto"):
        text_of = lambda answer: answer["choices"][0]["message"]["content"]
        want = [text_of(server.chat(with_decoder(body, decoder))[1]) for body, _ in frames]
        expect(len(set(want)) >= 4, "scenes that differ")
        for i, (body, _) in enumerate(frames):
            asked = with_decoder(body, decoder)
            asked["slipstream"]["session"] = f"earlier {decoder}"
            answer = server.chat(asked)[1]
            expect(text_of(answer) == want[i], f"{decoder}, frame {i} of a session: other bytes")
            drafted = answer["slipstream"]["decoder"]["drafter"].startswith("previous")
            by_auto += decoder == "auto" and drafted
            expect(decoder == "auto" or drafted == (i > 0), f"{decoder}, frame {i}: drafted by {answer['slipstream']['decoder']['drafter']}")
        for reset in (False, True):
            before = server.metric("spec_decode_num_accepted_tokens_total")
            ws = WebSocket(server.port)
            ws.receive()
            for i, (_, s) in enumerate(frames):
                if reset:
                    ws.send(pack({"endpoint": "reset"}))
                    expect(ws.receive() == "reset successful", "reset")
                ws.send(pack({**observation_of(s), "decoder": decoder, "frame_id": i}))
                reply = ws.receive()
                reply = unpack(reply) if isinstance(reply, bytes) else {"error": reply}
                expect("error" not in reply, f"{decoder}: {reply}")
                expect(reply["frame_id"] == i and reply["text"] == want[i], f"{decoder}, frame {i}, reset {reset}: other bytes")
            ws.close()
            held = server.metric("spec_decode_num_accepted_tokens_total") - before
            expect(decoder != "ar" or (held == 0) == reset, f"ar, reset {reset}: {held} tokens of the last answer held")
            by_place, all_held = (server.metric(f"spec_decode_num_accepted_tokens_{word}total") for word in ("per_pos_", ""))
            expect(by_place == all_held > 0, f"{by_place} tokens held by their places, {all_held} in all")
    print(f"    {3 * 3 * len(frames)} frames equal; auto let the last answer draft in {by_auto} of {len(frames)}", flush=True)


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
