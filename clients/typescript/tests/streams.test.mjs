import assert from "node:assert/strict";
import test from "node:test";
import { Client } from "../dist/index.js";
import { body, Fake, json, problem } from "./fake.mjs";

const OUTPUT = "GET /v1/claims/c1/exec/k1/output";
const INPUT = "POST /v1/claims/c1/exec/k1/input";

/** Pieces of output of different sizes, in turn of both streams. */
function pieces(n, size = 100) {
  return Array.from({ length: n }, (_, i) => [i % 3 === 2 ? "stderr" : "stdout", Buffer.alloc(size + i, i)]);
}

async function started(t, options = {}) {
  const fake = await Fake.start(t);
  const waits = [];
  const backoff = (failures) => {
    waits.push(failures);
    return 1;
  };
  const client = new Client({ url: fake.url, key: "key", timeout: 60_000, backoff });
  t.after(() => client.close());
  const claim = await client.claim("demo", "alice", { touchEvery: 0 });
  const command = await claim.start(["x"], { id: "k1", input: true, ...options });
  return { fake, claim, command, waits };
}

async function collect(command) {
  const got = { stdout: [], stderr: [] };
  let at = command.offset;
  for await (const { stream, data, offset, end } of command) {
    assert.equal(offset, at);
    assert.equal(end, offset + data.length);
    at = end;
    got[stream].push(data);
  }
  return { stdout: Buffer.concat(got.stdout), stderr: Buffer.concat(got.stderr) };
}

const code = (wanted) => (err) => {
  assert.equal(err.name, "HostlerError");
  assert.equal(err.code, wanted);
  return true;
};

// No byte is lost or read twice, wherever connections break, also in a line, and
// whatever the server sends again.
test("output with lost connections", async (t) => {
  for (const overlap of [0, 1, 150]) {
    const { fake, command } = await started(t);
    Object.assign(fake, { output: pieces(20), pieces: 3, overlap });
    const lost = [];
    command.onLost = (err) => lost.push(err.code);
    const got = await collect(command);
    assert.deepEqual(got, { stdout: fake.whole("stdout"), stderr: fake.whole("stderr") });
    assert.equal(command.result.exit_code, 3);
    assert.equal(lost.length, fake.connections - 1);
    assert.deepEqual(new Set(lost), new Set(["no_answer"]));
    assert.equal(fake.acknowledgements.at(-1), fake.whole().length);
  }
});

// A command that waits for acknowledgements gets them. Before its end is known, its
// last byte is not acknowledged.
test("acknowledgements", async (t) => {
  const { fake, claim, command } = await started(t);
  Object.assign(fake, { output: pieces(40, 100_000), keep: 1 << 20 });
  const got = await collect(command);
  assert.deepEqual(got.stdout, fake.whole("stdout"));
  assert.equal(fake.acknowledgements.at(-1), fake.whole().length);
  assert.ok(fake.acknowledgements.length > 5);

  Object.assign(fake, { output: pieces(1, 600_000), acknowledged: 0, acknowledgements: [] });
  await (await claim.start(["x"], { id: "k1" })).wait();
  assert.deepEqual(fake.acknowledgements, [599_999, 600_000]);
});

// What was not asked for is not acknowledged; another reader continues after a chunk.
test("a loop that is left, and an attachment", async (t) => {
  const { fake, claim, command } = await started(t);
  fake.output = pieces(10);
  let first;
  for await (first of command) {
    break;
  }
  const second = await command.read();
  assert.equal(second.offset, first.end);
  command.close();
  await assert.rejects(command.read(), code("closed"));
  fake.input = Buffer.from("abc");
  const again = await claim.attach("k1", { after: second.end });
  const rest = await collect(again);
  assert.equal(first.data.length + second.data.length + rest.stdout.length + rest.stderr.length, fake.whole().length);
  await again.send("def");
  assert.equal(fake.input.toString(), "abcdef");
});

// Reads that overlap get chunks in order.
test("concurrent reads", async (t) => {
  const { fake, command } = await started(t);
  fake.output = pieces(3);
  const got = await Promise.all([command.read(), command.read(), command.read(), command.read()]);
  assert.deepEqual(Buffer.concat(got.slice(0, 3).map((c) => c.data)), fake.whole());
  assert.equal(got[3], undefined);
  assert.equal(fake.connections, 1);
});

