import { CLIENT_TIMEOUT, HostlerError } from "./errors.js";

const MAX_TIMER = 2 ** 31 - 1;

/** Ends a request when its caller's signal does, or when a step of it takes too long. */
export class Deadline {
  readonly signal: AbortSignal;
  #abort = new AbortController();
  #timeout: number;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #caller: AbortSignal | undefined;
  #follow = () => this.abort(this.#caller?.reason);

  /** A timeout of 0 is none. */
  constructor(timeout: number, caller?: AbortSignal) {
    this.signal = this.#abort.signal;
    this.#timeout = timeout;
    this.#caller = caller;
    if (caller?.aborted) {
      this.#follow();
    }
    caller?.addEventListener("abort", this.#follow);
    this.restart();
  }

  /** Begin another step. */
  restart(): void {
    this.pause();
    if (this.#timeout > 0 && !this.signal.aborted) {
      const late = () => this.abort(new HostlerError(0, CLIENT_TIMEOUT, `no answer from the server within ${this.#timeout} ms`));
      this.#timer = setTimeout(late, Math.min(this.#timeout, MAX_TIMER));
    }
  }

  /** No step that follows has a limit. */
  lift(): void {
    this.pause();
    this.#timeout = 0;
  }

  /** Until restart, time does not count. */
  pause(): void {
    clearTimeout(this.#timer);
  }

  abort(reason: unknown): void {
    this.end();
    this.#abort.abort(reason);
  }

  /** Called when the request has ended. */
  end(): void {
    this.pause();
    this.#caller?.removeEventListener("abort", this.#follow);
  }
}

/** Wait, or fail with the reason of the signal. */
export function sleep(milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason);
      return;
    }
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, milliseconds);
    signal?.addEventListener("abort", stop, { once: true });
  });
}

/** Milliseconds to wait after a number of failures in a row. */
export function backoff(failures: number): number {
  return Math.min(100 * 2 ** Math.min(failures, 6), 5000) * (0.8 + 0.4 * Math.random());
}

/** A duration as the server reads it. */
export function duration(milliseconds: number): string {
  if (!(milliseconds >= 0 && milliseconds < 1e12)) {
    throw new RangeError(`${milliseconds} is no duration in milliseconds`);
  }
  return `${Math.ceil(milliseconds)}ms`;
}
