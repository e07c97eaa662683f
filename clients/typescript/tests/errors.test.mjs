import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import test from "node:test";
import util from "node:util";
import { Client, HostlerError } from "../dist/index.js";
import { body, CLAIM, Fake, json, problem } from "./fake.mjs";

const FILES = "/v1/claims/c1/files";

async function held(t, options = {}) {
  const fake = await Fake.start(t);
  const client = new Client({ url: fake.url, key: "top-secret", timeout: 60_000, backoff: () => 1, ...options });
  t.after(() => client.close());
  return { fake, client, claim: await client.claim("demo", "alice", { touchEvery: 0 }) };
}

const hostlerError = (status, code) => (err) => {
  assert.ok(err instanceof HostlerError, err);
  assert.deepEqual([err.status, err.code], [status, code]);
  return true;
};

// A problem is an error with all of it; another answer is one without a code.
test("problems", async (t) => {
  const { fake, claim } = await held(t);
  fake.answer("POST /v1/claims/c1/touch", problem(429, "rate_limited", { "Retry-After": "2" }));
  await assert.rejects(claim.touch(), (err) => {
    assert.equal(err.retryAfter, 2000);
    assert.equal(err.message, "rate_limited: it is rate_limited");
    assert.equal(err.problem.instance, "r1");
    assert.equal(err.isTemporary, false);
    return hostlerError(429, "rate_limited")(err);
  });
  fake.answer("POST /v1/claims/c1/touch", (_, res) => res.writeHead(502).end("<html>"));
  await assert.rejects(claim.touch(), hostlerError(502, ""));
  fake.answer("POST /v1/claims/c1/touch", (_, res) => res.end("<html>"));
  await assert.rejects(claim.touch(), hostlerError(200, "invalid_answer"));
});

// A request is made again only where a second one does nothing else.
test("lost connections", async (t) => {
  const { fake, client, claim } = await held(t);
  let broken = 0;
  fake.answer("POST /v1/claims", (_, res) => (++broken < 3 ? res.destroy() : json(res, 200, CLAIM)));
  assert.equal((await client.claim("demo", "alice", { touchEvery: 0 })).created, false);
  assert.equal(broken, 3);
  const once = {
    "POST /v1/claims/c1/exec": () => claim.run(["x"]),
    "POST /v1/claims/c1/signals": () => claim.signal("x"),
    "POST /v1/claims/c1/exec/k1/signal": async () => (await claim.attach("k1")).signal("SIGINT"),
    [`PUT ${FILES}/x`]: () => claim.files.write("/x", "text"),
    [`DELETE ${FILES}/x`]: () => claim.files.remove("/x"),
  };
  for (const [operation, call] of Object.entries(once)) {
    fake.answer(operation, (_, res) => res.destroy());
    await assert.rejects(call(), hostlerError(0, "no_answer"), operation);
    assert.equal(fake.count(...operation.split(" ")), 1, operation);
  }
  fake.answer("GET /v1/claims/c1", (_, res) => res.destroy());
  await assert.rejects(claim.refresh(), hostlerError(0, "no_answer"));
  assert.equal(fake.count("GET", "/v1/claims/c1"), 3);
});

// Nothing follows a redirect with the key.
test("redirects", async (t) => {
  const { fake, client, claim } = await held(t);
  const other = await Fake.start(t);
  for (const [operation, call] of Object.entries({
    "POST /v1/claims": () => client.claim("demo", "alice"),
    [`GET ${FILES}/x`]: () => claim.files.read("/x"),
    "GET /v1/claims/c1/exec/k1/output": async () => (await claim.attach("k1")).read(),
  })) {
    fake.answer(operation, (_, res) => res.writeHead(307, { Location: other.url + operation.split(" ")[1] }).end());
    await assert.rejects(call(), hostlerError(307, ""), operation);
  }
  fake.answer("GET /v1/claims/c1/ports/80/x", (_, res) => res.writeHead(302, { Location: `${other.url}/y` }).end());
  assert.equal((await claim.port(80).fetch("/x")).status, 302);
  assert.deepEqual(other.requests, []);
});

