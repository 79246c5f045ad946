# SPDX-License-Identifier: Apache-2.0
"""What the checks need of a client, from the standard library alone: a server under test, completions, a websocket, MessagePack."""
import base64, http.client, json, os, signal, socket, struct, subprocess, tempfile, time


class Client:
    """Asks a server on a port of this machine."""

    def __init__(self, port):
        self.port = port

    def connect(self, timeout=120):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def get(self, path, timeout=30):
        try:
            c = self.connect(timeout)
            c.request("GET", path)
            r = c.getresponse()
            return r.status, r.read()
        except OSError:
            return 0, b""

    def post(self, path, body, headers=None, connection=None):
        c = connection or self.connect()
        data = body if isinstance(body, (bytes, str)) else json.dumps(body)
        c.request("POST", path, data, {"Content-Type": "application/json", **(headers or {})})
        r = c.getresponse()
        return r.status, dict((k.lower(), v) for k, v in r.getheaders()), r.read()

    def chat(self, body, **more):
        status, headers, data = self.post("/v1/chat/completions", {**body, **more})
        return status, json.loads(data), headers

    def events(self, body, **more):
        """The objects of a stream; the last is "[DONE]" where it ended well."""
        c = self.connect()
        c.request("POST", "/v1/chat/completions", json.dumps({**body, **more, "stream": True}), {"Content-Type": "application/json"})
        r = c.getresponse()
        for line in r:
            if line.startswith(b"data: "):
                text = line[6:].strip()
                yield "[DONE]" if text == b"[DONE]" else json.loads(text)

    def metric(self, name):
        total = 0.0
        for line in self.get("/metrics")[1].decode().splitlines():
            if line.startswith("slipstream:" + name) and line[len("slipstream:" + name)] in "{ ":
                total += float(line.rsplit(" ", 1)[1])
        return total

    def wait_idle(self, seconds=5):
        end = time.time() + seconds
        while time.time() < end:
            if self.metric("num_requests_running") == 0 and self.metric("num_requests_waiting") == 0 and self.metric("kv_cache_usage_perc") == 0:
                return True
            time.sleep(0.01)
        return False


class Server(Client):
    """`slipstream serve` on a free port of this machine."""

    def __init__(self, binary, model, *options):
        self.folder = tempfile.TemporaryDirectory()
        port_file = os.path.join(self.folder.name, "port")
        self.process = subprocess.Popen([binary, "serve", "--model", model, "--port", "0", "--port-file", port_file, *options],
                                        stderr=subprocess.DEVNULL)
        end = time.time() + 60
        while not (os.path.exists(port_file) and open(port_file).read().endswith("\n")):
            if time.time() > end or self.process.poll() is not None:
                raise RuntimeError("the server did not begin to listen")
            time.sleep(0.02)
        self.port = int(open(port_file).read())
        while self.get("/health")[0] != 200:
            if time.time() > end or self.process.poll() is not None:
                raise RuntimeError("the server did not get ready")
            time.sleep(0.02)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def memory_kb(self):
        for line in open(f"/proc/{self.process.pid}/status"):
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
        return 0

    def rest_kb(self):
        """The least memory within half a second: what is written or read to its end still goes."""
        least = self.memory_kb()
        for _ in range(10):
            time.sleep(0.05)
            least = min(least, self.memory_kb())
        return least


def pack(x):
    """MessagePack of what the protocol uses."""
    if x is None:
        return b"\xc0"
    if isinstance(x, bool):
        return b"\xc3" if x else b"\xc2"
    if isinstance(x, int):
        return bytes([x]) if 0 <= x < 128 else b"\xd3" + struct.pack(">q", x)
    if isinstance(x, float):
        return b"\xcb" + struct.pack(">d", x)
    if isinstance(x, str):
        b = x.encode()
        return b"\xdb" + struct.pack(">I", len(b)) + b
    if isinstance(x, bytes):
        return b"\xc6" + struct.pack(">I", len(x)) + x
    if isinstance(x, (list, tuple)):
        return b"\xdd" + struct.pack(">I", len(x)) + b"".join(map(pack, x))
    return b"\xdf" + struct.pack(">I", len(x)) + b"".join(pack(k) + pack(v) for k, v in x.items())


