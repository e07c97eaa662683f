"""A server of one claim with one command, whose connections break when a test says
where."""

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CLAIM = {
    "id": "c1", "workload": "demo", "tenant": "alice", "state": "active", "endpoint": {"host": "", "ports": []},
    "hooks": [], "timings": {}, "warnings": [], "created_at": "2026-01-01T00:00:00Z",
}


class Fake:
    """The state of the server, and what it received."""

    def __init__(self):
        self.output = []  # of (stream, data)
        self.pieces = 1 << 30  # of output on one connection, before it breaks
        self.keep = 1 << 30  # bytes that are sent before they are acknowledged
        self.overlap = 0  # bytes that are sent a second time after a connection was lost
        self.acknowledged = 0
        self.acknowledgements = []
        self.connections = 0
        self.input = b""
        self.input_closed = False
        self.input_limit = 1 << 30  # bytes of input that one request can add
        self.break_input = 0  # requests of input whose answers are lost
        self.requests = []  # of (method, path, headers)
        self.answers = {}  # by method and path: a function of the handler
        self.stall = threading.Event()  # ends what waits
        self.changed = threading.Condition()

    def __enter__(self):
        fake = self

        class Handler(_Handler):
            state = fake

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_):
                pass  # clients close connections early

        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = "http://127.0.0.1:%d" % self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stall.set()
        with self.changed:
            self.changed.notify_all()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def whole(self, stream=None):
        return b"".join(d for s, d in self.output if stream in (None, s))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def _serve(self):
        path, _, query = self.path.partition("?")
        self.query = dict(p.split("=", 1) for p in query.split("&") if p)
        self.state.requests.append((self.command, path, dict(self.headers)))
        answer = self.state.answers.get((self.command, path))
        if answer is None:
            answer = ROUTES.get((self.command, path.replace("/v1/claims/c1", "")))
        if answer is None:
            self.json(404, {"status": 404, "code": "not_found", "detail": "no such path: " + path})
            return
        answer(self)

    do_GET = do_POST = do_PUT = do_DELETE = _serve

    def body(self):
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def json(self, status, value, **headers):
        text = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        for name, v in headers.items():
            self.send_header(name.replace("_", "-"), v)
        self.end_headers()
        self.wfile.write(text)

    def claim(self):
        self.body()
        self.json(201, CLAIM)

    def release(self):
        self.body()
        self.json(200, dict(CLAIM, state="released"))

    def start(self):
        request = json.loads(self.body())
        self.json(201, {"id": request["id"], "command": request["command"], "started_at": "", "output_bytes": 0})

    def line(self, line):
        text = (json.dumps(line) if line is not None else "").encode() + b"\n"
        self.wfile.write(b"%x\r\n%s\r\n" % (len(text), text))

    def follow(self):
        s = self.state
        after = int(self.query["after"])
        s.connections += 1
        with s.changed:
            s.acknowledged = max(s.acknowledged, after)
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.line({"start": {"id": "k1", "offset": after, "input_received": 0}})
        self.line(None)
        sent, offset = 0, 0
        begin = max(0, after - s.overlap)
        for stream, data in s.output:
            piece = data[max(0, begin - offset):]
            at = offset + len(data) - len(piece)
            offset += len(data)
            if not piece:
                continue
            with s.changed:
                s.changed.wait_for(lambda: offset - s.acknowledged <= s.keep or s.stall.is_set())
            if sent == s.pieces:
                text = json.dumps({"offset": at, "stream": stream, "data": ""})
                self.wfile.write(b"%x\r\n%s" % (len(text) + 1, text[: len(text) // 2].encode()))
                self.close_connection = True
                return
            self.line({"offset": at, "stream": stream, "data": base64.b64encode(piece).decode()})
            sent += 1
        self.line({"end": {"exit_code": 3, "duration_ms": 1.5}})
        self.wfile.write(b"0\r\n\r\n")

    def acknowledge(self):
        s = self.state
        offset = json.loads(self.body())["offset"]
        with s.changed:
            s.acknowledgements.append(offset)
            s.acknowledged = max(s.acknowledged, offset)
            s.changed.notify_all()
        self.send_response(204)
        self.end_headers()

    def receive(self):
        s = self.state
        body, offset = self.body(), int(self.query.get("offset", len(s.input)))
        if offset <= len(s.input):
            s.input += body[len(s.input) - offset:][: s.input_limit]
            s.input_closed |= self.query.get("close") == "true"
        if s.break_input > 0:
            s.break_input -= 1
            self.close_connection = True
            return
        self.json(200, {"received": len(s.input), "closed": s.input_closed})

    def end(self):
        self.json(200, {"id": "k1", "command": ["x"], "started_at": "", "output_bytes": 0})


ROUTES = {
    ("POST", "/v1/claims"): _Handler.claim,
    ("POST", "/touch"): _Handler.claim,
    ("POST", "/release"): _Handler.release,
    ("POST", "/exec"): _Handler.start,
    ("GET", "/exec/k1/output"): _Handler.follow,
    ("POST", "/exec/k1/ack"): _Handler.acknowledge,
    ("POST", "/exec/k1/input"): _Handler.receive,
    ("DELETE", "/exec/k1"): _Handler.end,
}
