// A server of one claim with one command, whose connections break when a test says
// where.
import { once } from "node:events";
import http from "node:http";

export const CLAIM = {
  id: "c1", workload: "demo", tenant: "alice", state: "active", endpoint: { host: "", ports: [] },
  hooks: [], timings: {}, warnings: [], created_at: "2026-01-01T00:00:00Z",
};
const BEGIN = "/v1/claims/c1";

export class Fake {
  output = []; // of [stream, data]
  pieces = Infinity; // of output on one connection, before it breaks
  keep = Infinity; // bytes that are sent before they are acknowledged
  overlap = 0; // bytes that are sent a second time after a connection was lost
  acknowledged = 0;
  acknowledgements = [];
  connections = 0;
  input = Buffer.alloc(0);
  inputClosed = false;
  inputLimit = Infinity; // bytes of input that one request can add
  breakInput = 0; // requests of input whose answers are lost
  requests = []; // of {method, path, headers}
  answers = new Map(); // by method and path: a function of request, response, query
  #changed = [];

  static async start(t) {
    const fake = new Fake();
    fake.server = http.createServer((req, res) => fake.#serve(req, res).catch(() => res.destroy()));
    fake.server.listen(0, "127.0.0.1");
    await once(fake.server, "listening");
    fake.url = `http://127.0.0.1:${fake.server.address().port}`;
    t.after(() => {
      fake.server.closeAllConnections();
      fake.server.close();
    });
    return fake;
  }

  whole(stream) {
    return Buffer.concat(this.output.filter(([s]) => stream === undefined || s === stream).map(([, data]) => data));
  }

  count(method, path) {
    return this.requests.filter((r) => r.method === method && r.path === path).length;
  }

  answer(operation, answer) {
    this.answers.set(operation, answer);
  }

  async #serve(req, res) {
    const { pathname, searchParams } = new URL(req.url, this.url);
    this.requests.push({ method: req.method, path: pathname, headers: req.headers });
    const routes = {
      "POST /v1/claims": this.#claim,
      [`GET ${BEGIN}`]: this.#claim,
      [`POST ${BEGIN}/touch`]: this.#claim,
      [`POST ${BEGIN}/release`]: this.#release,
      [`POST ${BEGIN}/exec`]: this.#start,
      [`GET ${BEGIN}/exec/k1/output`]: this.#follow,
      [`POST ${BEGIN}/exec/k1/ack`]: this.#acknowledge,
      [`POST ${BEGIN}/exec/k1/input`]: this.#receive,
      [`DELETE ${BEGIN}/exec/k1`]: this.#end,
    };
    const operation = `${req.method} ${pathname}`;
    const answer = this.answers.get(operation) ?? routes[operation];
    if (answer === undefined) {
      json(res, 404, { status: 404, code: "not_found", detail: `no such path: ${pathname}` });
      return;
    }
    await answer.call(this, req, res, searchParams);
  }

  async #claim(req, res) {
    await body(req);
    json(res, req.url === "/v1/claims" ? 201 : 200, CLAIM);
  }

  async #release(req, res) {
    await body(req);
    json(res, 200, { ...CLAIM, state: "released" });
  }

  async #start(req, res) {
    const { id, command } = JSON.parse(await body(req));
    json(res, 201, { id, command, started_at: "", output_bytes: 0 });
  }

  async #follow(_, res, query) {
    const after = Number(query.get("after"));
    this.connections++;
    this.#move(after);
    const line = (value) => res.write(`${value === undefined ? "" : JSON.stringify(value)}\n`);
    line({ start: { id: "k1", offset: after, input_received: 0 } });
    line();
    const begin = Math.max(0, after - this.overlap);
    let sent = 0;
    let offset = 0;
    for (const [stream, data] of this.output) {
      const piece = data.subarray(Math.max(0, begin - offset));
      const at = offset + data.length - piece.length;
      offset += data.length;
      if (piece.length === 0) {
        continue;
      }
      while (offset - this.acknowledged > this.keep) {
        await new Promise((resolve) => this.#changed.push(resolve));
      }
      const text = { offset: at, stream, data: piece.toString("base64") };
      if (sent++ === this.pieces) {
        res.write(JSON.stringify(text).slice(0, -10), () => res.destroy());
        return;
      }
      line(text);
    }
    line({ end: { exit_code: 3, duration_ms: 1.5 } });
    res.end();
  }

  #move(offset) {
    this.acknowledged = Math.max(this.acknowledged, offset);
    this.#changed.splice(0).forEach((resolve) => resolve());
  }

  async #acknowledge(req, res) {
    const { offset } = JSON.parse(await body(req));
    this.acknowledgements.push(offset);
    this.#move(offset);
    res.writeHead(204).end();
  }

  async #receive(req, res, query) {
    const data = await body(req);
    const offset = Number(query.get("offset"));
    if (offset <= this.input.length) {
      const more = data.subarray(this.input.length - offset).subarray(0, this.inputLimit);
      this.input = Buffer.concat([this.input, more]);
      this.inputClosed ||= query.get("close") === "true";
    }
    if (this.breakInput-- > 0) {
      res.destroy();
      return;
    }
    json(res, 200, { received: this.input.length, closed: this.inputClosed });
  }

  async #end(_, res) {
    json(res, 200, { id: "k1", command: ["x"], started_at: "", output_bytes: 0 });
  }
}

export async function body(req) {
  const parts = [];
  for await (const part of req) {
    parts.push(part);
  }
  return Buffer.concat(parts);
}

export function json(res, status, value, headers = {}) {
  const text = JSON.stringify(value);
  res.writeHead(status, { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(text), ...headers });
  res.end(text);
}

/** An answer that fails with a problem. */
export function problem(status, code, headers = {}) {
  return async (req, res) => {
    await body(req);
    const value = { type: `urn:hostler:problem:${code}`, title: code, status, code, detail: `it is ${code}`, instance: "r1" };
    json(res, status, value, { "Content-Type": "application/problem+json", ...headers });
  };
}
