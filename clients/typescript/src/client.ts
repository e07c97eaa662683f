import "./dispose.js";
import { Claim, HOOKS_TIMEOUT, randomId } from "./claim.js";
import { backoff, duration } from "./deadline.js";
import { type CallOptions, Transport } from "./transport.js";

const DEFAULT_SERVER = "http://127.0.0.1:8700";
const POOL_WAIT = 120_000;
const TOUCH_EVERY = 30_000;

/** Options of a client. */
export interface ClientOptions {
  /** Default: HOSTLER_SERVER of the environment, or http://127.0.0.1:8700. */
  url?: string;
  /** The API key, or what returns it for each request. Default: HOSTLER_API_KEY of the
   * environment, or the content of the file HOSTLER_API_KEY_FILE. */
  key?: string | (() => string | Promise<string>);
  /** Of each step of a request, in milliseconds. Default: 60,000. */
  timeout?: number;
  /** In place of the global one. */
  fetch?: typeof globalThis.fetch;
  /** Milliseconds to wait after a number of failures in a row. */
  backoff?: (failures: number) => number;
}

/** What a claim may have. */
export interface ClaimOptions {
  /** Milliseconds to wait for a container when none is free. 0: it is not waited for. Default: up to 2 minutes for one that is being created. */
  wait?: number;
  /** Milliseconds between two touches in the background; 0 is never. */
  touchEvery?: number;
  /** For filters. */
  labels?: Record<string, string>;
  /** Of the workload, for its hooks. */
  parameters?: Record<string, string>;
  /** Of the main process. */
  environment?: Record<string, string>;
  /** Milliseconds that the claim lasts since it is active. Default: until it is released. */
  expiresIn?: number;
  /** A call that is repeated with the id of the one that created the claim has created true. Default: a random one. */
  requestId?: string;
}

/**
 * A client of one server. The key is sent to this server only: no redirect is
 * followed.
 */
export class Client {
  #transport: Transport;

  constructor(options: ClientOptions = {}) {
    const { key = keyOfEnvironment } = options;
    this.#transport = new Transport({
      url: options.url ?? (variable("HOSTLER_SERVER") || DEFAULT_SERVER),
      key: typeof key === "string" ? () => key : key,
      timeout: options.timeout ?? 60_000,
      fetch: options.fetch ?? globalThis.fetch,
      backoff: options.backoff ?? backoff,
    });
  }

  /** A container for a tenant, when it is ready. If the tenant holds one already, this
   * is it, with created false. wait is how long to wait for a container when none is
   * free. It is touched in the background, every touchEvery milliseconds; 0 is never. */
  async claim(workload: string, tenant: string, options: CallOptions & ClaimOptions = {}): Promise<Claim> {
    const { wait, touchEvery = TOUCH_EVERY, signal, labels, parameters, environment, expiresIn, requestId = randomId() } = options;
    const body = {
      workload, tenant, labels, parameters, environment, request_id: requestId,
      ...(wait === undefined ? {} : { wait: duration(wait) }),
      ...(expiresIn === undefined ? {} : { expires_in: duration(expiresIn) }),
    };
    const how = { signal, timeout: HOOKS_TIMEOUT + (wait ?? POOL_WAIT) };
    const { status, value } = await this.#transport.call("POST /v1/claims", { path: {}, body }, how);
    return touched(new Claim(this.#transport, value, status === 201), touchEvery);
  }

  /** A claim that exists. It is touched in the background only with touchEvery. */
  async getClaim(id: string, options: CallOptions & { touchEvery?: number } = {}): Promise<Claim> {
    const { value } = await this.#transport.call("GET /v1/claims/{id}", { path: { id } }, { signal: options.signal });
    return touched(new Claim(this.#transport, value, false), options.touchEvery ?? 0);
  }

  /** End every request. Claims remain. */
  close(): void {
    this.#transport.close();
  }
}

function touched(claim: Claim, every: number): Claim {
  if (every > 0) {
    claim.startTouching(every);
  }
  return claim;
}

/** A variable of the environment; browsers have none. */
function variable(name: string): string {
  const { process } = globalThis as { process?: { env?: Record<string, string | undefined> } };
  return process?.env?.[name] ?? "";
}

async function keyOfEnvironment(): Promise<string> {
  const name = variable("HOSTLER_API_KEY_FILE");
  if (!name) {
    return variable("HOSTLER_API_KEY");
  }
  const files: string = "node:fs/promises"; // of a type that makes bundlers leave it alone
  const { readFile } = (await import(files)) as { readFile(name: string, encoding: string): Promise<string> };
  return (await readFile(name, "utf8")).trim();
}
