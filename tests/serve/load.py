# SPDX-License-Identifier: Apache-2.0
"""Connections that ask the same again and again: load.py PORT CONNECTIONS SECONDS PAUSE_S PATH, a body for POST on standard input, or nothing for
GET. One thread and raw sockets in a process of its own, so that the times are the server's and not those of a busy client. A reply is read as soon
as it comes, also where it comes before the body is sent, as refusals do. A refused connection asks again after PAUSE_S, whatever Retry-After says;
one that asks by GET always does. A line of JSON tells the milliseconds of each status, from the first byte that is sent to the last one that came."""
import heapq, json, selectors, socket, subprocess, sys, time


def load(port, connections, seconds, pause_s, body=None, path="/v1/chat/completions"):
    """Starts such a process; `told` waits for its line."""
    args = [sys.executable, __file__, str(port), str(connections), str(seconds), str(pause_s), path]
    process = subprocess.Popen(args, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    process.stdin.write(json.dumps(body).encode() if body else b"")
    process.stdin.close()
    return process


def told(process):
    line = process.stdout.read()
    process.stdout.close()
    if process.wait() != 0:
        raise RuntimeError(f"load.py: exit {process.returncode}")
    out = json.loads(line)
    out["ms"] = {int(status): sorted(ms) for status, ms in out["ms"].items()}
    return out


def quantile(ms, q):
    """Of sorted numbers."""
    return ms[min(len(ms) - 1, int(q * len(ms)))]


class Asking:
    """A connection and what it asks."""

    def __init__(self, port, request):
        self.port, self.request, self.s = port, request, None
        self.connect()

    def connect(self):
        if self.s:
            self.s.close()
        self.s = socket.create_connection(("127.0.0.1", self.port))
        self.s.setblocking(False)

    def begin(self):
        self.begun, self.left, self.got, self.head, self.size = time.monotonic(), memoryview(self.request), b"", b"", None

    def write(self):
        try:
            self.left = self.left[self.s.send(self.left):]
        except BlockingIOError:
            pass
        except OSError:  # refused, and gone: what it said is still there to be read
            self.left = self.left[:0]

    def read(self):
        """Whether all has come."""
        try:
            part = self.s.recv(1 << 16)
        except BlockingIOError:
            return False
        if not part:
            raise ConnectionError("closed before the answer")
        self.got += part
        if self.size is None and b"\r\n\r\n" in self.got:
            self.head, _ = self.got.lower().split(b"\r\n\r\n", 1)
            self.size = len(self.head) + 4 + int(self.head.split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
        return self.size is not None and len(self.got) >= self.size

    def status(self):
        return int(self.head[9:12])

    def code(self):
        return json.loads(self.got[len(self.head):])["error"]["code"]


class Load:
    def __init__(self, port, connections, seconds, pause_s, path, body):
        self.refused_s, self.answered_s = pause_s, 0 if body else pause_s
        what = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
        request = f"{'POST' if body else 'GET'} {path} HTTP/1.1\r\nHost: localhost\r\n{what}\r\n".encode() + body
        begin = time.monotonic()
        self.end = begin + seconds
        self.selector, self.under_way = selectors.DefaultSelector(), 0
        ramp = min(1.0, seconds / 4)  # they come within this time, not in one moment
        self.waiting = [(begin + ramp * k / connections, k, Asking(port, request)) for k in range(connections)]
        self.number = connections
        self.ms, self.codes, self.bare, self.lost = {}, {}, 0, 0

    def begin_due(self, now):
        while self.waiting and self.waiting[0][0] <= now < self.end:
            asking = heapq.heappop(self.waiting)[2]
            asking.begin()
            self.selector.register(asking.s, selectors.EVENT_READ | selectors.EVENT_WRITE, asking)
            self.under_way += 1

    def look(self, asking, mask):
        if mask & selectors.EVENT_WRITE:
            asking.write()
            if not asking.left:
                self.selector.modify(asking.s, selectors.EVENT_READ, asking)
        if not mask & selectors.EVENT_READ:
            return
        try:
            if asking.read():
                self.finish(asking)
        except OSError:
            self.lost += 1
            self.again(asking, 0.05, True)

    def finish(self, asking):
        status = asking.status()
        self.ms.setdefault(status, []).append(1e3 * (time.monotonic() - asking.begun))
        self.bare += status == 503 and b"\r\nretry-after: " not in asking.head
        if status != 200:
            self.codes[asking.code()] = self.codes.get(asking.code(), 0) + 1
        self.again(asking, self.answered_s if status == 200 else self.refused_s, b"connection: close" in asking.head)

    def again(self, asking, pause_s, fresh):
        self.selector.unregister(asking.s)
        self.under_way -= 1
        if fresh:
            asking.connect()
        self.number += 1
        heapq.heappush(self.waiting, (time.monotonic() + pause_s, self.number, asking))

    def run(self):
        while self.under_way or time.monotonic() < self.end:
            now = time.monotonic()
            self.begin_due(now)
            most = min(0.05, max(0.0, self.waiting[0][0] - now)) if self.waiting else 0.05
            for key, mask in self.selector.select(most):
                self.look(key.data, mask)
        return {"ms": self.ms, "codes": self.codes, "without_retry_after": self.bare, "lost": self.lost}


if __name__ == "__main__":
    port, connections, seconds, pause_s, path = sys.argv[1:]
    print(json.dumps(Load(int(port), int(connections), float(seconds), float(pause_s), path, sys.stdin.buffer.read()).run()))
