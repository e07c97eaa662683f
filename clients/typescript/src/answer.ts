import type { Deadline } from "./deadline.js";
import { CLOSED, HostlerError, INVALID_ANSWER, NO_ANSWER } from "./errors.js";
import type { Transport } from "./transport.js";

const MAX_JSON = 64 << 20;

/** An answer. Its body has to be read or cancelled. */
export class Answer {
  readonly response: Response;
  #transport: Transport;
  #deadline: Deadline;
  #reader: ReadableStreamDefaultReader<Uint8Array> | undefined;

  constructor(transport: Transport, deadline: Deadline, response: Response) {
    this.#transport = transport;
    this.#deadline = deadline;
    this.response = response;
    this.#reader = response.body?.getReader();
    deadline.pause();
  }

  /** The next bytes of the body; undefined at its end. One that is cut off is an error. */
  async read(): Promise<Uint8Array | undefined> {
    this.#deadline.restart();
    try {
      const part = await this.#reader?.read();
      this.#deadline.pause();
      if (part === undefined || part.done) {
        this.#transport.forget(this.#deadline);
        return undefined;
      }
      return part.value;
    } catch (err) {
      this.#transport.forget(this.#deadline);
      throw this.#transport.failure(err, this.#deadline);
    }
  }

  /** The whole body, of at most limit bytes. */
  async bytes(limit: number): Promise<Uint8Array> {
    const parts: Uint8Array[] = [];
    let size = 0;
    for (let part = await this.read(); part !== undefined; part = await this.read()) {
      parts.push(part);
      size += part.length;
      if (size > limit) {
        this.cancel();
        throw new HostlerError(this.response.status, INVALID_ANSWER, `the answer has more than ${limit} bytes`);
      }
    }
    return joined(parts, size);
  }

  /** The body as JSON; undefined of an answer without a body. */
  async json(): Promise<unknown> {
    const text = new TextDecoder().decode(await this.bytes(MAX_JSON));
    if (this.response.status === 204) {
      return undefined;
    }
    try {
      return JSON.parse(text);
    } catch (err) {
      throw new HostlerError(this.response.status, INVALID_ANSWER, "the answer is not JSON", { cause: err });
    }
  }

  /** End it: a read fails. */
  cancel(): void {
    this.#transport.forget(this.#deadline);
    this.#deadline.abort(new HostlerError(0, CLOSED, "it was closed"));
    this.#reader?.cancel().catch(() => undefined); // it has ended
  }
}

/** What the parts have, in one piece. */
export function joined(parts: Uint8Array[], size: number): Uint8Array {
  const whole = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** Where an answer has no length, its end and a broken connection look the same. */
export function checkSize(got: number, wanted: number): void {
  if (got !== wanted) {
    throw new HostlerError(0, NO_ANSWER, `the file is cut off: ${got} of ${wanted} bytes arrived`);
  }
}

/** The body of an answer; with a size, one that is cut off is an error. */
export function stream(answer: Answer, size?: number): ReadableStream<Uint8Array> {
  let got = 0;
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const part = await answer.read();
        if (part !== undefined) {
          got += part.length;
          controller.enqueue(part);
          return;
        }
        if (size !== undefined) {
          checkSize(got, size);
        }
        controller.close();
      },
      cancel: () => answer.cancel(),
    },
    { highWaterMark: 0 },
  );
}