// The key is sent, and shown nowhere.
test("key", async (t) => {
  const { fake, client, claim } = await held(t);
  assert.equal(fake.requests.at(-1).headers.authorization, "Bearer top-secret");
  const shown = [client, claim, claim.port(80), await claim.start(["x"], { id: "k1" }), claim.files];
  assert.doesNotMatch(shown.map((s) => util.inspect(s, { depth: 9, showHidden: true }) + JSON.stringify(s)).join(), /top-secret/);
  for (const key of ["top-secret\n", "top-secret\r\nX: y", "top-secrét", async () => "top secret"]) {
    await assert.rejects(new Client({ url: fake.url, key }).getClaim("c1"), (err) => {
      assert.doesNotMatch(util.inspect(err), /top/);
      return err instanceof TypeError;
    });
  }
  for (const url of ["http://top-secret@localhost", "http://alice:top-secret@localhost", "ftp://localhost", "http://localhost?a=b"]) {
    assert.throws(() => new Client({ url }), (err) => err instanceof TypeError && !err.message.includes("top-secret"));
  }
});

// The environment names the server and the key, as for the command line.
test("environment", async (t) => {
  const fake = await Fake.start(t);
  const dir = await mkdtemp(path.join(os.tmpdir(), "hostler-"));
  const before = { ...process.env };
  t.after(async () => {
    process.env = before;
    await rm(dir, { recursive: true });
  });
  const file = path.join(dir, "key");
  await writeFile(file, "of-file\n");
  Object.assign(process.env, { HOSTLER_SERVER: `${fake.url}/`, HOSTLER_API_KEY: "of-variable", HOSTLER_API_KEY_FILE: "" });
  await new Client().getClaim("c1");
  process.env.HOSTLER_API_KEY_FILE = file;
  await new Client().getClaim("c1");
  assert.deepEqual(fake.requests.map((r) => r.headers.authorization), ["Bearer of-variable", "Bearer of-file"]);
});

// A server that does not answer is an error in time; so is a caller that has left.
test("timeouts and signals", async (t) => {
  const { fake, client, claim } = await held(t, { timeout: 1500 });
  fake.answer("GET /v1/claims/c1", () => {});
  await assert.rejects(client.getClaim("c1"), hostlerError(0, "client_timeout"));
  fake.answer("GET /v1/claims/c1", (_, res) => res.writeHead(200).write("{"));
  await assert.rejects(client.getClaim("c1"), hostlerError(0, "client_timeout"));
  assert.equal(fake.count("GET", "/v1/claims/c1"), 2);
  fake.answer("POST /v1/claims/c1/exec", () => {});
  await assert.rejects(claim.run(["x"], { signal: AbortSignal.timeout(20) }), { name: "TimeoutError" });
  await assert.rejects(claim.refresh({ signal: AbortSignal.abort(new Error("left")) }), /left/);
  await assert.rejects(claim.run(["x"], { timeout: 3_600_000 }), RangeError);
});

// close ends what waits, and nothing begins after it.
test("close", async (t) => {
  const { fake, client, claim } = await held(t);
  const arrived = new Promise((resolve) => fake.answer("POST /v1/claims/c1/waits", resolve));
  const wait = assert.rejects(claim.wait("consensus", 60_000), hostlerError(0, "closed"));
  await arrived;
  client.close();
  await wait;
  await assert.rejects(claim.touch(), hostlerError(0, "closed"));
});

// A file that is cut off is an error, and not a shorter file.
test("files that are cut off", async (t) => {
  const { fake, claim } = await held(t);
  const info = { "Hostler-File": JSON.stringify({ name: "x", type: "file", size: 4, mode: 0o644, modified: "", uid: 0, gid: 0 }) };
  const cuts = {
    "with a length": (_, res) => res.writeHead(200, { ...info, "Content-Length": "4" }).write("abc", () => res.destroy()),
    "in chunks": (_, res) => res.writeHead(200, info).write("abc", () => res.destroy()),
    "without either": (req) => req.socket.end(`HTTP/1.1 200 OK\r\nHostler-File: ${info["Hostler-File"]}\r\n\r\nabc`),
  };
  for (const [name, cut] of Object.entries(cuts)) {
    fake.answer(`GET ${FILES}/x`, cut);
    await assert.rejects(claim.files.read("/x"), hostlerError(0, "no_answer"), name);
    const { body: stream } = await claim.files.open("/x");
    await assert.rejects(Array.fromAsync?.(stream) ?? new Response(stream).text(), hostlerError(0, "no_answer"), name);
  }
  fake.answer(`GET ${FILES}/x`, (_, res) => res.end("abcd"));
  await assert.rejects(claim.files.read("/x"), hostlerError(200, "invalid_answer"));
});

