import asyncio
import io
import threading
import unittest
from unittest import mock

from hostler import AsyncClient, HostlerError
from tests.fake import CLAIM, ROUTES, Fake
from tests.test_streams import pieces


class TestAsync(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        for name in ("hostler.command.backoff", "hostler.transport.backoff"):
            patch = mock.patch(name, return_value=0.001)
            patch.start()
            self.addCleanup(patch.stop)
        self.fake = Fake()
        self.fake.__enter__()
        self.addCleanup(self.fake.__exit__)
        self.client = AsyncClient(self.fake.url, "key", timeout=60)

    async def asyncTearDown(self):
        await self.client.close()

    # The life of a claim, with a command whose connections break.
    async def test_life(self):
        self.fake.output, self.fake.pieces = pieces(20), 3
        async with self.client.claim("demo", "alice") as claim:
            out, err = io.BytesIO(), io.BytesIO()
            async with await claim.start(["x"], id="k1", input=True) as command:
                _, result = await asyncio.gather(command.send(b"abc"), command.wait(out, err))
                await command.close_input()
            self.assertEqual(result["exit_code"], 3)
            self.assertEqual(out.getvalue() + err.getvalue(), self.fake.whole("stdout") + self.fake.whole("stderr"))
            self.assertEqual(self.fake.input, b"abc")
        self.assertEqual(self.fake.requests[-1][1], "/v1/claims/c1/release")

    # A chunk that was being read when its reader was cancelled is the next reader's.
    async def test_cancelled_reader_loses_nothing(self):
        self.fake.output = pieces(3)
        begin = threading.Event()

        def late(h):
            begin.wait(10)
            ROUTES[("GET", "/exec/k1/output")](h)

        self.fake.answers[("GET", "/v1/claims/c1/exec/k1/output")] = late
        claim = await self.client.claim("demo", "alice")
        command = await claim.start(["x"], id="k1")
        with self.assertRaises(asyncio.TimeoutError):
            await asyncio.wait_for(command.__anext__(), 0.05)
        begin.set()
        got = b"".join([c.data async for c in command])
        self.assertEqual(got, self.fake.whole())
        self.assertEqual(self.fake.connections, 1)

    # close frees the thread of a reader that waits.
    async def test_close_while_reading(self):
        def follow(h):
            h.send_response(200)
            h.end_headers()
            self.fake.stall.wait()

        self.fake.answers[("GET", "/v1/claims/c1/exec/k1/output")] = follow
        claim = await self.client.claim("demo", "alice")
        async with await claim.start(["x"], id="k1") as command:
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(command.__anext__(), 0.05)
        with self.assertRaises(HostlerError):
            await command.__anext__()

    # A claim that no one waits for any more is released when it is there.
    async def test_cancelled_claim(self):
        asked, go_ahead, released = threading.Event(), threading.Event(), threading.Event()

        def claim(h):
            h.body()
            asked.set()
            go_ahead.wait(10)
            h.json(201, CLAIM)

        self.fake.answers[("POST", "/v1/claims")] = claim
        self.fake.answers[("POST", "/v1/claims/c1/release")] = lambda h: (h.body(), released.set(), h.json(200, CLAIM))
        task = asyncio.ensure_future(self.client.claim("demo", "alice")._get())
        await asyncio.get_running_loop().run_in_executor(None, asked.wait, 10)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        go_ahead.set()
        await self.client.close()
        self.assertTrue(released.is_set())

    # close ends what a thread waits for, though its caller was cancelled.
    async def test_close_ends_requests(self):
        self.fake.answers[("POST", "/v1/claims/c1/waits")] = lambda h: self.fake.stall.wait()
        claim = await self.client.claim("demo", "alice")
        with self.assertRaises(asyncio.TimeoutError):
            await asyncio.wait_for(claim.wait("consensus", 3600), 0.05)
        await asyncio.wait_for(self.client.close(), 60)
        with self.assertRaises(HostlerError) as caught:
            claim.claim.touch()
        self.assertEqual(caught.exception.code, "closed")

    # A connection to a port is a reader and a writer; a refusal is an error.
    async def test_port(self):
        def connect(h):
            h.wfile.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: tcp\r\n\r\nhello")
            h.wfile.write(h.rfile.read())
            h.close_connection = True

        self.fake.answers[("POST", "/v1/claims/c1/ports/80")] = connect
        claim = await self.client.claim("demo", "alice")
        reader, writer = await claim.port(80).open()
        writer.write(b" world")
        writer.write_eof()
        self.assertEqual(await reader.read(), b"hello world")
        writer.close()
        problem = {"status": 502, "code": "port_refused", "detail": "no program listens"}
        self.fake.answers[("POST", "/v1/claims/c1/ports/80")] = lambda h: h.json(502, problem)
        with self.assertRaises(HostlerError) as caught:
            await claim.port(80).open()
        self.assertEqual((caught.exception.status, caught.exception.code), (502, "port_refused"))


if __name__ == "__main__":
    unittest.main()
