import os
import pathlib
import re
import subprocess
import sys
import unittest
import uuid

from hostler import Client
from tests.needs import variable

ROOT = pathlib.Path(__file__).parent.parent
MAX_LINES = 24


class TestReadme(unittest.TestCase):
    """The programs of README.md work as they are, but for the names of the workload,
    the tenant and the port."""

    def test_programs(self):
        variable("HOSTLER_SERVER")
        workload, port = variable("HOSTLER_TEST_WORKLOAD"), variable("HOSTLER_TEST_PORT")
        programs = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S)
        self.assertEqual(len(programs), 2)
        for program in programs:
            tenant = "readme-" + uuid.uuid4().hex
            for old, new in {"greeter": workload, "alice": tenant, "8080": port}.items():
                self.assertIn(old, program)
                program = program.replace(old, new)
            self.assertLessEqual(len(program.splitlines()), MAX_LINES)
            with Client() as client, client.claim(workload, tenant, wait=60) as claim:
                claim.signal("approval", "granted")
                arguments = [sys.executable, "-u", "-m", "http.server", port, "--bind", "127.0.0.1"]
                server = claim.start(arguments, workdir=variable("HOSTLER_TEST_DIR"))
                while b"Serving" not in next(server).data:
                    pass
                server.close()
                environment = dict(os.environ, PYTHONPATH=str(ROOT))
                got = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=120)
                self.assertEqual((got.returncode, got.stderr), (0, "done\n"))
                for text in ("hello\nexit code 3\nb'some text'\n", "200", "signalled granted\n"):
                    self.assertIn(text, got.stdout)
                self.assertEqual(claim.refresh()["state"], "active", "the program has not created it")


if __name__ == "__main__":
    unittest.main()
