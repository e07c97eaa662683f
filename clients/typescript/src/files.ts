import { type Answer, checkSize, joined, stream } from "./answer.js";
import type { Content } from "./content.js";
import { HostlerError, INVALID_ANSWER } from "./errors.js";
import type { CallOptions, How, Transport } from "./transport.js";
import type { FileInfo, FilePage } from "./types.js";

const FILES = "/v1/claims/{id}/files/{path}";
const PAGE = 1000;

/** Which part of a file is read. */
export interface ReadOptions extends CallOptions {
  /** Of the first byte. */
  offset?: number;
  /** At most so many bytes. */
  length?: number;
}

/** The content of a file. */
export interface FileContent {
  /** Of the whole file. */
  info: FileInfo;
  /** It fails, and does not end, if the connection breaks before the last byte. */
  body: ReadableStream<Uint8Array>;
}

/** Files of a claim's container. Names are absolute, without parts that are empty,
 * . or .. */
export class Files {
  #transport: Transport;
  #claim: string;

  constructor(transport: Transport, claim: string) {
    this.#transport = transport;
    this.#claim = claim;
  }

  #path(name: string): { id: string; path: string } {
    if (!name.startsWith("/")) {
      throw new TypeError(`${JSON.stringify(name)} is not an absolute path`);
    }
    return { id: this.#claim, path: name.slice(1) };
  }

  /** The description of a file. A link is not followed. */
  async stat(name: string, options?: CallOptions): Promise<FileInfo> {
    const given = { path: this.#path(name), query: { stat: true } };
    return (await this.#transport.call(`GET ${FILES}`, given, options)).value as FileInfo;
  }

  /** The entries of a directory, in the order of their names' bytes. */
  async *list(name: string, options?: CallOptions): AsyncGenerator<FileInfo, void, undefined> {
    let after: string | undefined;
    do {
      const given = { path: this.#path(name), query: { list: true, limit: PAGE, ...(after ? { after } : {}) } };
      const page = (await this.#transport.call(`GET ${FILES}`, given, options)).value as FilePage;
      yield* page.items;
      after = page.next;
    } while (after);
  }

  /** The content of a file, or a part of it, following links. A part that begins at or
   * after the end is an error with code range_not_satisfiable. Read the body to its
   * end, or cancel it. */
  async open(name: string, options: ReadOptions = {}): Promise<FileContent> {
    const { answer, info, size } = await this.#open(name, options);
    return { info, body: stream(answer, size) };
  }

  /** The content of a file, or a part of it, in memory. */
  async read(name: string, options: ReadOptions = {}): Promise<Uint8Array> {
    const { answer, size } = await this.#open(name, options);
    const parts: Uint8Array[] = [];
    let got = 0;
    for (let part = await answer.read(); part !== undefined; part = await answer.read()) {
      parts.push(part);
      got += part.length;
    }
    checkSize(got, size);
    return joined(parts, got);
  }

  async #open(name: string, options: ReadOptions): Promise<{ answer: Answer; info: FileInfo; size: number }> {
    const { offset = 0, length, signal } = options;
    const headers: Record<string, string> = { Accept: "application/octet-stream" };
    if (options.offset !== undefined || length !== undefined) {
      if (!(Number.isSafeInteger(offset) && offset >= 0) || (length !== undefined && !(Number.isSafeInteger(length) && length > 0))) {
        throw new RangeError("a part begins at 0 or later, and has at least one byte");
      }
      headers["Range"] = `bytes=${offset}-${length === undefined ? "" : offset + length - 1}`;
    }
    if (offset === 0 && length === undefined) {
      delete headers["Range"]; // an empty file has no first byte
    }
    const answer = await this.#transport.send(`GET ${FILES}`, { path: this.#path(name) }, { headers, signal });
    const info = infoOf(answer);
    const left = info.size - offset;
    return { answer, info, size: length === undefined ? left : Math.min(length, left) };
  }

  /** Replace a file, or create it with missing directories. It has the new content
   * when all has arrived; if this fails, the old one stays. */
  async write(name: string, content: Content, options: CallOptions & { mode?: number } = {}): Promise<FileInfo> {
    const mode = ((options.mode ?? 0o644) & 0o777).toString(8).padStart(4, "0");
    return this.#upload(name, { mode }, "application/octet-stream", content, options.signal);
  }

  /** Unpack a tar stream into a directory. What was unpacked before an error stays. */
  async writeTree(name: string, archive: Content, options: CallOptions = {}): Promise<FileInfo> {
    return this.#upload(name, { archive: true }, "application/x-tar", archive, options.signal);
  }

  async #upload(name: string, query: { mode?: string; archive?: boolean }, kind: string, content: Content, signal?: AbortSignal): Promise<FileInfo> {
    // The server bounds how slow an upload may be.
    const how: How = { content, headers: { "Content-Type": kind }, signal, timeout: 0, repeat: false };
    return (await this.#transport.call(`PUT ${FILES}`, { path: this.#path(name), query }, how)).value as FileInfo;
  }

  /** A tar stream of a directory or a file. Nothing in it is to be trusted: a tenant's
   * program can put any name and link there. */
  async readTree(name: string, options?: CallOptions): Promise<ReadableStream<Uint8Array>> {
    return stream(await this.#transport.send(`GET ${FILES}`, { path: this.#path(name), query: { archive: true } }, options));
  }

  /** Remove a file, a link or an empty directory; with recursive, also a directory that
   * is not empty. */
  async remove(name: string, options: CallOptions & { recursive?: boolean } = {}): Promise<void> {
    const query = options.recursive ? { recursive: true } : {};
    await this.#transport.call(`DELETE ${FILES}`, { path: this.#path(name), query }, { signal: options.signal, repeat: false });
  }
}

function infoOf(answer: Answer): FileInfo {
  try {
    const info = JSON.parse(answer.response.headers.get("Hostler-File") ?? "") as FileInfo;
    if (Number.isSafeInteger(info.size)) {
      return info;
    }
  } catch {
    // The same as a description without a size.
  }
  answer.cancel();
  throw new HostlerError(answer.response.status, INVALID_ANSWER, "the answer has no description of the file");
}
