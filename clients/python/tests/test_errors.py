import io
import itertools
import os
import socket
import tempfile
import threading
import traceback
import unittest
from unittest import mock

from hostler import Client, HostlerError
from hostler.transport import problem_of
from tests.fake import CLAIM, Fake

FILES = "/v1/claims/c1/files"
INFO = '{"name":"x","type":"file","size":4,"mode":420,"modified":"","uid":0,"gid":0}'


class TestErrors(unittest.TestCase):
    def setUp(self):
        patch = mock.patch("hostler.transport.backoff", return_value=0.001)
        patch.start()
        self.addCleanup(patch.stop)
        self.fake = Fake()
        self.fake.__enter__()
        self.addCleanup(self.fake.__exit__)
        self.client = Client(self.fake.url, "top-secret", timeout=60)

    def count(self, method, path):
        return sum(r[:2] == (method, path) for r in self.fake.requests)

    def held(self):
        return self.client.claim("demo", "alice")

    # An answer that is an error has the fields of its problem.
    def test_problem(self):
        problem = {"status": 429, "code": "rate_limited", "detail": "too many", "dropped": 3}
        self.fake.answers[("POST", "/v1/claims")] = lambda h: (h.body(), h.json(429, problem, Retry_After="7"))
        with self.assertRaises(HostlerError) as caught:
            self.held()
        err = caught.exception
        self.assertEqual((err.status, err.code, err.detail, err.retry_after), (429, "rate_limited", "too many", 7.0))
        self.assertEqual(err.problem["dropped"], 3)
        self.assertEqual(self.count("POST", "/v1/claims"), 1)

    # So has one of something else than Hostler.
    def test_other_answers(self):
        for text in (b"<html>", b"[]", b'{"code": 7}', b'{"code": ""}', b""):
            err = problem_of(502, {"Retry-After": "soon"}, text)
            self.assertEqual((err.status, err.code, err.retry_after, err.is_temporary), (502, "", None, True))

    # A request is made again when its connection broke, unless a second one could do
    # something else.
    def test_repetition(self):
        broken = []

        def breaks(then):
            def answer(h):
                h.body()
                if len(broken) < 2:
                    broken.append(h.path)
                    h.close_connection = True
                else:
                    then(h)
            return answer

        self.fake.answers[("POST", "/v1/claims")] = breaks(lambda h: h.json(200, CLAIM))
        claim = self.held()
        self.assertFalse(claim.created)
        self.assertEqual(self.count("POST", "/v1/claims"), 3)
        once = {"/exec": lambda: claim.run(["x"]), "/signals": lambda: claim.signal("x")}
        for path, call in once.items():
            broken.clear()
            self.fake.answers[("POST", "/v1/claims/c1" + path)] = breaks(lambda h: h.json(200, {}))
            with self.assertRaises(HostlerError) as caught:
                call()
            self.assertEqual((caught.exception.status, caught.exception.code), (0, "no_answer"))
            self.assertEqual(self.count("POST", "/v1/claims/c1" + path), 1)

    # Nothing follows a redirect with the key.
    def test_redirect(self):
        with Fake() as other:
            def redirect(h):
                h.body()
                h.send_response(307)
                h.send_header("Location", other.url + "/v1/claims")
                h.send_header("Content-Length", "0")
                h.end_headers()

            self.fake.answers[("POST", "/v1/claims")] = redirect
            with self.assertRaises(HostlerError) as caught:
                self.held()
            self.assertEqual((caught.exception.status, caught.exception.code), (307, ""))
            self.assertEqual(other.requests, [])

    # The key is sent, and shown nowhere.
    def test_key(self):
        claim = self.held()
        self.assertEqual(self.fake.requests[-1][2]["Authorization"], "Bearer top-secret")
        shown = [claim, self.client, self.client.transport, claim.port(80), claim.start(["x"], id="k1")]
        self.assertNotIn("top-secret", " ".join(map(repr, shown)))
        for bad in ("top-secret\n", "top-secret\r\nX: y", "top-secrét"):
            with self.assertRaises(ValueError) as caught:
                Client(self.fake.url, bad)
            self.assertNotIn("top-", "".join(traceback.format_exception(None, caught.exception, None)))
        with self.assertRaises(ValueError):
            Client("http://alice:top-secret@localhost", "")
        with self.assertRaises(ValueError):
            Client("ftp://localhost", "")

    # The environment names the server and the key, as for the command line.
    def test_environment(self):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("of-file\n")
            file.flush()
            with mock.patch.dict(os.environ, {"HOSTLER_SERVER": self.fake.url, "HOSTLER_API_KEY": "of-variable", "HOSTLER_API_KEY_FILE": ""}):
                Client().claim("demo", "alice")
                with mock.patch.dict(os.environ, {"HOSTLER_API_KEY_FILE": file.name}):
                    Client().claim("demo", "alice")
        self.assertEqual([r[2]["Authorization"] for r in self.fake.requests], ["Bearer of-variable", "Bearer of-file"])

    # A server that does not answer is an error in time.
    def test_timeout(self):
        self.fake.answers[("GET", "/v1/claims/c1")] = lambda h: self.fake.stall.wait()
        client = Client(self.fake.url, "", timeout=0.05)
        with self.assertRaises(HostlerError) as caught:
            client.get_claim("c1")
        self.assertEqual((caught.exception.status, caught.exception.code), (0, "client_timeout"))
        self.assertLessEqual(self.count("GET", "/v1/claims/c1"), 1, "it is not repeated")

    # A file that is cut off is an error, and not a shorter file.
    def test_file_is_cut_off(self):
        def length(h):
            h.send_header("Content-Length", "4")
            h.end_headers()
            h.wfile.write(b"abc")

        def chunked(h):
            h.send_header("Transfer-Encoding", "chunked")
            h.end_headers()
            h.wfile.write(b"3\r\nabc\r\n")

        def neither(h):
            h.end_headers()
            h.wfile.write(b"abcd")

        for cut in (length, chunked, neither):
            with self.subTest(cut.__name__):
                def answer(h, cut=cut):
                    h.send_response(200)
                    h.send_header("Hostler-File", INFO)
                    cut(h)
                    h.close_connection = True

                self.fake.answers[("GET", FILES + "/x")] = answer
                with self.assertRaises(HostlerError) as caught:
                    self.held().files.get("/x", io.BytesIO())
                self.assertEqual(caught.exception.code, "no_answer")

    # The refusal of an upload is its error, also if the server has not read it all.
    def test_refused_upload(self):
        def refuse(h):
            h.json(413, {"status": 413, "code": "payload_too_large", "detail": "too large"})
            h.close_connection = True

        self.fake.answers[("PUT", FILES + "/x")] = refuse
        with self.assertRaises(HostlerError) as caught:
            self.held().files.write("/x", itertools.repeat(b"x" * 65536))
        self.assertEqual(caught.exception.code, "payload_too_large")

    # Content that fails ends the upload before its last chunk, with its own error.
    def test_failing_content(self):
        ended = threading.Event()
        got = []

        def receive(h):
            try:
                for line in iter(h.rfile.readline, b""):
                    got.append(line)
            except OSError:
                pass
            h.close_connection = True
            ended.set()

        def content():
            yield b"abc"
            raise ConnectionResetError("of the content")

        self.fake.answers[("PUT", FILES + "/x")] = receive
        with self.assertRaisesRegex(ConnectionResetError, "of the content"):
            self.held().files.write("/x", content())
        self.assertTrue(ended.wait(10))
        self.assertEqual(got, [b"3\r\n", b"abc\r\n"])

    # Names are paths of their own.
    def test_names(self):
        files = self.held().files
        info = {"name": "x"}
        for name, path in (("/a b/ü?#%", "/a%20b/%C3%BC%3F%23%25"), ("/", "/")):
            self.fake.answers[("GET", FILES + path)] = lambda h: h.json(200, info)
            self.assertEqual(files.stat(name), info)
        for name in ("relative", "/a/../b", "/..", "/./a", "//a", "/a//b", "/../../other/files/x"):
            with self.assertRaises(ValueError, msg=name):
                files.remove(name)
        for claim in ("", ".", ".."):
            with self.assertRaises(ValueError, msg=claim):
                self.client.get_claim(claim)
        with self.assertRaises(ValueError):
            self.held().attach("..")

    # A claim is released at the end of its block, and touched until then.
    def test_claim_block(self):
        touched = threading.Event()
        self.fake.answers[("POST", "/v1/claims/c1/touch")] = lambda h: (touched.set(), h.json(200, CLAIM))
        with self.client.claim("demo", "alice", touch_every=0.01):
            self.assertTrue(touched.wait(10))
        self.assertEqual(self.count("POST", "/v1/claims/c1/release"), 1)

        # One that the tenant held before is another program's.
        self.fake.answers[("POST", "/v1/claims")] = lambda h: (h.body(), h.json(200, CLAIM))
        with self.held() as claim:
            self.assertFalse(claim.created)
        self.fake.answers[("GET", "/v1/claims/c1")] = lambda h: h.json(200, CLAIM)
        with self.client.get_claim("c1"):
            pass
        self.assertEqual(self.count("POST", "/v1/claims/c1/release"), 1)
        del self.fake.answers[("POST", "/v1/claims")]

        # The error of the block counts, also when the release fails.
        problem = {"status": 502, "code": "sync_failed", "detail": "the bucket is away"}
        self.fake.answers[("POST", "/v1/claims/c1/release")] = lambda h: (h.body(), h.json(502, problem))
        with self.assertRaises(KeyError), self.assertLogs("hostler", "WARNING"):
            with self.held():
                raise KeyError
        with self.assertRaises(HostlerError):
            with self.held():
                pass

    # The bytes that follow the answer to a connection are the program's.
    def test_dial(self):
        def connect(h):
            h.wfile.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\nhello")
            while True:
                data = h.rfile.read1(100)
                if not data:
                    break
                h.wfile.write(data)
            h.close_connection = True

        self.fake.answers[("POST", "/v1/claims/c1/ports/80")] = connect
        port = self.held().port(80)
        with port.forward() as address, socket.create_connection(address) as through, port.dial(10) as direct:
            for sock in (through, direct):
                sock.settimeout(10)
                sock.sendall(b" world")
                sock.shutdown(socket.SHUT_WR)
                got = b"".join(iter(lambda: sock.recv(100), b""))
                self.assertEqual(got, b"hello world")

        # The end of the block ends connections that are open.
        with port.forward() as address:
            through = socket.create_connection(address, 10)
            self.assertEqual(through.recv(5), b"hello")
        with through:
            self.assertEqual(through.recv(5), b"")
        with self.assertRaises(OSError):
            socket.create_connection(address, 10).close()

        problem = {"status": 502, "code": "port_refused", "detail": "no program listens"}
        self.fake.answers[("POST", "/v1/claims/c1/ports/80")] = lambda h: h.json(502, problem)
        with self.assertRaises(HostlerError) as caught:
            port.dial()
        self.assertEqual(caught.exception.code, "port_refused")
        with port.forward() as address, socket.create_connection(address, 10) as through:
            self.assertEqual(through.recv(10), b"")


if __name__ == "__main__":
    unittest.main()
