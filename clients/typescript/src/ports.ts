import { Answer, stream } from "./answer.js";
import { Deadline, duration } from "./deadline.js";
import { problemOf, problemOfText } from "./errors.js";
import type { CallOptions, Transport } from "./transport.js";
import type { Link } from "./types.js";

const MAX_PROBLEM = 64 << 10;

/** A TCP port of a claim's container, also one that listens on its loopback address
 * only. */
export class Port {
  readonly number: number;
  /** The address of the port below the API. Requests to it need the key. */
  readonly url: string;
  #transport: Transport;
  #claim: string;

  constructor(transport: Transport, claim: string, number: number) {
    if (!Number.isInteger(number) || number < 1 || number > 65535) {
      throw new RangeError(`${number} is no port`);
    }
    this.number = number;
    this.#transport = transport;
    this.#claim = claim;
    this.url = transport.url("POST /v1/claims/{id}/ports/{port}", { path: this.#path() });
  }

  #path(): { id: string; port: number } {
    return { id: this.#claim, port: this.number };
  }

  /**
   * As fetch, of a path such as `/` of the program that listens on the port. Its
   * response is returned whatever its status is; one of Hostler, as port_refused, is
   * thrown. Redirects are not followed: one that stays below the port is in Location,
   * and another in Hostler-Location.
   */
  async fetch(path: string, init: RequestInit & { timeout?: number } = {}): Promise<Response> {
    const url = this.#urlOf(path);
    const { timeout = this.#transport.timeout, signal, ...rest } = init;
    const deadline = new Deadline(timeout, signal ?? undefined);
    const answer = new Answer(this.#transport, deadline, await this.#transport.fetch(url, rest, deadline));
    deadline.lift(); // a response may be a stream
    return responseOf(answer);
  }

  /** A path may not lead to the API itself, which would get the key with a request that
   * is not the caller's. */
  #urlOf(path: string): string {
    const below = new URL(this.url).pathname + "/";
    const url = path.startsWith("/") ? new URL(this.url + path) : undefined;
    if (url === undefined || url.origin !== new URL(this.#transport.address).origin || !url.pathname.startsWith(below)) {
      throw new TypeError(`${JSON.stringify(path)} is no path of a port`);
    }
    return url.href;
  }

  /** A link for a browser. Who has it can use the port. It needs a port domain. */
  async link(options: CallOptions & { expiresIn?: number } = {}): Promise<Link> {
    const body = options.expiresIn === undefined ? {} : { expires_in: duration(options.expiresIn) };
    const given = { path: this.#path(), body };
    return (await this.#transport.call("POST /v1/claims/{id}/ports/{port}/links", given, { signal: options.signal })).value;
  }
}

/** The response of a program; an error for one of Hostler. */
async function responseOf(answer: Answer): Promise<Response> {
  const { response } = answer;
  const { status, headers } = response;
  if (response.body === null) {
    answer.cancel();
    return response;
  }
  const length = Number(headers.get("Content-Length") ?? Number.NaN);
  if (response.ok || headers.get("Content-Type") !== "application/problem+json" || !(length <= MAX_PROBLEM)) {
    return new Response(stream(answer), response);
  }
  const body = await answer.bytes(MAX_PROBLEM);
  const text = new TextDecoder().decode(body);
  if (problemOfText(text)?.type?.startsWith("urn:hostler:problem:")) {
    throw problemOf(status, headers, text);
  }
  return new Response(body as BodyInit, response);
}
