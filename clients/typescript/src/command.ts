import "./dispose.js";
import { sleep } from "./deadline.js";
import { CLOSED, HostlerError, INVALID_ANSWER, isObject, NO_ANSWER } from "./errors.js";
import { Lines } from "./lines.js";
import type { CallOptions, Transport } from "./transport.js";
import type { ClaimCommand, CommandInput, CommandLine, CommandResult, Problem } from "./types.js";

// Three heartbeats of the server.
const READ_TIMEOUT = 45_000;
// Half of what the container keeps.
const ACKNOWLEDGE = 512 << 10;
const MAX_INPUT = 256 << 10;
// A connection that lasted this long was one.
const STABLE = 5_000;
const END_TIMEOUT = 120_000;

/** A piece of output. */
export interface Chunk {
  stream: "stdout" | "stderr";
  data: Uint8Array;
  /** Of its first byte, in the output of both streams. */
  offset: number;
  /** The offset after its last byte: where another reader continues. */
  end: number;
}

/** What a command is read and written with. */
export interface CommandState {
  transport: Transport;
  claim: string;
  id: string;
  offset: number;
  received: number;
  isOwner: boolean;
  /** How long, in milliseconds, lost connections are made again. */
  lostTimeout: number;
  signal?: AbortSignal | undefined;
}

/**
 * A command of a claim. Iterate over it to read its output to the end; `result` is
 * then how it ended. Lost connections are made again: no byte is lost or read twice.
 *
 * A chunk is acknowledged when the next one is asked for. A command that was started
 * continues without its client; `await using` ends it.
 */
export class Command implements AsyncIterable<Chunk>, AsyncDisposable {
  readonly id: string;
  /** How it ended, after the output's end. */
  result: CommandResult | undefined;
  /** The offset after the output that was read. */
  offset: number;
  /** Called with the error when a connection was lost, before the next one. */
  onLost: ((err: HostlerError) => void) | undefined;
  #transport: Transport;
  #path: { id: string; command: string };
  #isOwner: boolean;
  #lostTimeout: number;
  #acknowledged: number;
  #received: number;
  #lines: Lines | undefined;
  #connectedAt = 0;
  #reading: Promise<unknown> = Promise.resolve();
  #sending: Promise<unknown> = Promise.resolve();
  #closing = new AbortController();
  #caller: AbortSignal | undefined;
  #follow = () => this.#close(this.#caller?.reason);

  constructor(state: CommandState) {
    this.id = state.id;
    this.offset = state.offset;
    this.#transport = state.transport;
    this.#path = { id: state.claim, command: state.id };
    this.#isOwner = state.isOwner;
    this.#lostTimeout = state.lostTimeout;
    this.#acknowledged = state.offset;
    this.#received = state.received;
    this.#caller = state.signal;
    this.#caller?.addEventListener("abort", this.#follow);
    if (this.#caller?.aborted) {
      this.#follow();
    }
  }

  /** A loop that is left, and another one, continue after the last chunk. */
  [Symbol.asyncIterator](): AsyncIterator<Chunk, undefined> {
    return {
      next: async () => {
        const value = await this.read();
        return value === undefined ? { done: true, value } : { done: false, value };
      },
    };
  }

  /** The next chunk; undefined at the output's end. */
  read(): Promise<Chunk | undefined> {
    const chunk = this.#reading.then(() => this.#next());
    this.#reading = chunk.catch(() => undefined);
    return chunk;
  }

