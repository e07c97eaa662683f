import { type Problem, TEMPORARY_CODES } from "./types.js";

/** Codes of this client, in addition to those of the server. */
export const NO_ANSWER = "no_answer";
export const CLIENT_TIMEOUT = "client_timeout";
export const INVALID_ANSWER = "invalid_answer";
export const CLOSED = "closed";

// Of answers without a code: of a proxy whose server does not answer.
const TEMPORARY_STATUSES = [502, 503, 504];

/**
 * An answer that is an error, or none.
 *
 * `status` is that of HTTP, and 0 if there was no answer. `code` names the kind of
 * error: one of the server's, as in its docs/api.md, empty if something else than
 * Hostler answered, or of this client: `no_answer` (the server cannot be reached, or
 * the connection broke), `client_timeout`, `invalid_answer` and `closed`.
 */
export class HostlerError extends Error {
  readonly status: number;
  readonly code: string;
  readonly detail: string;
  /** In milliseconds; undefined if the server has not sent it. */
  readonly retryAfter: number | undefined;
  /** The whole answer of the server. */
  readonly problem: Partial<Problem>;

  constructor(
    status: number,
    code: string,
    detail: string,
    more: { retryAfter?: number | undefined; problem?: Partial<Problem>; cause?: unknown } = {},
  ) {
    super(code ? `${code}: ${detail}` : detail, more.cause === undefined ? undefined : { cause: more.cause });
    this.name = "HostlerError";
    this.status = status;
    this.code = code;
    this.detail = detail;
    this.retryAfter = more.retryAfter;
    this.problem = more.problem ?? {};
  }

  /** Whether its cause ends by itself, so that the request may succeed later. */
  get isTemporary(): boolean {
    if (this.code === "") {
      return TEMPORARY_STATUSES.includes(this.status);
    }
    return this.code === NO_ANSWER || this.code === CLIENT_TIMEOUT || TEMPORARY_CODES.includes(this.code);
  }
}

/** The error of an answer, also of one of a proxy. */
export function problemOf(status: number, headers: Headers, text: string): HostlerError {
  const seconds = Number.parseInt(headers.get("Retry-After") ?? "", 10);
  const retryAfter = seconds >= 0 ? seconds * 1000 : undefined;
  const problem = problemOfText(text);
  if (problem?.code) {
    return new HostlerError(status, problem.code, String(problem.detail ?? ""), { retryAfter, problem });
  }
  return new HostlerError(status, "", `the server answered with status ${status}, and not as Hostler does`, { retryAfter });
}

/** The problem in the text of an answer; undefined if it has none. */
export function problemOfText(text: string): Partial<Problem> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    if (isObject(value) && typeof value["code"] === "string") {
      return value as Partial<Problem>;
    }
  } catch {
    // not JSON
  }
  return undefined;
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
