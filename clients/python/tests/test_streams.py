import io
import threading
import unittest
from unittest import mock

from hostler import Client, HostlerError
from tests.fake import Fake


class StreamCase(unittest.TestCase):
    def setUp(self):
        # Retries do not wait.
        for name in ("hostler.command.backoff", "hostler.transport.backoff"):
            patch = mock.patch(name, return_value=0.001)
            patch.start()
            self.addCleanup(patch.stop)
        self.fake = Fake()
        self.fake.__enter__()
        self.addCleanup(self.fake.__exit__)
        self.client = Client(self.fake.url, "key", timeout=60)
        self.addCleanup(self.client.close)
        self.claim = self.client.claim("demo", "alice")

    def start(self, **options):
        command = self.claim.start(["x"], id="k1", **options)
        self.addCleanup(command.close)
        return command


def pieces(n, size=1000):
    return [("stderr" if i % 3 == 0 else "stdout", bytes([i % 251]) * (size + i)) for i in range(n)]


class TestOutput(StreamCase):
    # Whatever breaks, no byte is lost or read twice, and the streams keep their order.
    def test_lost_connections(self):
        for at_once in (1, 2, 7, 1 << 30):
            for overlap in (0, 1, 500, 5000):
                with self.subTest(at_once=at_once, overlap=overlap):
                    self.fake.output, self.fake.pieces, self.fake.overlap = pieces(20), at_once + (overlap > 0) * 6, overlap
                    out, err = io.BytesIO(), io.BytesIO()
                    command = self.start()
                    result = command.wait(out, err)
                    self.assertEqual(result["exit_code"], 3)
                    self.assertEqual(out.getvalue(), self.fake.whole("stdout"))
                    self.assertEqual(err.getvalue(), self.fake.whole("stderr"))
                    self.assertEqual(command.offset, len(self.fake.whole()))

    # A reader that begins with the end of a chunk continues after it.
    def test_continue_with_another_client(self):
        self.fake.output = pieces(10)
        got = b""
        for chunk in self.start():
            got += chunk.data
            if chunk.end > 5000:
                break
        for rest in self.claim.attach("k1", chunk.end):
            self.assertEqual(rest.offset, len(got))
            got += rest.data
        self.assertEqual(got, self.fake.whole())

    # Output is acknowledged while it is read, but for the last byte until the end has
    # arrived: the server would forget the command, and how it ended.
    def test_acknowledgements(self):
        self.fake.output, self.fake.keep = pieces(64, 40000), 1 << 20
        command = self.start()
        total = sum(len(c.data) for c in command)
        self.assertEqual(total, len(self.fake.whole()))
        self.assertEqual(self.fake.acknowledgements[-1], total)
        self.assertGreater(len(self.fake.acknowledgements), 3)
        self.assertTrue(all(a < total for a in self.fake.acknowledgements[:-1]))

    # What is not yet processed is not acknowledged.
    def test_acknowledges_what_was_processed(self):
        self.fake.output = [("stdout", b"x" * (600 << 10))] * 2
        command = self.start()
        next(command)
        self.assertEqual(self.fake.acknowledgements, [])
        next(command)
        self.assertEqual(self.fake.acknowledgements, [(600 << 10) - 1])

    # Output that is missing is an error.
    def test_gap(self):
        def follow(h):
            h.send_response(200)
            h.send_header("Transfer-Encoding", "chunked")
            h.end_headers()
            h.line({"offset": 1, "stream": "stdout", "data": "eA=="})

        self.fake.answers[("GET", "/v1/claims/c1/exec/k1/output")] = follow
        with self.assertRaises(HostlerError) as caught:
            next(self.start())
        self.assertEqual(caught.exception.code, "invalid_answer")

    # An error that a repetition does not change ends the reading; another one does not.
    def test_line_with_an_error(self):
        problems = [{"status": 503, "code": "not_ready", "detail": "it stops"}, {"status": 502, "code": "unhealthy", "detail": "the container has exited"}]

        def follow(h):
            h.send_response(200)
            h.send_header("Transfer-Encoding", "chunked")
            h.end_headers()
            h.line({"error": problems.pop(0)})

        self.fake.answers[("GET", "/v1/claims/c1/exec/k1/output")] = follow
        with self.assertRaises(HostlerError) as caught:
            next(self.start())
        self.assertEqual((caught.exception.status, caught.exception.code), (502, "unhealthy"))
        self.assertEqual(problems, [])

    # A server that stays away ends the reading in time.
    def test_lost_for_too_long(self):
        def lost(h):
            h.close_connection = True

        self.fake.answers[("GET", "/v1/claims/c1/exec/k1/output")] = lost
        with self.assertRaises(HostlerError) as caught:
            next(self.start(lost_timeout=0.05))
        self.assertEqual((caught.exception.status, caught.exception.code), (0, "no_answer"))

    # The first line of a connection is no progress: a server that sends nothing else
    # ends the reading in time, too.
    def test_start_is_no_progress(self):
        def follow(h):
            h.send_response(200)
            h.send_header("Transfer-Encoding", "chunked")
            h.end_headers()
            h.line({"start": {"id": "k1", "offset": 0, "input_received": 0}})
            h.line({"error": {"status": 503, "code": "not_ready", "detail": "it stops"}})

        self.fake.answers[("GET", "/v1/claims/c1/exec/k1/output")] = follow
        with self.assertRaises(HostlerError) as caught:
            next(self.start(lost_timeout=0.05))
        self.assertEqual((caught.exception.status, caught.exception.code), (503, "not_ready"))

    # close ends a read in another thread, with an error and not as the end.
    def test_close(self):
        reading = threading.Event()

        def follow(h):
            h.send_response(200)
            h.end_headers()
            reading.set()
            self.fake.stall.wait()

        self.fake.answers[("GET", "/v1/claims/c1/exec/k1/output")] = follow
        command = self.start()
        errors = []

        def read():
            try:
                next(command)
            except HostlerError as err:
                errors.append(err.code)

        reader = threading.Thread(target=read)
        reader.start()
        reading.wait()
        command.close()
        reader.join(60)
        self.assertEqual(errors, ["closed"])

    # A command that is left before its end is ended.
    def test_with(self):
        self.fake.output = pieces(3)
        with self.start() as command:
            next(command)
        self.assertEqual(self.fake.requests[-1][:2], ("DELETE", "/v1/claims/c1/exec/k1"))
        with self.start() as command:
            command.wait()
        self.assertNotEqual(self.fake.requests[-1][0], "DELETE")
        with self.claim.attach("k1") as command:
            next(command)
        self.assertNotEqual(self.fake.requests[-1][0], "DELETE")
        # Nor is one that ran already, under an id that its caller has chosen.
        self.fake.answers[("POST", "/v1/claims/c1/exec")] = lambda h: (h.body(), h.json(200, {"id": "k1"}))
        with self.claim.start(["x"], id="k1") as command:
            next(command)
        self.assertNotEqual(self.fake.requests[-1][0], "DELETE")


class TestInput(StreamCase):
    # Input arrives once, whatever part of it a request has carried and whichever
    # answers are lost.
    def test_every_byte_once(self):
        text = bytes(i % 253 for i in range(700_000))
        for limit, lost in ((1 << 30, 0), (100_000, 0), (1 << 30, 3), (77_777, 5)):
            with self.subTest(limit=limit, lost=lost):
                self.fake.input, self.fake.input_closed = b"", False
                self.fake.input_limit, self.fake.break_input = limit, lost
                command = self.start(input=True)
                command.send(text[:300_000])
                command.send(text[300_000:])
                command.close_input()
                self.assertEqual(self.fake.input, text)
                self.assertTrue(self.fake.input_closed)

    # Who attaches continues after what was received.
    def test_attach(self):
        self.fake.input = b"abc"
        with self.claim.attach("k1") as command:
            command.send(b"def")
        self.assertEqual(self.fake.input, b"abcdef")

    # A command that receives no more is an error.
    def test_closed(self):
        self.fake.input_closed, self.fake.input_limit = True, 1
        with self.assertRaises(HostlerError) as caught:
            self.start(input=True).send(b"abc")
        self.assertEqual(caught.exception.code, "input_closed")


if __name__ == "__main__":
    unittest.main()