// An error of the server ends it; one that is temporary does not, until lostTimeout.
test("errors of the output", async (t) => {
  const { fake, claim, command, waits } = await started(t);
  let problemOfLine = { status: 409, code: "attached_elsewhere", detail: "another client reads" };
  const fail = (_, res) => res.end(`${JSON.stringify({ start: {} })}\n${JSON.stringify({ error: problemOfLine })}\n`);
  fake.answer(OUTPUT, fail);
  await assert.rejects(command.read(), code("attached_elsewhere"));
  problemOfLine = { status: 502, code: "unhealthy", detail: "the container has exited" };
  await assert.rejects(command.read(), code("unhealthy"));

  problemOfLine = { status: 503, code: "engine_unavailable", detail: "" };
  const bounded = await claim.start(["x"], { id: "k1", lostTimeout: 30 });
  await assert.rejects(bounded.read(), code("engine_unavailable"));

  fake.output = pieces(2);
  const failures = [problem(503, "storage_unavailable"), (_, res) => res.writeHead(502).end("<html>"), fail];
  fake.answer(OUTPUT, (req, res) => {
    const next = failures.shift();
    if (failures.length === 0) {
      fake.answers.delete(OUTPUT);
    }
    return next(req, res);
  });
  const lost = [];
  command.onLost = (err) => lost.push(err.code);
  waits.length = 0;
  await command.wait();
  assert.deepEqual(waits, [1, 2, 3]);
  assert.deepEqual(lost, ["storage_unavailable", "", "engine_unavailable"]);
});

// What the server would not write is an error.
test("invalid output", async (t) => {
  const { fake, claim } = await started(t);
  for (const line of ["no JSON", "[]", '{"offset":7,"data":"YQ=="}', '{"data":"a"}', '{"offset":"0","data":"YQ=="}']) {
    fake.answer(OUTPUT, (_, res) => res.end(`${line}\n`));
    const command = await claim.start(["x"], { id: "k1" });
    await assert.rejects(command.read(), code("invalid_answer"), line);
  }
  const long = Buffer.alloc(1 << 20, "x");
  fake.answer(OUTPUT, (_, res) => {
    const write = () => {
      while (!res.closed && res.write(long)) {
        // until its reader is slower
      }
    };
    res.on("drain", write);
    write();
  });
  await assert.rejects((await claim.start(["x"], { id: "k1" })).read(), code("invalid_answer"));
});

// close and the caller's signal end a read that waits.
test("an end while reading", async (t) => {
  for (const how of ["close", "signal"]) {
    const caller = new AbortController();
    const { fake, command } = await started(t, { signal: caller.signal });
    const arrived = new Promise((resolve) => fake.answer(OUTPUT, (_, res) => {
      res.write("\n");
      resolve();
    }));
    const read = assert.rejects(command.read(), how === "close" ? code("closed") : /no longer wanted/);
    await arrived;
    if (how === "close") {
      command.close();
    } else {
      caller.abort(new Error("no longer wanted"));
    }
    await read;
    await assert.rejects(command.send("x"));
    assert.equal(fake.input.length, 0);
  }
});

// Input arrives once, whatever is lost, and in order.
test("input", async (t) => {
  const { fake, command } = await started(t);
  Object.assign(fake, { breakInput: 5, inputLimit: 100_000 });
  const text = Buffer.from(Array.from({ length: 600_000 }, (_, i) => i % 253));
  const sent = [command.send(text.subarray(0, 400_000)), command.send(text.subarray(400_000)), command.send("ü"), command.closeInput()];
  await Promise.all(sent);
  assert.deepEqual(fake.input, Buffer.concat([text, Buffer.from("ü")]));
  assert.equal(fake.inputClosed, true);
});

// Input that can never arrive is an error.
test("input that is refused", async (t) => {
  const { fake, command } = await started(t);
  fake.answer(INPUT, async (req, res) => {
    await body(req);
    json(res, 200, { received: 1, closed: true });
  });
  await assert.rejects(command.send("abc"), code("input_closed"));
  fake.answer(INPUT, async (req, res) => {
    await body(req);
    json(res, 200, { received: 99 });
  });
  await assert.rejects(command.send("abc"), code("invalid_answer"));
  fake.answer(INPUT, problem(404, "command_not_found"));
  await assert.rejects(command.send("abc"), code("command_not_found"));
});

// The end of its block ends a command that was started, unless it has ended.
test("disposal", async (t) => {
  const { fake, claim, command } = await started(t);
  const ended = () => fake.count("DELETE", "/v1/claims/c1/exec/k1");
  await command[Symbol.asyncDispose]();
  assert.equal(ended(), 1);
  const other = await claim.start(["x"], { id: "k1" });
  await other.wait();
  await other[Symbol.asyncDispose]();
  await (await claim.attach("k1"))[Symbol.asyncDispose]();
  fake.answer("POST /v1/claims/c1/exec", (_, res) => json(res, 200, { id: "k1" })); // it ran already
  await (await claim.start(["x"], { id: "k1" }))[Symbol.asyncDispose]();
  fake.answers.delete("POST /v1/claims/c1/exec");
  assert.equal(ended(), 1);
  fake.answer("DELETE /v1/claims/c1/exec/k1", problem(409, "claim_not_active"));
  await (await claim.start(["x"], { id: "k1" }))[Symbol.asyncDispose]();
  fake.answer("DELETE /v1/claims/c1/exec/k1", problem(503, "engine_unavailable"));
  await assert.rejects((await claim.start(["x"], { id: "k1" }))[Symbol.asyncDispose](), code("engine_unavailable"));
});
