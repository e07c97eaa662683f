import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import test from "node:test";
import util from "node:util";
import { Client } from "../dist/index.js";
import { serveHTTP, skip, variable } from "./needs.mjs";

const root = new URL("../", import.meta.url);
const MAX_LINES = 22;
const run = util.promisify(execFile);

// The program of README.md compiles for a target without `await using`, and works as
// it is, but for the names of the workload, the tenant and the port.
test("the program of the README", { skip }, async (t) => {
  const programs = [...(await readFile(new URL("README.md", root), "utf8")).matchAll(/```ts\n(.*?)```/gs)];
  assert.equal(programs.length, 1);
  const workload = variable("HOSTLER_TEST_WORKLOAD");
  const tenant = `readme-${randomUUID()}`;
  let program = programs[0][1];
  assert.ok(program.trim().split("\n").length <= MAX_LINES);
  for (const [old, name] of [["greeter", workload], ["alice", tenant], ["8080", variable("HOSTLER_TEST_PORT")]]) {
    assert.ok(program.includes(old));
    program = program.replace(old, name);
  }
  const dir = new URL("dist/readme/", root); // below the package, which resolves its name
  await mkdir(dir, { recursive: true });
  await writeFile(new URL("node.d.ts", dir), "declare const process: Record<string, { write(data: Uint8Array): void }>;\n");
  await writeFile(new URL("program.ts", dir), program);
  const tsc = fileURLToPath(new URL("node_modules/typescript/bin/tsc", root));
  const options = ["--strict", "--target", "es2022", "--module", "nodenext", "--types", "", "--lib", "es2022,dom,dom.asynciterable,esnext.disposable"];
  await run(process.execPath, [tsc, "--ignoreConfig", ...options, "node.d.ts", "program.ts"], { cwd: dir });
  assert.doesNotMatch(await readFile(new URL("program.js", dir), "utf8"), /await using/);

  const client = new Client();
  const claim = await client.claim(workload, tenant, { wait: 60_000 });
  t.after(() => claim.release());
  await claim.signal("approval", "granted");
  await serveHTTP(claim, Number(variable("HOSTLER_TEST_PORT")), "page ");
  const { stdout, stderr } = await run(process.execPath, ["program.js"], { cwd: dir, timeout: 120_000 });
  assert.equal(stdout, "hello\nexit code 3\nsome text\n200 page 0\nsignalled granted\n");
  assert.equal(stderr, "done\n");
  assert.equal((await claim.refresh()).state, "active", "the program has not created it");
});