def unpack(data):
    value, at = _unpack(data, 0)
    assert at == len(data)
    return value


def _unpack(d, i):
    b, i = d[i], i + 1
    if b < 0x80:
        return b, i
    if b >= 0xE0:
        return b - 256, i
    if b < 0x90:
        return _map(d, i, b & 15)
    if b < 0xA0:
        return _list(d, i, b & 15)
    if b < 0xC0:
        return d[i:i + (b & 31)].decode(), i + (b & 31)
    if b in (0xC0, 0xC2, 0xC3):
        return {0xC0: None, 0xC2: False, 0xC3: True}[b], i
    if b in (0xC4, 0xC5, 0xC6, 0xD9, 0xDA, 0xDB):
        n = 1 << ((b - 0xC4) if b < 0xD0 else (b - 0xD9))
        size = int.from_bytes(d[i:i + n], "big")
        raw = d[i + n:i + n + size]
        return (raw if b < 0xD0 else raw.decode()), i + n + size
    if b in (0xCA, 0xCB):
        n = 4 if b == 0xCA else 8
        return struct.unpack(">f" if n == 4 else ">d", d[i:i + n])[0], i + n
    if 0xCC <= b <= 0xD3:
        n = 1 << ((b - 0xCC) % 4)
        return int.from_bytes(d[i:i + n], "big", signed=b >= 0xD0), i + n
    n = 2 if b in (0xDC, 0xDE) else 4
    size = int.from_bytes(d[i:i + n], "big")
    return (_list if b < 0xDE else _map)(d, i + n, size)


def _list(d, i, n):
    out = []
    for _ in range(n):
        x, i = _unpack(d, i)
        out.append(x)
    return out, i


def _map(d, i, n):
    out = {}
    for _ in range(n):
        k, i = _unpack(d, i)
        out[k], i = _unpack(d, i)
    return out, i


def floats(array):
    """The numbers of one of openpi's arrays."""
    return list(struct.unpack("<%df" % (len(array[b"data"]) // 4), array[b"data"]))


class WebSocket:
    def __init__(self, port, headers=""):
        self.s = socket.create_connection(("127.0.0.1", port), timeout=60)
        key = base64.b64encode(os.urandom(16)).decode()
        self.s.sendall(f"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n"
                       f"Sec-WebSocket-Version: 13\r\n{headers}\r\n".encode())
        self.rest = b""
        head = b""
        while b"\r\n\r\n" not in head:
            more = self.s.recv(4096)
            if not more:
                raise RuntimeError("no websocket")
            head += more
        head, self.rest = head.split(b"\r\n\r\n", 1)
        self.status = int(head.split()[1])

    def send(self, data, text=False):
        head = bytes([0x81 if text else 0x82])
        n = len(data)
        head += bytes([0x80 | n]) if n < 126 else bytes([0xFE]) + struct.pack(">H", n) if n < 65536 else bytes([0xFF]) + struct.pack(">Q", n)
        self.s.sendall(head + b"\0\0\0\0" + data)

    def _take(self, n):
        while len(self.rest) < n:
            more = self.s.recv(65536)
            if not more:
                raise ConnectionError("closed")
            self.rest += more
        out, self.rest = self.rest[:n], self.rest[n:]
        return out

    def receive(self):
        """bytes of a binary message, str of a text one; None at the close."""
        whole = b""
        while True:
            a, b = self._take(2)
            n = b & 127
            if n == 126:
                n = struct.unpack(">H", self._take(2))[0]
            elif n == 127:
                n = struct.unpack(">Q", self._take(8))[0]
            data = self._take(n)
            kind = a & 15
            if kind == 8:
                return None
            if kind == 9:
                self.s.sendall(b"\x8a\x80\0\0\0\0")
                continue
            if kind in (1, 2):
                self.kind = kind
            whole += data
            if a & 128:
                return whole.decode() if self.kind == 1 else whole

    def close(self):
        self.s.close()
