/** What a file is written from. A stream is read once. */
export type Content = string | Uint8Array | ArrayBuffer | Blob | ReadableStream<Uint8Array> | AsyncIterable<Uint8Array>;

/** The body of a request. It keeps the error of its source apart from those of the
 * connection. */
export class Upload {
  readonly body: BodyInit;
  readonly isStream: boolean;
  failed = false;
  error: unknown;
  #source: AsyncIterator<Uint8Array> | undefined;

  constructor(content: Content) {
    const source = sourceOf(content);
    this.#source = source;
    this.isStream = source !== undefined;
    this.body = source === undefined ? (content as BodyInit) : this.#stream(source);
  }

  /** Let the source end: fetch leaves it as it is when the server refuses an upload
   * before its end. */
  async stop(): Promise<void> {
    try {
      await this.#source?.return?.();
    } catch {
      // The upload has failed already.
    }
  }

  #stream(source: AsyncIterator<Uint8Array>): ReadableStream<Uint8Array> {
    return new ReadableStream<Uint8Array>(
      {
        pull: async (controller) => {
          try {
            const { done, value } = await source.next();
            if (done) {
              controller.close();
            } else {
              controller.enqueue(value);
            }
          } catch (err) {
            this.failed = true;
            this.error = err;
            throw err;
          }
        },
      },
      { highWaterMark: 0 },
    );
  }
}

function sourceOf(content: Content): AsyncIterator<Uint8Array> | undefined {
  if (content instanceof ReadableStream) {
    const reader = content.getReader();
    return {
      next: () => reader.read() as Promise<IteratorResult<Uint8Array>>,
      return: async () => {
        await reader.cancel();
        return { done: true, value: undefined };
      },
    };
  }
  if (typeof content === "object" && Symbol.asyncIterator in content) {
    return content[Symbol.asyncIterator]();
  }
  return undefined;
}
