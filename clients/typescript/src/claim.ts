import "./dispose.js";
import { Command } from "./command.js";
import { duration, sleep } from "./deadline.js";
import { HostlerError } from "./errors.js";
import { Files } from "./files.js";
import { Port } from "./ports.js";
import type { CallOptions, Given, How, Operation, Transport } from "./transport.js";
import type * as api from "./types.js";

// Hooks run during a release, which uploads the tenant's state.
export const HOOKS_TIMEOUT = 900_000;
// Of run. fetch of Node.js waits at most 5 minutes for an answer.
const RUN_TIMEOUT = 240_000;
const MAX_RUN_TIMEOUT = 280_000;
const LOST_TIMEOUT = 300_000;
const POLL = 30_000;
const MAX_POLL_FAILURES = 20;
const OPEN_WAITS = ["starting", "waiting", "signalling", "timing_out"];

/** How a command is run. Times are milliseconds. */
export interface CommandOptions extends CallOptions {
  timeout?: number;
  user?: string;
  workdir?: string;
  environment?: Record<string, string>;
}

/** How a command is started. Its signal also ends reading and sending. */
export interface StartOptions extends CommandOptions {
  /** Input will be sent. */
  input?: boolean;
  terminal?: api.TerminalSize;
  /** A request that is repeated with an id starts no second command. `await using` leaves
   * one that ran already running. */
  id?: string;
  /** How long lost connections are made again. Default: 5 minutes. */
  lostTimeout?: number;
}

/** What a wait is for. */
export interface WaitOptions extends CallOptions {
  name?: string;
  onTimeout?: string;
  context?: unknown;
  requestId?: string;
}

/** A tenant's container. `await using` releases it if the call created it: one that the
 * tenant held before may be in use by another program. */
export class Claim implements AsyncDisposable {
  readonly id: string;
  /** The claim as it was last seen. */
  info: api.Claim;
  /** Whether it was not there before. */
  readonly created: boolean;
  readonly files: Files;
  #transport: Transport;
  #touching: AbortController | undefined;

  constructor(transport: Transport, info: api.Claim, created: boolean) {
    this.id = info.id;
    this.info = info;
    this.created = created;
    this.files = new Files(transport, info.id);
    this.#transport = transport;
  }

