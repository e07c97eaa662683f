import assert from "node:assert/strict";
import { createHash, randomUUID } from "node:crypto";
import test from "node:test";
import { Client } from "../dist/index.js";
import { serveHTTP, skip, variable } from "./needs.mjs";

// The life of a claim of a server of which HOSTLER_SERVER is the address, with the
// workload HOSTLER_TEST_WORKLOAD. Its containers have this Node.js, the directory
// HOSTLER_TEST_DIR and the port HOSTLER_TEST_PORT.
const program = (text) => [process.execPath, "-e", text];
const sha256 = (data) => createHash("sha256").update(data).digest("hex");

// fetch with a last response that a test can break.
let connections = [];
const breakable = async (url, init) => {
  const cut = new AbortController();
  if (String(url).includes("/output?")) {
    connections.push(cut);
  }
  return fetch(url, { ...init, signal: AbortSignal.any([init.signal, cut.signal]) });
};

async function held(t) {
  const client = new Client({ fetch: breakable });
  const claim = await client.claim(variable("HOSTLER_TEST_WORKLOAD"), `node-${randomUUID()}`, { wait: 60_000 });
  t.after(async () => {
    await claim.release();
    client.close();
  });
  return { client, claim };
}

const code = (wanted) => (err) => {
  assert.equal(err.code, wanted, err);
  return true;
};

test("a claim", { skip }, async (t) => {
  const { client, claim } = await held(t);
  assert.equal(claim.created, true);
  assert.equal((await claim.touch()).state, "active");
  const again = await client.claim(claim.info.workload, claim.info.tenant, { touchEvery: 0 });
  assert.deepEqual([again.id, again.created], [claim.id, false]);
  await claim.release();
  assert.equal((await claim.refresh()).state, "released");
  await assert.rejects(claim.run(["true"]), code("claim_not_active"));
});

test("run", { skip }, async (t) => {
  const { claim } = await held(t);
  const echo = program("process.stdin.on('data', (d) => process.stdout.write(d + process.env.A)).on('end', () => process.exit(3))");
  const got = await claim.run(echo, { stdin: "hello", environment: { A: "b" }, timeout: 30_000 });
  assert.deepEqual([got.exit_code, got.stdout.head], [3, "hellob"]);
  await assert.rejects(claim.run(["/nonexistent"]), (err) => err.problem.reason === "binary_not_found");
  await assert.rejects(claim.attach("none"), code("command_not_found"));
});

// No byte of a large output is lost or doubled, though its connection breaks again and
// again.
test("output with lost connections", { skip }, async (t) => {
  const { claim } = await held(t);
  connections = [];
  const write = "for (let i = 0; i < 5000; i++) process.stdout.write(Buffer.alloc(1000, i)); process.stderr.write('done'); process.exitCode = 3";
  const command = await claim.start(program(write));
  const lost = [];
  command.onLost = (err) => lost.push(err.code);
  const got = { stdout: [], stderr: [] };
  let since = 0;
  for await (const { stream, data, end } of command) {
    got[stream].push(data);
    if (lost.length < 3 && end - since > 500_000) {
      since = end;
      connections.at(-1).abort();
    }
  }
  const whole = Buffer.concat(Array.from({ length: 5000 }, (_, i) => Buffer.alloc(1000, i)));
  assert.equal(sha256(Buffer.concat(got.stdout)), sha256(whole));
  assert.equal(Buffer.concat(got.stderr).toString(), "done");
  assert.equal(command.result.exit_code, 3);
  assert.deepEqual(lost, ["no_answer", "no_answer", "no_answer"]);
});

test("input and the end of a command", { skip }, async (t) => {
  const { claim } = await held(t);
  const hash = "const h = require('crypto').createHash('sha256'); process.stdin.on('data', (d) => h.update(d)).on('end', () => console.log(h.digest('hex')))";
  const text = Buffer.from(Array.from({ length: 1_000_000 }, (_, i) => i % 253));
  const command = await claim.start(program(hash), { input: true });
  await command.send(text);
  await command.closeInput();
  let out = "";
  await command.wait(({ data }) => (out += Buffer.from(data)));
  assert.equal(out.trim(), sha256(text));

  const sleeping = await claim.start(program("setTimeout(() => {}, 600000); console.log('up')"));
  await sleeping.read();
  assert.deepEqual((await claim.commands()).filter((c) => !c.result).map((c) => c.id), [sleeping.id]);
  await sleeping.signal("SIGTERM");
  assert.equal((await sleeping.wait()).signal, "SIGTERM");
  const disposed = await claim.start(program("setTimeout(() => {}, 600000)"));
  await disposed[Symbol.asyncDispose]();
  assert.ok((await disposed.status()).result);
});

test("a terminal", { skip }, async (t) => {
  const { claim } = await held(t);
  const sizes = "const p = () => console.log(String(process.stdout.getWindowSize())); process.stdout.on('resize', p); process.stdin.once('data', () => process.exit()); p()";
  const command = await claim.start(program(sizes), { terminal: { rows: 24, columns: 80 }, input: true });
  let got = "";
  const readUntil = async (text) => {
    while (!got.includes(text)) {
      got += Buffer.from((await command.read()).data);
    }
  };
  await readUntil("80,24");
  await command.resize(50, 132);
  await readUntil("132,50");
  await command.send("\n");
  assert.equal((await command.wait()).exit_code, 0);
});

test("files", { skip }, async (t) => {
  const { files } = (await held(t)).claim;
  const dir = `${variable("HOSTLER_TEST_DIR")}/${randomUUID()} ü`;
  const name = `${dir}/x`;
  const text = Buffer.from(Array.from({ length: 1_000_000 }, (_, i) => i % 253));
  const info = await files.write(name, new Blob([text]).stream(), { mode: 0o600 });
  assert.deepEqual([info.size, info.mode], [text.length, 0o600]);
  assert.deepEqual(Buffer.from(await files.read(name)), text);
  assert.deepEqual(Buffer.from(await files.read(name, { offset: 10, length: 5 })), text.subarray(10, 15));
  assert.equal((await files.stat(name)).type, "file");
  const archive = await new Response(await files.readTree(dir)).arrayBuffer();
  await files.writeTree(`${dir}/copy`, archive);
  const names = [];
  for await (const entry of files.list(`${dir}/copy`)) {
    names.push(entry.name);
  }
  assert.deepEqual(names, ["x"]);
  assert.equal((await files.write(name, "")).size, 0);
  assert.equal((await files.read(name)).length, 0);
  await files.remove(dir, { recursive: true });
  await assert.rejects(files.stat(name), code("file_not_found"));
});

test("a port", { skip }, async (t) => {
  const { claim } = await held(t);
  const number = Number(variable("HOSTLER_TEST_PORT"));
  const port = claim.port(number);
  await assert.rejects(port.fetch("/"), code("port_refused"));
  await serveHTTP(claim, number, "hello ");
  const got = await port.fetch("/x?y=z", { method: "POST", body: new Uint8Array(100_000) });
  assert.deepEqual([got.status, await got.text()], [200, "hello 100000"]);
  await assert.rejects(port.link(), code("no_port_domain"));
});

test("a wait", { skip }, async (t) => {
  const { claim } = await held(t);
  await claim.signal("go", { answer: 42 });
  const got = await claim.wait("consensus", 60_000, { name: "go" });
  assert.deepEqual([got.state, got.data], ["signalled", { answer: 42 }]);
  assert.equal((await claim.wait("consensus", 100, { onTimeout: "abort" })).state, "aborted");
});