// A whole file, and parts of it.
test("ranges", async (t) => {
  const { fake, claim } = await held(t);
  const ranges = [];
  fake.answer(`GET ${FILES}/x`, (req, res) => {
    const [, from, to] = /bytes=(\d+)-(\d*)/.exec(req.headers.range ?? "bytes=0-");
    ranges.push(req.headers.range);
    const text = "abcdef".slice(Number(from), to ? Number(to) + 1 : undefined);
    res.writeHead(206, { "Hostler-File": JSON.stringify({ name: "x", size: 6 }), "Content-Length": text.length }).end(text);
  });
  const read = async (options) => Buffer.from(await claim.files.read("/x", options)).toString();
  assert.equal(await read(), "abcdef");
  assert.equal(await read({ offset: 0 }), "abcdef");
  assert.equal(await read({ offset: 2 }), "cdef");
  assert.equal(await read({ offset: 2, length: 2 }), "cd");
  assert.equal(await read({ length: 99 }), "abcdef");
  assert.deepEqual(ranges, [undefined, undefined, "bytes=2-", "bytes=2-3", "bytes=0-98"]);
  for (const bad of [{ offset: -1 }, { length: 0 }, { offset: 0.5 }]) {
    await assert.rejects(read(bad), RangeError);
  }
});

// The refusal of an upload is its error, also if the server has not read it all.
test("refused uploads", async (t) => {
  const { fake, claim } = await held(t);
  let ended;
  async function* content() {
    try {
      for (;;) {
        yield new Uint8Array(65_536);
      }
    } finally {
      ended?.();
    }
  }
  fake.answer(`PUT ${FILES}/x`, (_, res) => json(res, 413, { status: 413, code: "payload_too_large", detail: "" }, { Connection: "close" }));
  const closed = new Promise((resolve) => (ended = resolve));
  await assert.rejects(claim.files.write("/x", content()), hostlerError(413, "payload_too_large"));
  await closed;
});

// Content that fails ends the upload before its last chunk, with its own error.
test("content that fails", async (t) => {
  const { fake, claim } = await held(t);
  let aborted;
  const arrived = new Promise((resolve) => (aborted = resolve));
  fake.answer(`PUT ${FILES}/x`, (req) => {
    req.on("error", () => {});
    req.on("close", () => aborted(req.complete));
  });
  async function* content() {
    yield Buffer.from("abc");
    throw new Error("of the content");
  }
  await assert.rejects(claim.files.write("/x", content()), /^Error: of the content$/);
  assert.equal(await arrived, false);
});

// Content comes in every form.
test("content", async (t) => {
  const { fake, claim } = await held(t);
  let got;
  fake.answer(`PUT ${FILES}/x`, async (req, res) => {
    got = (await body(req)).toString();
    json(res, 201, { name: "x" });
  });
  const bytes = new TextEncoder().encode("some text");
  async function* parts() {
    yield bytes.subarray(0, 4);
    yield bytes.subarray(4);
  }
  for (const content of ["some text", bytes, bytes.buffer, new Blob([bytes]), new Blob([bytes]).stream(), parts()]) {
    await claim.files.write("/x", content, { mode: 0o4755 });
    assert.equal(got, "some text");
  }
  assert.equal(fake.requests.at(-1).headers["content-type"], "application/octet-stream");
});

