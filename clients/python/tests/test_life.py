import asyncio
import hashlib
import io
import sys
import tarfile
import unittest
import urllib.request
import uuid

from hostler import AsyncClient, Client, HostlerError
from hostler.transport import Response
from tests.needs import variable

# The digest of what TestLife writes.
SIZE = 5_000_000
WRITER = f"""
import sys
for i in range({SIZE // 1000}):
    sys.stdout.buffer.write(bytes([i % 256]) * 1000)
sys.stdout.buffer.flush()
sys.stderr.write("done")
sys.exit(3)
"""
DIGEST = hashlib.sha256(b"".join(bytes([i % 256]) * 1000 for i in range(SIZE // 1000))).hexdigest()


class TestLife(unittest.TestCase):
    """The life of a claim of a server of which HOSTLER_SERVER is the address, with the
    workload HOSTLER_TEST_WORKLOAD. Its containers have this Python, the directory
    HOSTLER_TEST_DIR and the port HOSTLER_TEST_PORT."""

    @classmethod
    def setUpClass(cls):
        variable("HOSTLER_SERVER")
        cls.workload = variable("HOSTLER_TEST_WORKLOAD")
        cls.port = int(variable("HOSTLER_TEST_PORT"))
        cls.dir = variable("HOSTLER_TEST_DIR")

    def setUp(self):
        self.client = self.enter(Client())
        self.claim = self.enter(self.client.claim(self.workload, "python-" + uuid.uuid4().hex, wait=60))

    def enter(self, context):
        entered = context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)
        return entered

    def serve_http(self):
        """Start a web server in the container, and wait until it listens."""
        server = self.enter(self.claim.start(
            [sys.executable, "-u", "-m", "http.server", str(self.port), "--bind", "127.0.0.1"], workdir=self.dir))
        for chunk in server:
            if b"Serving" in chunk.data:
                return
        self.fail("the web server ended")

    def test_claim(self):
        self.assertTrue(self.claim.created)
        self.assertEqual(self.claim.touch()["state"], "active")
        again = self.client.claim(self.workload, self.claim.info["tenant"])
        self.assertEqual((again.id, again.created), (self.claim.id, False))
        self.claim.release()
        self.assertEqual(self.claim.refresh()["state"], "released")
        with self.assertRaises(HostlerError) as caught:
            self.claim.run(["true"])
        self.assertEqual(caught.exception.status, 409)

    def test_run(self):
        got = self.claim.run([sys.executable, "-c", "print(input()); exit(3)"], stdin="hello", environment={"A": "b"}, timeout=30)
        self.assertEqual((got["exit_code"], got["stdout"]["head"]), (3, "hello\n"))
        with self.assertRaises(HostlerError) as caught:
            self.claim.run(["/nonexistent"])
        self.assertEqual(caught.exception.problem["reason"], "binary_not_found")
        with self.assertRaises(HostlerError) as caught:
            self.claim.attach("none")
        self.assertEqual(caught.exception.code, "command_not_found")

    # No byte of a large output is lost or doubled, though its connection breaks again
    # and again.
    def test_output_with_lost_connections(self):
        lost = []
        with self.claim.start([sys.executable, "-c", WRITER]) as command:
            command.on_lost = lost.append
            digest, err, since = hashlib.sha256(), b"", 0
            for chunk in command:
                if chunk.stream == "stderr":
                    err += chunk.data
                    continue
                digest.update(chunk.data)
                if len(lost) < 3 and chunk.end - since > 500_000:
                    since = chunk.end
                    break_connection(command._lines.response)
        self.assertEqual(digest.hexdigest(), DIGEST)
        self.assertEqual(err, b"done")
        self.assertEqual(command.result["exit_code"], 3)
        self.assertEqual(len(lost), 3)

    def test_input_and_end(self):
        program = "import sys, hashlib; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())"
        text = bytes(i % 253 for i in range(1_000_000))
        with self.claim.start([sys.executable, "-c", program], input=True) as command:
            command.send(text)
            command.close_input()
            out = io.BytesIO()
            command.wait(out)
        self.assertEqual(out.getvalue().decode().strip(), hashlib.sha256(text).hexdigest())
        with self.claim.start([sys.executable, "-c", "import time; time.sleep(600)"]) as command:
            self.assertEqual([c["id"] for c in self.claim.commands() if "result" not in c], [command.id])
            command.signal("SIGTERM")
            self.assertEqual(command.wait()["signal"], "SIGTERM")
        with self.claim.start([sys.executable, "-c", "import time; time.sleep(600)"]) as command:
            pass
        self.assertIn("result", command.status())

    def test_terminal(self):
        program = "import os, sys; print(os.get_terminal_size()); input(); print(os.get_terminal_size())"
        with self.claim.start([sys.executable, "-u", "-c", program], terminal=(24, 80), input=True) as command:
            got = next(command).data
            command.resize(50, 132)
            command.send(b"\n")
            got += b"".join(c.data for c in command)
        self.assertIn(b"columns=80, lines=24", got)
        self.assertIn(b"columns=132, lines=50", got)

    def test_files(self):
        files, name = self.claim.files, f"{self.dir}/{uuid.uuid4().hex} ü/x"
        text = bytes(i % 253 for i in range(1_000_000))
        info = files.write(name, io.BytesIO(text), mode=0o600)
        self.assertEqual((info["size"], info["mode"]), (len(text), 0o600))
        self.assertEqual(files.read(name), text)
        self.assertEqual(files.read(name, 10, 5), text[10:15])
        self.assertEqual(files.stat(name)["type"], "file")
        self.assertEqual(files.write(name, b"")["size"], 0)
        self.assertEqual(files.read(name), b"")
        directory = name.rpartition("/")[0]
        with files.open_tree(directory) as tree:
            archive = tree.read()
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            self.assertIn("x", [m.name for m in tar])
        files.write_tree(directory + "/copy", archive)
        self.assertEqual([f["name"] for f in files.list(directory + "/copy")], ["x"])
        files.remove(directory, recursive=True)
        with self.assertRaises(HostlerError) as caught:
            files.stat(name)
        self.assertEqual((caught.exception.status, caught.exception.code), (404, "file_not_found"))

    def test_port(self):
        self.claim.files.write(f"{self.dir}/index.html", b"hello")
        self.serve_http()
        with self.claim.port(self.port).http() as http:
            http.request("GET", "/index.html")
            self.assertEqual(http.getresponse().read(), b"hello")
        with self.claim.port(self.port).forward() as (host, port):
            for _ in range(3):
                with urllib.request.urlopen(f"http://{host}:{port}/", timeout=30) as got:
                    self.assertEqual(got.read(), b"hello")
        with self.assertRaises(HostlerError) as caught:
            self.claim.port(1).dial()
        self.assertEqual(caught.exception.code, "port_refused")

    def test_wait(self):
        self.claim.signal("go", {"answer": 42})
        got = self.claim.wait("consensus", 60, name="go")
        self.assertEqual((got["state"], got["data"]), ("signalled", {"answer": 42}))
        self.assertEqual(self.claim.wait("consensus", 0.1, on_timeout="abort")["state"], "aborted")

    def test_async(self):
        asyncio.run(self.live())

    async def live(self):
        async with AsyncClient() as client, client.claim(self.workload, "async-" + uuid.uuid4().hex, wait=60) as claim:
            self.assertEqual((await claim.run([sys.executable, "-c", "print(1)"]))["stdout"]["head"], "1\n")
            await claim.files.write(f"{self.dir}/async", b"hello")
            self.assertIn("async", [f["name"] async for f in claim.files.list(self.dir)])
            async with await claim.files.open(f"{self.dir}/async") as file:
                self.assertEqual(b"".join([b async for b in file]), b"hello")
            async with await claim.start([sys.executable, "-c", "print(input())"], input=True) as command:
                await command.send(b"hello\n")
                self.assertEqual(b"".join([c.data async for c in command]), b"hello\n")
            self.assertEqual(command.result["exit_code"], 0)
            wait, _ = await asyncio.gather(claim.wait("consensus", 60, name="go"), claim.signal("go", 1))
            self.assertEqual(wait["data"], 1)
        self.assertEqual(claim.info["state"], "released")


def break_connection(response: Response):
    """Break a connection as a network would."""
    response.interrupt()
    response._connection.is_interrupted = False


if __name__ == "__main__":
    unittest.main()
