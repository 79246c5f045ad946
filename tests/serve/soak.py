#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A server under mixed load for a long time: soak.py BINARY MODEL SECONDS [LOG [CLIENTS]]. Every minute a line with its memory, files and threads and
what it has answered; at the end 0 answers may differ from the command line's, and the memory must have stopped growing after the first third."""
import json, os, random, sys, threading, time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from asking import KINDS, expect
from client import Server, WebSocket, pack, unpack
from storm import Storm

BINARY, MODEL, SECONDS = sys.argv[1], sys.argv[2], float(sys.argv[3])
CLIENTS = int(sys.argv[5]) if len(sys.argv) > 5 else 12
SCENES = 4
FATES = ["whole"] * 8 + ["stream"] * 5 + ["hang-up"] * 3 + ["deadline", "part"]


def sockets(server, until):
    """Now and then somebody opens a websocket, says something wrong and goes."""
    while time.time() < until:
        ws = WebSocket(server.port)
        ws.receive()
        ws.send(b"\xc1" if random.random() < 0.5 else pack({"endpoint": "reset"}))
        ws.receive()
        ws.close()
        time.sleep(0.5)


def main():
    out = open(sys.argv[4], "w") if len(sys.argv) > 4 else sys.stdout
    say = lambda **what: print(json.dumps(what), file=out, flush=True)
    storm = Storm(BINARY, MODEL, [900000017 + i for i in range(SCENES)])
    begin = time.time()
    until = begin + SECONDS
    memory = []
    with Server(BINARY, MODEL) as server:

        def client(k):
            r = random.Random(k)
            while time.time() < until:
                storm.ask(lambda: server, (r.randrange(SCENES), r.choice(KINDS), r.choice(FATES)))
                time.sleep(0.2 * r.random())

        threads = [threading.Thread(target=client, args=(k,)) for k in range(CLIENTS)] + [threading.Thread(target=sockets, args=(server, until))]
        [t.start() for t in threads]
        while time.time() < until:
            time.sleep(min(60, SECONDS / 20))
            memory.append(server.memory_kb())
            proc = f"/proc/{server.process.pid}"
            say(seconds=round(time.time() - begin), rss_kb=memory[-1], files=len(os.listdir(proc + "/fd")), threads=len(os.listdir(proc + "/task")),
                requests=sum(storm.counts.values()), differences=len(storm.wrong))
        [t.join() for t in threads]
        idle = server.wait_idle()
    third = len(memory) // 3
    before, after = max(memory[third:2 * third]), max(memory[2 * third:])
    say(counts=storm.counts, differences=len(storm.wrong), idle=idle, rss_kb_second_third=before, rss_kb_last_third=after)
    expect(not storm.wrong and not storm.counts.get("lost"), f"{storm.wrong[:3]} {storm.counts}")
    expect(idle, "nothing runs and no slot is held afterwards")
    expect(after <= 1.03 * before, f"memory to be flat: {before} kB in the second third, {after} in the last")


main()