  /** The claim as it is; info is this then. */
  async refresh(options?: CallOptions): Promise<api.Claim> {
    return (this.info = (await this.#transport.call("GET /v1/claims/{id}", { path: { id: this.id } }, options)).value);
  }

  /** Record that it is in use, for pools with a claim_idle_ttl. */
  async touch(options?: CallOptions): Promise<api.Claim> {
    return (this.info = (await this.#transport.call("POST /v1/claims/{id}/touch", { path: { id: this.id } }, options)).value);
  }

  /** Move the end of its lifetime by this number of milliseconds. Each request moves it
   * again, so it is not repeated when the connection breaks. */
  async extend(by: number, options?: CallOptions): Promise<api.Claim> {
    const given = { path: { id: this.id }, body: { by: duration(by) } };
    return (this.info = (await this.#transport.call("POST /v1/claims/{id}/extend", given, { ...options, repeat: false })).value);
  }

  /** End it. If the tenant's state cannot be kept, this is an error with code
   * sync_failed, and can be called again; with discard the state is given up. */
  async release(options: CallOptions & { discard?: boolean } = {}): Promise<api.Claim> {
    this.stopTouching();
    const given = { path: { id: this.id }, body: { discard: options.discard ?? false } };
    const how = { signal: options.signal, timeout: HOOKS_TIMEOUT };
    return (this.info = (await this.#transport.call("POST /v1/claims/{id}/release", given, how)).value);
  }

  /** Run a command to its end, and return the beginning and the end of its output. It
   * is ended after 4 minutes or the timeout, and when the connection breaks; one that
   * takes longer is for start. */
  async run(command: string[], options: CommandOptions & { stdin?: string } = {}): Promise<api.CompletedCommand> {
    const timeout = options.timeout ?? RUN_TIMEOUT;
    if (timeout > MAX_RUN_TIMEOUT) {
      throw new RangeError(`a command that is waited for takes at most ${MAX_RUN_TIMEOUT} ms: start it`);
    }
    const body = bodyOf(command, { ...options, timeout });
    if (options.stdin) {
      body.stdin = options.stdin;
    }
    const how = { signal: options.signal, timeout: timeout + this.#transport.timeout, repeat: false };
    return (await this.#exec(body, how)).value as api.CompletedCommand;
  }

  /** Start a command. Iterate over what this returns to read its output; with input,
   * send it input. It continues until it ends, or with the claim, whatever becomes of
   * this program. */
  async start(command: string[], options: StartOptions = {}): Promise<Command> {
    const body = { ...bodyOf(command, options), detach: true, id: options.id ?? randomId() };
    if (options.input) {
      body.input = true;
    }
    if (options.terminal !== undefined) {
      body.terminal = options.terminal;
    }
    const { status, value } = await this.#exec(body, { signal: options.signal });
    // One that ran already is another program's, unless nobody else knows its id.
    return this.#command(value.id, 0, 0, options.id === undefined || status === 201, options);
  }

  #exec(body: api.CommandRequest, how: How): Promise<{ status: number; value: api.CompletedCommand | api.ClaimCommand }> {
    return this.#transport.call("POST /v1/claims/{id}/exec", { path: { id: this.id }, body }, how);
  }

  /** A command that was started before. Its output is read from the offset after on;
   * what is before it is given up. */
  async attach(id: string, options: CallOptions & { after?: number; lostTimeout?: number } = {}): Promise<Command> {
    const given = { path: { id: this.id, command: id }, query: { offset: 0 } };
    const how = { content: "", headers: { "Content-Type": "application/octet-stream" }, signal: options.signal };
    const { received } = (await this.#transport.call("POST /v1/claims/{id}/exec/{command}/input", given, how)).value;
    return this.#command(id, options.after ?? 0, received, false, options);
  }

  #command(id: string, offset: number, received: number, isOwner: boolean, options: { lostTimeout?: number } & CallOptions): Command {
    const { lostTimeout = LOST_TIMEOUT, signal } = options;
    return new Command({ transport: this.#transport, claim: this.id, id, offset, received, isOwner, lostTimeout, signal });
  }

  /** The commands that run, and those that ended a short time ago. */
  async commands(options?: CallOptions): Promise<api.ClaimCommand[]> {
    return (await this.#transport.call("GET /v1/claims/{id}/exec", { path: { id: this.id } }, options)).value.items;
  }

  /** A port of the container. */
  port(number: number): Port {
    return new Port(this.#transport, this.id, number);
  }

  /** Wait for a signal, and return the wait when it has ended: with the data of the
   * signal if its state is signalled. It returns to the same wait after a lost
   * connection, or a restart of the server. */
  async wait(type: string, timeout: number, options: WaitOptions = {}): Promise<api.Wait> {
    const body: api.WaitRequest = { request_id: options.requestId ?? randomId(), type, timeout: duration(timeout) };
    if (options.name) {
      body.name = options.name;
    }
    if (options.onTimeout) {
      body.on_timeout = options.onTimeout;
    }
    if (options.context !== undefined) {
      body.context = options.context;
    }
    const { signal } = options;
    let wait = await this.#persist("POST /v1/claims/{id}/waits", { path: { id: this.id }, body }, { signal });
    while (OPEN_WAITS.includes(wait.state)) {
      const given = { path: { id: wait.id }, query: { wait: duration(POLL) } };
      wait = await this.#persist("GET /v1/waits/{id}", given, { signal, timeout: POLL + this.#transport.timeout });
    }
    return wait;
  }

  /** Repeat a request while the server is unavailable. */
  async #persist<O extends Operation>(operation: O, given: Given<O>, how: How) {
    for (let failures = 1; ; failures++) {
      try {
        return (await this.#transport.call(operation, given, how)).value;
      } catch (err) {
        if (!(err instanceof HostlerError) || !err.isTemporary || failures >= MAX_POLL_FAILURES) {
          throw err;
        }
      }
      await sleep(this.#transport.backoff(failures), how.signal);
    }
  }

  /** Send data to the open wait of a name, or to the next one. It is not repeated when
   * the connection breaks: the next wait would get it a second time. */
  async signal(name: string, data: unknown = null, options?: CallOptions): Promise<api.SignalResult> {
    const given = { path: { id: this.id }, body: { name, data } };
    return (await this.#transport.call("POST /v1/claims/{id}/signals", given, { ...options, repeat: false })).value;
  }

  /** Touch it in the background until it ends. This does not keep a program running. */
  startTouching(every = 30_000): void {
    this.stopTouching();
    this.#touching = new AbortController();
    void this.#touchAll(every, this.#touching.signal);
  }

  /** End startTouching. */
  stopTouching(): void {
    this.#touching?.abort();
  }

  async #touchAll(every: number, signal: AbortSignal): Promise<void> {
    for (;;) {
      await pause(every, signal);
      if (signal.aborted) {
        return;
      }
      try {
        await this.touch({ signal });
      } catch (err) {
        if (!(err instanceof HostlerError) || (err.status >= 400 && err.status < 500)) {
          return; // it has ended: the next call shows why
        }
      }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.stopTouching();
    if (this.created) {
      await this.release();
    }
  }
}

/** Wait without keeping a program running, until the signal. */
function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, milliseconds);
    signal.addEventListener("abort", end);
    (timer as unknown as { unref?: () => void }).unref?.(); // of Node.js only
    if (signal.aborted) {
      end();
    }
  });
}

function bodyOf(command: string[], options: CommandOptions): api.CommandRequest {
  if (!Array.isArray(command)) {
    throw new TypeError("a command is a list of its program and arguments");
  }
  const { timeout, user, workdir, environment } = options;
  const body: api.CommandRequest = { command };
  if (timeout !== undefined) {
    body.timeout = duration(timeout);
  }
  return Object.assign(body, user && { user }, workdir && { workdir }, environment && { environment });
}

export function randomId(): string {
  // randomUUID is missing in pages without TLS.
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join("");
}
