# SPDX-License-Identifier: Apache-2.0
"""What somebody means ill with who knows the protocols: framings, sizes, replies that nobody reads."""
import os, socket, struct

from asking import expect
from client import WebSocket, pack, unpack
from registry import MODEL, check


def sent(server, head, body=b""):
    """What comes back for these bytes until the server closes."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as s:
        s.sendall(head.replace("\n", "\r\n").encode() + body)
        data = b""
        while part := s.recv(65536):
            data += part
        return data


@check
def a_body_framed_otherwise_is_not_guessed(server):
    """Where its end is not known, the next request's bytes must not be taken from it."""
    for coding in ("xchunked", "gzip, chunked", "identity"):
        reply = sent(server, f"POST /tokenize HTTP/1.1\nHost: localhost\nContent-Type: application/json\nTransfer-Encoding: {coding}\n\n",
                     b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        expect(reply.startswith(b"HTTP/1.1 400") and reply.count(b"HTTP/1.1") == 1, f"{coding}: {reply[:120]}")


@check
def texts_that_cannot_fit_are_refused(server):
    long = "go on " * (1 << 20)
    status, _, data = server.post("/tokenize", {"prompt": long})
    expect(status == 400 and b"at most" in data, f"/tokenize of 6 MiB: {status} {data[:120]}")
    status, reply, _ = server.chat({"messages": [{"role": "user", "content": long[:2 << 20]}], "max_tokens": 1})
    expect(status == 400 and "context" in reply["error"]["message"], f"a prompt of 2 MiB: {status} {str(reply)[:120]}")
    expect(server.wait_idle(), "nothing of it runs on")


@check
def errors_do_not_tell_where_the_model_lies(server):
    folder = os.path.abspath(MODEL)
    asked = [("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], "response_format": {"type": "json_schema", "json_schema": {"name": "y"}}}),
             ("/v1/chat/completions", {"messages": [{"role": "user", "content": "go " * 100000}]}), ("/detokenize", {"tokens": [-1]}), ("/detokenize", {"tokens": [1 << 30]})]
    for path, body in asked:
        status, _, data = server.post(path, body)
        expect(400 <= status < 500 and folder.encode() not in data and MODEL.encode() not in data, f"{path}: {status} {data[:200]}")


@check
def many_small_values_are_refused(server):
    ws = WebSocket(server.port)
    ws.receive()
    ws.send(b"\xdd" + struct.pack(">I", 1 << 20) + b"\x01" * (1 << 20))
    told = ws.receive()
    expect("at most" in told and "values" in told, f"{told[:200]}")
    ws.close()


@check
def who_reads_no_replies_takes_no_memory(server):
    """Tens of thousands of replies to somebody who does not look at them: the server stops listening to them, and goes on with others."""
    before = server.rest_kb()
    deaf = WebSocket(server.port)
    deaf.receive()
    deaf.s.settimeout(2)
    sent_all = False
    try:
        for _ in range(400):
            for _ in range(100):
                deaf.send(pack({"endpoint": "reset"}))
        sent_all = True
    except (TimeoutError, socket.timeout, OSError):
        pass
    expect(server.get("/livez")[0] == 200, "others are answered")
    grown = server.rest_kb() - before
    expect(grown < 32 << 10, f"grown by {grown} kB ({'all were taken' if sent_all else 'it stopped listening'})")
    other = WebSocket(server.port)
    expect(unpack(other.receive())["server"] == "slipstream", "another socket is served")
    other.close()
    deaf.s.close()
