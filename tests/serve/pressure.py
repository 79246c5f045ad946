# SPDX-License-Identifier: Apache-2.0
"""What a server is put under: more requests than it has room for, and a head that never ends."""
import socket, threading, time

from asking import expect
from load import load, quantile, told

RETRY_S = 1  # what Retry-After says at least


class Overload:
    """A crowd that asks for `seconds`, waits as Retry-After says and asks again; beside it one more connection that hardly waits. Both are processes of
    their own. `ms` has the sorted milliseconds of each status, of both; `peak_kb` is the most memory that the server had."""

    def __init__(self, server, body, connections, seconds):
        processes = [load(server.port, connections, seconds, RETRY_S, body), load(server.port, 1, seconds, 0.02, body)]
        self.peak_kb, both = 0, []
        reader = threading.Thread(target=lambda: both.extend(told(p) for p in processes))
        reader.start()
        while reader.is_alive():
            self.peak_kb = max(self.peak_kb, server.memory_kb())
            reader.join(0.05)
        expect(len(both) == 2, "both crowds to end")
        self.ms = {status: sorted(x for b in both for x in b["ms"].get(status, [])) for status in {s for b in both for s in b["ms"]}}
        self.without_retry_after = sum(b["without_retry_after"] for b in both)
        self.lost = sum(b["lost"] for b in both)

    def counts(self):
        return {status: len(ms) for status, ms in sorted(self.ms.items())}

    def p99(self, status):
        return quantile(self.ms[status], 0.99)

    def __str__(self):
        return ", ".join(f"{len(ms)} x {status} in p50 {quantile(ms, 0.5):.1f} p99 {quantile(ms, 0.99):.1f} max {ms[-1]:.1f} ms"
                         for status, ms in sorted(self.ms.items())) + f", {self.peak_kb >> 10} MB at most"


class SlowHead(threading.Thread):
    """A head that comes a byte at a time and never ends; `took_s` once the server has closed the connection."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port, self.took_s = port, None
        self.start()

    def run(self):
        with socket.create_connection(("127.0.0.1", self.port), timeout=0.25) as s:
            begin = time.monotonic()
            s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
            while True:
                try:
                    if not s.recv(100):
                        break
                except TimeoutError:
                    try:
                        s.sendall(b"x")
                    except OSError:
                        break
                except OSError:
                    break
            self.took_s = time.monotonic() - begin