// Names are paths of their own: none leads to another path of the API.
test("names", async (t) => {
  const { fake, client, claim } = await held(t);
  for (const [name, there] of [["/a b/ü?#%", "/a%20b/%C3%BC%3F%23%25"], ["/", "/"]]) {
    fake.answer(`GET ${FILES}${there}`, (_, res) => json(res, 200, { name: "x" }));
    assert.deepEqual(await claim.files.stat(name), { name: "x" });
  }
  const sent = fake.requests.length;
  for (const name of ["relative", "/a/../b", "/..", "/.", "/a//b"]) {
    await assert.rejects(claim.files.stat(name), TypeError, name);
  }
  await assert.rejects(client.getClaim(".."), TypeError);
  await assert.rejects(claim.attach(".."), TypeError);
  const outside = ["/../81/", "/..", "/%2e%2E/x", "/a/../../../c2", "/\\..\\..\\x", "x", "//../../../../claims", "/../80x"];
  for (const name of outside) {
    await assert.rejects(claim.port(80).fetch(name, { method: "POST" }), TypeError, name);
  }
  for (const number of [0, 65536, 1.5, "80/../81"]) {
    assert.throws(() => claim.port(number), RangeError);
  }
  assert.equal(fake.requests.length, sent);
});

// A claim is touched until the end of its block, and released there.
test("disposal of a claim", async (t) => {
  const { fake, client } = await held(t);
  let claim;
  const touched = new Promise((resolve) => fake.answer("POST /v1/claims/c1/touch", (_, res) => {
    json(res, 200, CLAIM);
    if (fake.count("POST", "/v1/claims/c1/touch") === 2) {
      resolve();
    }
  }));
  claim = await client.claim("demo", "alice", { touchEvery: 1 });
  await touched;
  await claim[Symbol.asyncDispose]();
  assert.equal(claim.info.state, "released");
  assert.equal(fake.count("POST", "/v1/claims/c1/release"), 1);
  const touches = fake.count("POST", "/v1/claims/c1/touch");
  for (let i = 0; i < 20; i++) {
    await claim.refresh();
  }
  assert.equal(fake.count("POST", "/v1/claims/c1/touch"), touches);
  // One that the tenant held before is another program's.
  fake.answer("POST /v1/claims", (_, res) => json(res, 200, CLAIM));
  await (await client.claim("demo", "alice", { touchEvery: 1 }))[Symbol.asyncDispose]();
  assert.equal(fake.count("POST", "/v1/claims/c1/release"), 1);
  fake.answer("POST /v1/claims/c1/release", problem(502, "sync_failed"));
  await assert.rejects(claim[Symbol.asyncDispose](), hostlerError(502, "sync_failed"));
});

// A response of the program is returned, whatever its status is; one of Hostler is an
// error.
test("ports", async (t) => {
  const { fake, claim } = await held(t);
  const port = claim.port(80);
  fake.answer("POST /v1/claims/c1/ports/80/a", async (req, res) => json(res, 404, { got: (await body(req)).toString(), query: req.url.split("?")[1] }));
  const response = await port.fetch("/a?b=../c", { method: "POST", body: "text" });
  assert.equal(response.status, 404);
  assert.deepEqual(await response.json(), { got: "text", query: "b=../c" });
  fake.answer("GET /v1/claims/c1/ports/80/", problem(502, "port_refused"));
  await assert.rejects(port.fetch("/"), hostlerError(502, "port_refused"));
  const own = { type: "about:blank", code: "mine" };
  fake.answer("GET /v1/claims/c1/ports/80/", (_, res) => json(res, 400, own, { "Content-Type": "application/problem+json" }));
  assert.deepEqual(await (await port.fetch("/")).json(), own);
  fake.answer("GET /v1/claims/c1/ports/80/", (_, res) => res.writeHead(204).end());
  assert.equal((await port.fetch("/")).status, 204);

  // The timeout is of the beginning.
  fake.answer("GET /v1/claims/c1/ports/80/", (_, res) => {
    res.write("first");
    setTimeout(() => res.end(" last"), 4000);
  });
  assert.equal(await (await port.fetch("/", { timeout: 3000 })).text(), "first last");
  fake.answer("GET /v1/claims/c1/ports/80/", () => {});
  await assert.rejects(port.fetch("/", { timeout: 20 }), hostlerError(0, "client_timeout"));

  fake.answer("GET /v1/claims/c1/ports/80/", (_, res) => res.write("first"));
  const caller = new AbortController();
  const stream = (await port.fetch("/", { signal: caller.signal })).body.getReader();
  assert.equal(Buffer.from((await stream.read()).value).toString(), "first");
  caller.abort(new Error("left"));
  await assert.rejects(stream.read(), /left/);
});
