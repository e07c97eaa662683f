import type { Answer } from "./answer.js";
import { HostlerError, INVALID_ANSWER } from "./errors.js";

const MAX_LINE = 16 << 20;

/** The lines of an answer. */
export class Lines {
  #answer: Answer;
  #decoder = new TextDecoder();
  #ready: string[] = []; // whole lines, the last one first
  #rest: string[] = []; // the beginning of the next one
  #size = 0;

  constructor(answer: Answer) {
    this.#answer = answer;
  }

  /** The next line; undefined at the end, also of a part of one. */
  async next(): Promise<string | undefined> {
    while (this.#ready.length === 0) {
      const data = await this.#answer.read();
      if (data === undefined) {
        return undefined;
      }
      this.#add(this.#decoder.decode(data, { stream: true }));
    }
    return this.#ready.pop();
  }

  #add(text: string): void {
    const lines = text.split("\n");
    const rest = lines.pop() ?? "";
    if (lines.length > 0) {
      lines[0] = this.#rest.join("") + lines[0];
      this.#rest = [];
      this.#size = 0;
      this.#ready = lines.reverse();
    }
    this.#rest.push(rest);
    this.#size += rest.length;
    if (this.#size > MAX_LINE) {
      throw new HostlerError(200, INVALID_ANSWER, "a line of the output is too long");
    }
  }

  close(): void {
    this.#answer.cancel();
  }
}