  async #next(): Promise<Chunk | undefined> {
    let failures = 0;
    let since = 0;
    while (this.result === undefined) {
      try {
        this.#closing.signal.throwIfAborted();
        await this.#acknowledge();
        const line = await this.#readLine();
        if (line !== undefined && line !== "start") {
          return line;
        }
        if (line === undefined) {
          failures = 0; // a heartbeat
        }
      } catch (err) {
        const wasStable = this.#lines !== undefined && Date.now() - this.#connectedAt > STABLE;
        failures = wasStable ? 1 : failures + 1;
        since = failures === 1 ? Date.now() : since;
        await this.#lost(err, failures, since);
      }
    }
    return undefined;
  }

  /** Wait before another connection is made, or throw the error. */
  async #lost(err: unknown, failures: number, since: number): Promise<void> {
    this.#disconnect();
    this.#closing.signal.throwIfAborted();
    if (!(err instanceof HostlerError) || !err.isTemporary || Date.now() - since > this.#lostTimeout) {
      throw err;
    }
    this.onLost?.(err);
    await sleep(this.#transport.backoff(failures), this.#closing.signal);
  }

  /** Handle a line; return the output that it has, undefined for none. */
  async #readLine(): Promise<Chunk | "start" | undefined> {
    const text = await (await this.#connect()).next();
    if (text === undefined) {
      throw new HostlerError(0, NO_ANSWER, "the output is cut off");
    }
    if (text.trim() === "") {
      return undefined;
    }
    const line = objectOf(text);
    if (isObject(line.error)) {
      throw lineError(line.error as Partial<Problem>);
    }
    if (isObject(line.end)) {
      await this.#end(line.end as unknown as CommandResult);
      return undefined;
    }
    return line.data ? this.#output(line) : "start";
  }

  async #connect(): Promise<Lines> {
    if (this.#lines === undefined) {
      const given = { path: this.#path, query: { after: this.offset } };
      const how = { timeout: READ_TIMEOUT, signal: this.#closing.signal };
      this.#lines = new Lines(await this.#transport.send("GET /v1/claims/{id}/exec/{command}/output", given, how));
      this.#connectedAt = Date.now();
    }
    return this.#lines;
  }

  #output(line: CommandLine): Chunk | undefined {
    const offset = line.offset ?? 0;
    let data: Uint8Array;
    try {
      data = Uint8Array.from(atob(line.data ?? ""), (c) => c.charCodeAt(0));
    } catch (err) {
      throw new HostlerError(200, INVALID_ANSWER, "a line of the output is not as the server writes it", { cause: err });
    }
    if (!Number.isSafeInteger(offset) || offset > this.offset) {
      throw new HostlerError(200, INVALID_ANSWER, `the output continues at ${offset}, not at ${this.offset}`);
    }
    data = data.subarray(this.offset - offset);
    if (data.length === 0) {
      return undefined;
    }
    const chunk: Chunk = { stream: line.stream === "stderr" ? "stderr" : "stdout", data, offset: this.offset, end: this.offset + data.length };
    this.offset = chunk.end;
    return chunk;
  }

  async #end(result: CommandResult): Promise<void> {
    this.result = result;
    this.#caller?.removeEventListener("abort", this.#follow);
    this.#disconnect();
    try {
      await this.#sendAcknowledgement(this.offset);
    } catch {
      // It is forgotten later.
    }
  }

  /** Acknowledge much output, but for its last byte: the container forgets a command
   * that has ended once all is acknowledged, and its result must arrive first. */
  async #acknowledge(): Promise<void> {
    if (this.offset - this.#acknowledged >= ACKNOWLEDGE) {
      await this.#sendAcknowledgement(this.offset - 1);
      this.#acknowledged = this.offset;
    }
  }

  async #sendAcknowledgement(offset: number): Promise<void> {
    const how = { signal: this.#closing.signal };
    await this.#transport.call("POST /v1/claims/{id}/exec/{command}/ack", { path: this.#path, body: { offset } }, how);
  }

  /** Read the output to its end, and return how the command ended. */
  async wait(each?: (chunk: Chunk) => unknown): Promise<CommandResult> {
    for (let chunk = await this.read(); chunk !== undefined; chunk = await this.read()) {
      await each?.(chunk);
    }
    return this.result as CommandResult;
  }

  /** Send input, and return when the command's container has received it. A command
   * that does not read delays it. */
  send(data: string | Uint8Array): Promise<void> {
    return this.#inTurn(() => this.#sendAll(typeof data === "string" ? new TextEncoder().encode(data) : data));
  }

  /** End the input. */
  closeInput(): Promise<void> {
    return this.#inTurn(async () => {
      const none = new Uint8Array(0);
      for (let got = await this.#sendInput(none, true); !got.closed; got = await this.#sendInput(none, true)) {
        // A command that does not read delays it.
      }
    });
  }

  #inTurn(send: () => Promise<void>): Promise<void> {
    const sent = this.#sending.then(send);
    this.#sending = sent.catch(() => undefined);
    return sent;
  }

  async #sendAll(data: Uint8Array): Promise<void> {
    let rest = data;
    while (rest.length > 0) {
      const part = rest.subarray(0, MAX_INPUT);
      const got = await this.#sendInput(part, false);
      const n = got.received - this.#received;
      if (!(n >= 0 && n <= part.length)) {
        const wanted = this.#received + part.length;
        throw new HostlerError(200, INVALID_ANSWER, `the command has received ${got.received} bytes of input, not ${wanted}`);
      }
      rest = rest.subarray(n);
      this.#received = got.received;
      if (got.closed && rest.length > 0) {
        throw new HostlerError(200, "input_closed", "the command receives no more input");
      }
    }
  }

  /** Send input, and repeat that after a lost connection: the offset makes it safe. */
  async #sendInput(content: Uint8Array, close: boolean): Promise<CommandInput> {
    const given = { path: this.#path, query: { offset: this.#received, ...(close ? { close } : {}) } };
    const how = { content, headers: { "Content-Type": "application/octet-stream" }, signal: this.#closing.signal };
    const since = Date.now();
    for (let failures = 1; ; failures++) {
      try {
        return (await this.#transport.call("POST /v1/claims/{id}/exec/{command}/input", given, how)).value;
      } catch (err) {
        if (!(err instanceof HostlerError) || !err.isTemporary || Date.now() - since > this.#lostTimeout) {
          throw err;
        }
      }
      await sleep(this.#transport.backoff(failures), this.#closing.signal);
    }
  }

  /** Send a signal such as SIGINT. */
  async signal(signal: string, options?: CallOptions): Promise<void> {
    const given = { path: this.#path, body: { signal } };
    await this.#transport.call("POST /v1/claims/{id}/exec/{command}/signal", given, { ...options, repeat: false });
  }

  /** Change the size of the terminal. */
  async resize(rows: number, columns: number, options?: CallOptions): Promise<void> {
    await this.#transport.call("POST /v1/claims/{id}/exec/{command}/resize", { path: this.#path, body: { rows, columns } }, options);
  }

  /** Its description. */
  async status(options?: CallOptions): Promise<ClaimCommand> {
    return (await this.#transport.call("GET /v1/claims/{id}/exec/{command}", { path: this.#path }, options)).value;
  }

  /** End it: SIGTERM, then SIGKILL. No process of it is left on return. */
  async kill(options?: CallOptions): Promise<void> {
    const timeout = Math.max(this.#transport.timeout, END_TIMEOUT);
    await this.#transport.call("DELETE /v1/claims/{id}/exec/{command}", { path: this.#path }, { ...options, timeout });
  }

  /** Stop reading and sending. The command continues. */
  close(): void {
    this.#close(new HostlerError(0, CLOSED, "the command was closed"));
  }

  #close(reason: unknown): void {
    this.#caller?.removeEventListener("abort", this.#follow);
    this.#closing.abort(reason);
    this.#disconnect();
  }

  #disconnect(): void {
    this.#lines?.close();
    this.#lines = undefined;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.close();
    if (!this.#isOwner || this.result !== undefined) {
      return;
    }
    try {
      await this.kill();
    } catch (err) {
      const hasEnded = err instanceof HostlerError && (err.status === 404 || err.status === 409); // or its claim has
      if (!hasEnded) {
        throw err;
      }
    }
  }
}

function objectOf(text: string): CommandLine {
  let line: unknown;
  try {
    line = JSON.parse(text);
  } catch {
    // It is undefined.
  }
  if (!isObject(line)) {
    throw new HostlerError(200, INVALID_ANSWER, "a line of the output is not as the server writes it");
  }
  return line;
}

function lineError(problem: Partial<Problem>): HostlerError {
  const status = typeof problem.status === "number" ? problem.status : 500;
  return new HostlerError(status, String(problem.code ?? ""), String(problem.detail ?? ""), { problem });
}
