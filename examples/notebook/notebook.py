#!/usr/bin/env python3
"""A notebook service for one tenant, on the standard library.

    notebook serve   GET / describes the notebook, GET /notebook.ipynb is the document,
                     POST /run runs the body as a cell, POST /interrupt ends it,
                     POST /save writes the variables to the state
    notebook wait    waits until the service answers, and prints what it has
    notebook save    interrupts what runs, and saves

A cell can do with this process what it likes: the container is the boundary.
"""
import ast, contextlib, http.server, io, json, os, pickle, queue, signal, sys, threading, time, traceback, urllib.request

PORT = int(os.environ.get("NOTEBOOK_PORT", "8888"))
# Without containers, as on the process backend, the volume is below the container's directory.
STATE = os.environ.get("HOSTLER_ROOT", "") + "/data/"
MAX_BODY, MAX_OUTPUT = 1 << 20, 64 << 10


class Output(io.StringIO):
    def write(self, text):
        super().write(text[: max(0, MAX_OUTPUT - self.tell())])
        return len(text)


class Kernel:
    """Runs one cell at a time in the main thread, which is the one that a signal interrupts."""

    def __init__(self):
        self.tasks, self.running = queue.Queue(maxsize=16), False
        self.names, self.cells = {"__name__": "__main__"}, []
        with contextlib.suppress(FileNotFoundError), open(STATE + "notebook.ipynb", encoding="utf-8") as f:
            self.cells = json.load(f)["cells"]
        with contextlib.suppress(FileNotFoundError), open(STATE + "variables", "rb") as f:
            for name, value in pickle.load(f).items():
                with contextlib.suppress(Exception):  # a module that this version does not have
                    self.names[name] = pickle.loads(value)
        signal.signal(signal.SIGINT, self.interrupt)

    def interrupt(self, *_):
        if self.running:
            self.running = False
            raise KeyboardInterrupt

    def run(self, source):
        out, outputs, number = Output(), [], len(self.cells) + 1
        try:
            with contextlib.redirect_stdout(out):
                self.running = True
                self.execute(source)
                self.running = False
        except BaseException as e:  # also SystemExit and KeyboardInterrupt
            self.running = False
            lines = [line[:1000] for line in traceback.format_exception(e, limit=-1)]
            outputs = [{"output_type": "error", "ename": type(e).__name__, "evalue": str(e)[:1000], "traceback": lines}]
        if out.getvalue():
            outputs.insert(0, {"output_type": "stream", "name": "stdout", "text": out.getvalue()})
        cell = {"cell_type": "code", "id": f"cell-{number}", "metadata": {}, "execution_count": number}
        self.cells.append(cell | {"source": source, "outputs": outputs})
        replace("notebook.ipynb", json.dumps(self.document()).encode())
        return self.cells[-1]

    def execute(self, source):
        """Runs statements, and prints the value of the last one if it is an expression."""
        tree = ast.parse(source)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "<cell>", "exec"), self.names)
        if last and (value := eval(compile(ast.Expression(last.value), "<cell>", "eval"), self.names)) is not None:
            print(repr(value))

    def document(self):
        return {"nbformat": 4, "nbformat_minor": 5, "metadata": {"language_info": {"name": "python"}}, "cells": self.cells}

    def describe(self):
        return {"cells": len(self.cells), "variables": sorted(n for n in list(self.names) if not n.startswith("__"))}

    def save(self):
        """Keeps the variables that can be kept: modules and functions of cells cannot."""
        kept = {}
        for name in self.describe()["variables"]:
            with contextlib.suppress(Exception):
                kept[name] = pickle.dumps(self.names[name])
        replace("variables", pickle.dumps(kept))
        return {"saved": sorted(kept)}


def replace(name, content):
    """Replaces a file: a service that is killed leaves the old one or the new."""
    with open(STATE + name + ".new", "wb") as f:
        f.write(content)
    os.replace(STATE + name + ".new", STATE + name)


class Handler(http.server.BaseHTTPRequestHandler):
    timeout, log_message = 60, lambda *_: None

    def do_GET(self):
        self.answer(kernel.document() if self.path == "/notebook.ipynb" else kernel.describe())

    def do_POST(self):
        size = int(self.headers.get("Content-Length", 0))
        if not 0 <= size <= MAX_BODY or self.path not in ("/run", "/save", "/interrupt"):
            return self.send_error(404, f"there is no {self.path[:100]}, or the body has more than {MAX_BODY} bytes")
        body = self.rfile.read(size).decode(errors="replace")
        if self.path == "/interrupt":
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            return self.answer({})
        result = queue.Queue(maxsize=1)
        try:
            kernel.tasks.put_nowait((kernel.save if self.path == "/save" else lambda: kernel.run(body), result))
        except queue.Full:
            return self.send_error(503, "other cells wait")
        self.answer(result.get())

    def answer(self, value):
        text = json.dumps(value).encode() + b"\n"
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


def ask(path="/", data=None, timeout=2):
    return urllib.request.urlopen(f"http://127.0.0.1:{PORT}{path}", data, timeout).read().decode().strip()


if sys.argv[1:] == ["serve"]:
    kernel = Kernel()
    # Hostler reaches the loopback interface, and other containers do not.
    server = http.server.ThreadingHTTPServer(("127.0.0.1", PORT), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    print("notebook: serving on port", PORT, flush=True)
    while True:
        task, result = kernel.tasks.get()
        try:
            result.put(task())
        except OSError as e:  # the disk is full
            result.put({"error": str(e)})
elif sys.argv[1:] == ["save"]:
    ask("/interrupt", b"")
    print(ask("/save", b"", 60))
elif sys.argv[1:] == ["wait"]:
    while True:  # hooks and checks have a timeout
        with contextlib.suppress(OSError):
            sys.exit(print(ask()))
        time.sleep(0.05)
else:
    sys.exit(__doc__)
