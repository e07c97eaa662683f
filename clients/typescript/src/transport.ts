import { Answer } from "./answer.js";
import { type Content, Upload } from "./content.js";
import { Deadline, sleep } from "./deadline.js";
import { CLOSED, HostlerError, NO_ANSWER, problemOf } from "./errors.js";
import type { Operations } from "./types.js";

const ATTEMPTS = 3;
const MAX_PROBLEM = 1 << 20;

/** The method and path of an operation of the API. */
export type Operation = keyof Operations;

/** What an operation is called with. */
export interface Given<O extends Operation> {
  path: Operations[O]["path"];
  query?: Operations[O]["query"];
  body?: Operations[O]["body"];
}

/** Options of a call. */
export interface CallOptions {
  /** Ends the call, which fails with the signal's reason. */
  signal?: AbortSignal | undefined;
}

/** How a request is made. */
export interface How extends CallOptions {
  content?: Content;
  headers?: Record<string, string>;
  /** Of each step, in milliseconds; 0 is none. Default: the client's. */
  timeout?: number;
  /** Whether a request whose connection broke is made again. Default: true. */
  repeat?: boolean;
}

/** Where requests go, and with what. */
export interface TransportOptions {
  url: string;
  key: () => string | Promise<string>;
  timeout: number;
  fetch: typeof globalThis.fetch;
  backoff: (failures: number) => number;
}

/** Makes requests to one server. */
export class Transport {
  /** The server's address, without a slash at its end. */
  readonly address: string;
  readonly timeout: number;
  readonly backoff: (failures: number) => number;
  #key: () => string | Promise<string>;
  #fetch: typeof globalThis.fetch;
  #open = new Set<Deadline>();
  #closed = false;

  constructor(options: TransportOptions) {
    const url = new URL(options.url);
    if ((url.protocol !== "http:" && url.protocol !== "https:") || url.username || url.password || url.search || url.hash) {
      throw new TypeError("the server's address is written like http://127.0.0.1:8700, without a user and a query");
    }
    this.address = url.origin + url.pathname.replace(/\/+$/, "");
    this.timeout = options.timeout;
    this.backoff = options.backoff;
    this.#key = options.key;
    this.#fetch = options.fetch;
  }

  /** The URL of an operation. */
  url<O extends Operation>(operation: O, given: Given<O>): string {
    const path = operation.slice(operation.indexOf(" ") + 1);
    const values = given.path as Record<string, string | number>;
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(given.query ?? {})) {
      if (value !== undefined) {
        query.set(name, String(value));
      }
    }
    const text = query.toString();
    return this.address + path.replace(/\{(\w+)\}/g, (_, name: string) => expanded(name, String(values[name]))) + (text ? `?${text}` : "");
  }

  /** Make a request once, and return its answer, which is not an error. */
  async send<O extends Operation>(operation: O, given: Given<O>, how: How = {}): Promise<Answer> {
    const url = this.url(operation, given);
    const headers = new Headers(how.headers);
    let content = how.content;
    if (given.body !== undefined) {
      content = JSON.stringify(given.body);
      headers.set("Content-Type", "application/json");
    }
    const upload = content === undefined ? undefined : new Upload(content);
    const init: RequestInit = { method: operation.slice(0, operation.indexOf(" ")), headers };
    if (upload !== undefined) {
      init.body = upload.body;
    }
    if (upload?.isStream) {
      (init as { duplex?: string }).duplex = "half"; // fetch requires it
    }
    const deadline = new Deadline(how.timeout ?? this.timeout, how.signal);
    try {
      const answer = new Answer(this, deadline, await this.fetch(url, init, deadline, upload));
      if (!answer.response.ok) {
        throw await refusal(answer);
      }
      return answer;
    } catch (err) {
      void upload?.stop(); // it may wait for the source
      throw err;
    }
  }

  /** As the function of this name, with the key, and without following a redirect. */
  async fetch(url: string, init: RequestInit, deadline: Deadline, upload?: Upload): Promise<Response> {
    try {
      if (this.#closed) {
        throw new HostlerError(0, CLOSED, "the client is closed");
      }
      this.#open.add(deadline);
      const headers = new Headers(init.headers);
      const key = await this.#authorization();
      if (key) {
        headers.set("Authorization", key);
      }
      const send = this.#fetch; // a method of another object may not be called as one of this
      return await send(url, { ...init, headers, redirect: "manual", credentials: "omit", cache: "no-store", signal: deadline.signal });
    } catch (err) {
      this.forget(deadline);
      throw upload?.failed ? upload.error : this.failure(err, deadline);
    }
  }

  async #authorization(): Promise<string> {
    const key = await this.#key();
    if (!/^[!-~]*$/.test(key)) {
      throw new KeyError("the API key has characters that no key has");
    }
    return key ? `Bearer ${key}` : "";
  }

  /** The error of a request without a whole answer. */
  failure(err: unknown, deadline: Deadline): unknown {
    if (deadline.signal.aborted) {
      return deadline.signal.reason;
    }
    if (err instanceof HostlerError || err instanceof KeyError) {
      return err;
    }
    const cause = err instanceof Error && err.cause instanceof Error ? err.cause : err;
    const text = cause instanceof Error ? cause.message || cause.name : String(cause);
    return new HostlerError(0, NO_ANSWER, `no answer from the server at ${this.address}: ${text}`, { cause: err });
  }

  /** Make a request and return the status and the JSON of its answer. It is made again
   * when the connection breaks, unless a second one could do something else. */
  async call<O extends Operation>(operation: O, given: Given<O>, how: How = {}): Promise<{ status: number; value: Operations[O]["answer"] }> {
    for (let attempt = 1; ; attempt++) {
      try {
        const answer = await this.send(operation, given, how);
        return { status: answer.response.status, value: (await answer.json()) as Operations[O]["answer"] };
      } catch (err) {
        const lost = err instanceof HostlerError && err.code === NO_ANSWER;
        if (!lost || how.repeat === false || attempt >= ATTEMPTS) {
          throw err;
        }
      }
      await sleep(this.backoff(attempt), how.signal);
    }
  }

  /** Called for a request that has ended. */
  forget(deadline: Deadline): void {
    deadline.end();
    this.#open.delete(deadline);
  }

  /** End every request, and let none begin. */
  close(): void {
    this.#closed = true;
    for (const deadline of this.#open) {
      deadline.abort(new HostlerError(0, CLOSED, "the client is closed"));
    }
    this.#open.clear();
  }
}

class KeyError extends TypeError {}

async function refusal(answer: Answer): Promise<unknown> {
  const { status, type, headers } = answer.response;
  let text = "";
  try {
    text = new TextDecoder().decode(await answer.bytes(MAX_PROBLEM));
  } catch (err) {
    if (!(err instanceof HostlerError)) {
      return err; // the caller's signal
    }
    // The status is known.
  }
  answer.cancel(); // an upload may not be over
  // Browsers hide the status of a redirect.
  return problemOf(type === "opaqueredirect" ? 302 : status, headers, text);
}

/** A parameter of a path. In that of a file, slashes are what they are. fetch would
 * follow the parts . and .. to another path. */
function expanded(name: string, value: string): string {
  const parts = name === "path" ? value.split("/") : [value];
  if (!(name === "path" && value === "") && parts.some((p) => p === "" || p === "." || p === "..")) {
    throw new TypeError(`${JSON.stringify(value)} has a part that is empty, . or ..`);
  }
  return parts.map(encodeURIComponent).join("/");
}
