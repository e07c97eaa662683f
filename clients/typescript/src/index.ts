/** A client of Hostler: claims of warm containers, and what can be done in them. */
export { Claim, type CommandOptions, type StartOptions, type WaitOptions } from "./claim.js";
export { type ClaimOptions, Client, type ClientOptions } from "./client.js";
export { type Chunk, Command } from "./command.js";
export type { Content } from "./content.js";
export { HostlerError } from "./errors.js";
export { type FileContent, Files, type ReadOptions } from "./files.js";
export { Port } from "./ports.js";
export type { CallOptions } from "./transport.js";
export type * as api from "./types.js";
