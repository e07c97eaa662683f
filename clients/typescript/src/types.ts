// Code generated from /openapi.json by "go test ./clients/typescript/generate -update"; DO NOT EDIT.

export interface AccessDeniedData {
  /** How many requests of the same sender were refused before this one and are not in the log. */
  omitted?: number;
  /** The operation of the API. */
  operation?: string;
  /** role: the credential has no role for the operation. scope: it is for other tenants, workloads or claims. credential: it is not accepted. */
  reason?: string;
}

export interface AckCommandInBody {
  /** The output before it will not be read again. */
  offset: number;
}

export interface ActivityRequest {
  /** What the program does. */
  activity: "idle" | "thinking" | "executing" | "waiting_for_input" | "blocked" | "completed" | "limits_exceeded" | "stalled" | "offline";
  /** What it works on. */
  task?: string;
  /** The tool that it uses. */
  tool?: string;
}

export interface ActivityResponse {
  activity: "idle" | "thinking" | "executing" | "waiting_for_input" | "blocked" | "completed" | "limits_exceeded" | "stalled" | "offline" | (string & {});
  /** Whether this request changed it. */
  changed: boolean;
  /** When it last changed. */
  since: string;
  tool?: string;
}

export interface AgentActivityChangedData {
  activity?: string;
  previous_activity?: string;
  /** What the program works on. */
  task?: string;
  /** The tool that it uses. */
  tool_name?: string;
}

export interface AppliedWorkload {
  /** Its revision or its pool changed. */
  changed: boolean;
  /** There was no such workload. */
  created: boolean;
  created_at: string;
  /** It is deleted with its last container. */
  deleting?: boolean;
  /** No container is created and none may be claimed. */
  draining?: boolean;
  id: string;
  image: string;
  name: string;
  /** Remarks about the file, such as what another format means differently. */
  notes?: Array<Note>;
  /** With dry_run: what applying would do. The other values are those that it would have; nothing was changed. */
  plan?: Plan;
  pool: Bounds;
  /** A hash of everything that determines its containers. */
  revision: string;
  /** The file as it was applied. */
  source: string;
  updated_at: string;
}

export interface Attempts {
  id: string;
  /** In order. */
  items: Array<Run>;
}

export interface Binding {
  claims?: Record<string, string>;
  issuer?: string;
  kind: "oidc" | "cert" | "unix" | (string & {});
  name: string;
  role: string;
  /** database or file. */
  source: string;
  subject?: string;
  tenant_claim?: string;
  tenants?: Array<string>;
  workloads?: Array<string>;
}

export interface BindingAppliedData {
  /** The binding's name. */
  binding?: string;
  /** oidc, cert or unix. */
  kind?: string;
  role?: string;
}

export interface BindingDeletedData {
  /** The binding's name. */
  binding?: string;
}

export interface BindingRequest {
  /** Of oidc: claims of the token that must each have a value that matches: the value, or a prefix and a *. */
  claims?: Record<string, string>;
  /** Of oidc: the issuer of the tokens, exactly. */
  issuer?: string;
  /** Whether it is for the holders of tokens of an issuer, of certificates, or for users of the machine. */
  kind: "oidc" | "cert" | "unix";
  /** What the subjects may do. */
  role: "tenant" | "author" | "viewer" | "operator" | "metrics";
  /** The token's sub, the certificate's name or the uid in decimal, or a prefix and a *. Default: each. */
  subject?: string;
  /** Of oidc with the role tenant: a claim of the token whose values are the tenants. */
  tenant_claim?: string;
  /** Names of tenants, or a prefix and a *. */
  tenants?: Array<string>;
  /** Ids of workloads, or a prefix and a *. */
  workloads?: Array<string>;
}

export interface Bounds {
  max_size: number;
  min_idle: number;
}

export interface Builtin {
  name: string;
  with?: Record<string, unknown>;
}

export interface Claim {
  active_at?: string;
  /** What the tenant's program last reported to do. */
  activity?: "idle" | "thinking" | "executing" | "waiting_for_input" | "blocked" | "completed" | "limits_exceeded" | "stalled" | "offline" | (string & {});
  /** When the activity or the tool last changed. */
  activity_at?: string;
  /** The tool that it reported to use. It is untrusted. */
  activity_tool?: string;
  /** Who claimed. */
  actor?: string;
  /** Empty while the claim waits for one. */
  container?: string;
  created_at: string;
  discard?: boolean;
  endpoint: Endpoint;
  /** When its lifetime ends and it is released, whatever its use. */
  expires_at?: string;
  /** When its release first failed for this reason. */
  failed_at?: string;
  /** Why its release fails: tenant (the files in the container are unreadable or too large), sink, stale (a later claim of the tenant has uploaded its state), or version (only an older server can read the container). */
  failure_reason?: "tenant" | "sink" | "stale" | "version" | (string & {});
  /** Consecutive failures of the release, for the same reason. */
  failures?: number;
  health?: "healthy" | "unhealthy" | "exited" | (string & {});
  /** The hook runs of the claim in order, one entry per attempt. */
  hooks: Array<HookSummary>;
  id: string;
  /** When it is released unless the tenant touches it or changes its files, where the pool has a claim_idle_ttl. */
  idle_expires_at?: string;
  labels?: Record<string, string>;
  /** Those of the request, and defaults. ••• stands for a secret. */
  parameters?: Record<string, string>;
  reason?: string;
  /** What was being done when that went wrong, outermost first. */
  reason_chain?: Array<string>;
  /** When it was released or failed. */
  released_at?: string;
  /** When the failed release is retried; omitted when it is not retried automatically. */
  retry_at?: string;
  /** Of the workload, when the container was created. */
  revision?: string;
  /** Of the tenant's state: the one that was downloaded, or uploaded last. */
  snapshot?: string;
  source?: "fresh" | "affinity" | "recycled" | (string & {});
  state: "pending" | "active" | "releasing" | "release_failed" | "released" | "failed" | (string & {});
  /** When the tenant's state was last uploaded. */
  synced_at?: string;
  tenant: string;
  /** Milliseconds per step. */
  timings: Record<string, number>;
  /** When the tenant last claimed or touched it, or its program reported an activity that counts as use, where the pool has a claim_idle_ttl. */
  touched_at?: string;
  /** Its open waits. While there is one, it is not idle. */
  waits?: number;
  warnings: Array<string>;
  workload: string;
}

export interface ClaimActivatedData {
  /** What the container was before: fresh, affinity or recycled. */
  source?: string;
  /** Milliseconds of each step. */
  timings?: Record<string, number>;
}

export interface ClaimCommand {
  /** A client reads its output. */
  attached?: boolean;
  command: Array<string>;
  ended_at?: string;
  /** It waits, because its output is not acknowledged. */
  held?: boolean;
  id: string;
  /** How much it has written. */
  output_bytes: number;
  /** Of one that has ended. */
  result?: CommandResult;
  started_at: string;
  terminal?: boolean;
}

export interface ClaimCommands {
  /** In the order of their start: those that run, and those that ended a short time ago. */
  items: Array<ClaimCommand>;
}

export interface ClaimExtendedData {
  /** By how many milliseconds the end was moved. */
  by_ms?: number;
  /** When the lifetime ends since then. */
  expires_at?: string;
}

export interface ClaimReleaseFailedData {
  /** What was being done when it failed, outermost first. */
  chain?: Array<string>;
  error?: string;
  /** Consecutive failures with this reason. */
  failures?: number;
  reason?: string;
  /** When the upload is tried again; null if it is not. */
  retry_at?: string | null;
}

export interface ClaimReleasedData {
  /** What the tenant's program last reported to do. It is untrusted. */
  activity?: string;
  /** The exit code of the main process, if it ended before the release. */
  exit_code?: number;
  reason?: string;
  /** Milliseconds of each step. */
  timings?: Record<string, number>;
  warnings?: Array<string>;
}

export interface ClaimReleasingData {
  /** Whether the container is destroyed with the tenant's files. */
  discard?: boolean;
}

export interface ClaimRequest {
  /** Of the main process, over the workload's: at most 64 variables and 32 KiB. Hooks do not get it. */
  environment?: Record<string, string>;
  /** How long the claim lasts since it is active, whatever its use: 1s to 720h. Default: until it is released. */
  expires_in?: string | number;
  /** For filters of claims and events, at most 16. They do not change. */
  labels?: Record<string, string>;
  /** Those that the workload declares, for its hooks. */
  parameters?: Record<string, string>;
  /** A repeated request with the id of the one that created the claim is answered with 201 too: its answer was lost. Chosen at random for each claim. */
  request_id?: string;
  /** The tenant's name, by default that of the credential; a repeated request for the same tenant returns the same claim. */
  tenant?: string;
  /** How long to wait for a container, at most 5m. 0: not at all, so that only an idle container is claimed. Default: not at all when every container is in use, and up to 2m for one that is being created. */
  wait?: string | number;
  /** The workload's id. */
  workload: string;
}

export interface ClaimStateLostData {
  error?: string;
  reason?: string;
  /** The last snapshot; empty if there is none. */
  snapshot?: string;
  /** When that was made. */
  synced_at?: string | null;
}

export interface Command {
  args: Array<string>;
  /** In addition to the container's. */
  environment: Record<string, string>;
  script?: string;
  stdin: string;
  /** Empty: the container's. */
  user?: string;
  /** Empty: the container's. */
  workdir?: string;
}

export interface CommandInput {
  closed?: boolean;
  /** In bytes, from its start. Send what follows again, if any. */
  received: number;
}

export interface CommandLine {
  /** In base64. */
  data?: string;
  /** The last line of a command that has ended. */
  end?: CommandResult;
  /** The last line otherwise: continue after the last byte if the code is one of x-temporary-codes of Problem. All other codes are final. */
  error?: Problem;
  /** Of the first byte of data, in the output of both streams; 0 if it is not there. */
  offset?: number;
  /** The first line. */
  start?: CommandStart;
  stream?: "stdout" | "stderr" | (string & {});
}

export interface CommandRequest {
  /** The program and its arguments. */
  command: Array<string>;
  /** Answer when it has started. */
  detach?: boolean;
  /** Over the container's. */
  environment?: Record<string, string>;
  /** Names it: letters, digits and . _ -. A repeated request starts no second one. Default: a new one. */
  id?: string;
  /** Input will be sent, to one that is not waited for. Default: its input is empty. */
  input?: boolean;
  /** Its input, of one that is waited for. */
  stdin?: string;
  /** The size of a terminal that it gets in place of three streams. */
  terminal?: TerminalSize;
  /** After which it is ended; at most 24h. Default: 5m, and none for one that is detached or attached to. */
  timeout?: string | number;
  /** uid, uid:gid, name or name:group. Default: the container's own. Another one only where the workload's user is root. */
  user?: string;
  /** An absolute path. Default: the container's own. */
  workdir?: string;
}

export interface CommandResult {
  duration_ms: number;
  /** Its own, or 128 and the number of the signal. */
  exit_code: number;
  /** SIGKILL was needed. */
  killed?: boolean;
  /** Processes that it left behind; they were killed. */
  leaked_processes?: number;
  /** The out-of-memory killer ended a process of it. */
  oom_killed?: boolean;
  /** That ended it. */
  signal?: string;
  /** Its timeout passed before it exited. */
  timed_out?: boolean;
}

export interface CommandStart {
  /** This request has started it. */
  created?: boolean;
  id: string;
  input_closed?: boolean;
  /** How many bytes of input it has received. Send what follows again, if any. */
  input_received: number;
  /** Of the first output that follows. */
  offset: number;
  terminal?: boolean;
}

export interface CompletedCommand {
  duration_ms: number;
  /** Its own, or 128 and the number of the signal. */
  exit_code: number;
  id: string;
  /** SIGKILL was needed. */
  killed?: boolean;
  /** Processes that it left behind; they were killed. */
  leaked_processes?: number;
  /** The out-of-memory killer ended a process of it. */
  oom_killed?: boolean;
  /** That ended it. */
  signal?: string;
  stderr?: Output;
  /** Its beginning and its end; omitted if empty. */
  stdout?: Output;
  /** Its timeout passed before it exited. */
  timed_out?: boolean;
}

export interface Container {
  /** When its state last changed. */
  changed_at: string;
  claim?: string;
  created_at: string;
  endpoint: Endpoint;
  /** How an operator has forced its destruction: after_hooks, or now without its pre_destroy hooks. done: it is removed, and its claim is not released yet. */
  forced?: string;
  health?: "healthy" | "unhealthy" | "exited" | (string & {});
  id: string;
  /** The machine that it runs on, since it was idle for the first time. */
  node?: string;
  /** Whether its last output is kept, after a failure, for when it is gone: kept, or wanted while it is still to be read. */
  output?: string;
  /** The protocol version of its shim: that of the server that created it. */
  protocol: number;
  /** Why it is being destroyed, was destroyed, or is not healthy. */
  reason?: string;
  /** What was being done when that went wrong, outermost first. */
  reason_chain?: Array<string>;
  revision: string;
  snapshot?: string;
  state: "creating" | "idle" | "claimed" | "destroying" | "destroyed" | (string & {});
  tenant?: string;
  /** When it was last wiped for a claim. */
  wiped_at?: string;
  workload: string;
}

export interface ContainerClaimedData {
  /** What the container was before: fresh, affinity or recycled. */
  source?: string;
}

export interface ContainerDestroyingData {
  /** The container's state before: creating, idle or claimed. Omitted if it was removed without a record, and in events of older servers. */
  previous_state?: string;
  reason?: string;
}

export interface ContainerDiedData {
  exit_code?: number;
  oom_killed?: boolean;
  /** The end of what its main process printed, for authors and operators. */
  output?: Excerpt;
}

export interface ContainerForcedData {
  /** Whether its pre_destroy hooks are skipped. */
  now?: boolean;
}

export interface ContainerUnhealthyData {
  /** What the health check printed, for authors and operators. */
  check?: Excerpt;
  /** The end of what its main process printed, for authors and operators. */
  output?: Excerpt;
}

export interface CreatedKey {
  /** Whether this is the first credential: the server accepted each client of its machine before, and requires a credential from here on. */
  closed?: boolean;
  created_at?: string;
  /** The actor who created it. */
  created_by?: string;
  expires_at?: string;
  grants: Array<Grant>;
  /** The key itself. The server keeps only a hash of it. */
  key: string;
  /** To the minute. */
  last_used_at?: string;
  name: string;
  /** The beginning of the key, to recognise it. */
  prefix?: string;
  revoked_at?: string;
  /** database or file. */
  source: string;
}

export interface Damage {
  /** The number of files that are not what they were. */
  files: number;
  /** Its key below the directory of the tenant and workload. */
  object: string;
  /** The first 100 of them. A damaged index does not have their names. */
  paths: Array<string>;
  /** What is wrong first. */
  problem: string;
  snapshot: string;
}

export interface Database {
  /** Its size on the disk. */
  bytes: number;
  kind: string;
  /** The version of the schema. */
  schema: number;
  /** The version of SQLite or of the database server. */
  version: string;
}

export interface Deleted {
  /** There was a value. */
  deleted: boolean;
}

export interface Delivery {
  /** Attempts that were started. */
  attempts: number;
  claim?: string;
  container?: string;
  created_at: string;
  /** The time of the next attempt at the earliest. */
  due_at?: string;
  ended_at?: string;
  /** The type of the event. */
  event: string;
  /** Attempts that failed since it was queued. */
  failures: number;
  /** The hook's name. */
  hook: string;
  /** Also the id of its hook run, and the idempotency key of its requests. */
  id: string;
  /** The container, else the claim, else the workload of the event: the deliveries of a hook and a lane are in order. */
  lane: string;
  priority: number;
  /** Why the last attempt failed, or why it was discarded. */
  reason?: string;
  /** Whether it was added by a replay. */
  replay?: boolean;
  /** The place of the event in the log. */
  seq: number;
  state: "queued" | "scheduled" | "running" | "succeeded" | "failed" | "discarded" | (string & {});
  tenant?: string;
  workload: string;
}

export interface DeliveryData {
  delivery?: string;
  /** The type of the event. */
  event?: string;
  hook?: string;
  /** Why it was discarded. */
  reason?: string;
  /** The place of the event in the log. */
  seq?: number;
}

export interface DeliveryReplayedData {
  /** How many were added. */
  deliveries?: number;
  from?: number;
  hook?: string;
  to?: number;
}

export interface Disk {
  free_bytes: number;
  path: string;
  total_bytes: number;
}

export interface DryRunRequest {
  /** A point, the type of an event, or an alias of one. */
  on: string;
  /** Values of variables by name; secrets cannot be given. */
  variables?: Record<string, string>;
}

export interface Endpoint {
  host: string;
  ports: Array<number>;
}

export interface EngineInfo {
  answers: boolean;
  /** The number of this installation's containers, in any state. */
  containers: number;
  /** The response time. */
  duration_ms: number;
}

export interface Event {
  /** Who caused it: key:NAME, token:ACTOR#TENANT, oidc:ISSUER#SUBJECT, cert:NAME, unix:UID, claim:ID for a program in a container, link, local or system. */
  actor?: string;
  /** The address of the client that caused it. Tenants do not see those of others. */
  address?: string;
  claim?: string;
  container?: string;
  /** Details, by type. */
  data?: unknown;
  /** 1 if a delivery to an event hook caused it: such an event is not delivered. */
  depth?: number;
  /** A sentence for people. */
  message: string;
  /** The hook point that it is about. */
  point?: "pre_start" | "post_start" | "post_create" | "post_claim" | "wait_start" | "wait_signal" | "wait_timeout" | "pre_release" | "pre_destroy" | (string & {});
  /** Of an event that a tenant's program published: 9 is critical, 8 about its lifecycle, 7 about its state, 6 and lower are measurements. */
  priority?: number;
  /** The id of the request that caused it. */
  request?: string;
  /** The hook run that it is about. */
  run?: string;
  /** Place in the log, growing; resume after it. */
  seq: number;
  tenant?: string;
  /** When it was recorded, UTC. */
  time: string;
  /** What happened: the thing first, then the verb. */
  type: unknown;
  /** Whether a tenant's program published it: its data is whatever that sent. */
  untrusted?: boolean;
  workload?: string;
}

export interface EventPage {
  items: Array<Event>;
  /** The sequence number to continue after. It is a number at the end of the log too: the end is reached when it does not grow. */
  next: number;
  /** The oldest remaining event, when retention has deleted requested events. */
  oldest_seq?: number;
}

export interface Excerpt {
  excerpt: string;
  /** Bytes that were written. */
  total: number;
  truncated: boolean;
}

export interface ExecEndedData {
  /** The command's id. */
  command?: string;
  /** How long it ran, or how long it was recorded as running. */
  duration_ms?: number;
  /** Its exit code, or 128 and the number of its signal. Omitted if it did not run or its outcome is unknown. */
  exit_code?: number;
  /** Bytes of output. */
  output?: number;
  /** The name of the program without its directory, as far as 64 characters. It is untrusted. */
  program?: string;
  /** Why there is no exit code. */
  reason?: string;
  /** The signal that ended it. */
  signal?: string;
  /** Whether it had a terminal. */
  terminal?: boolean;
  /** Whether its timeout ended it. */
  timed_out?: boolean;
}

export interface ExecStartedData {
  /** The command's id. */
  command?: string;
  /** How many commands of the claim before this one are not in the log, because there were too many. */
  omitted?: number;
  /** The name of the program without its directory, as far as 64 characters. It is untrusted. */
  program?: string;
  /** Whether it has a terminal. */
  terminal?: boolean;
}

export interface ExtendRequest {
  /** By how long: 1s to 720h. The claim then ends at most 720h from now. */
  by: string | number;
}

export interface FieldChange {
  /** The value in the file, as JSON; missing: there is none. */
  after?: string;
  /** The value that is applied, as JSON; missing: there was none. */
  before?: string;
  /** Its path, such as hooks.post_claim[1].timeout. */
  field: string;
}

export interface FileFault {
  /** From 1. */
  column?: number;
  field?: string;
  /** What to write instead. */
  hint?: string;
  /** From 1. */
  line?: number;
  message: string;
}

export interface FileInfo {
  gid: number;
  mode: number;
  modified: string;
  name: string;
  size: number;
  target?: string;
  type: string;
  uid: number;
}

export interface FilePage {
  items: Array<FileInfo>;
  /** The value of after for the next page; empty at the end. */
  next: string;
}

export interface FileUsedData {
  /** Bytes that were read or written. */
  bytes?: number;
  /** How many uses of files of the claim before this one are not in the log, because there were too many. */
  omitted?: number;
  /** The path as the tenant gave it, as far as 512 bytes. It is untrusted. */
  path?: string;
}

export interface FillStatus {
  /** Consecutive failures to create a container. */
  failures: number;
  /** The container whose creation that was. Its output is kept. */
  last_container?: string;
  /** The cause, and the last lines that the main process printed. */
  last_error?: string;
  last_error_at?: string;
  /** What was being done when it occurred, outermost first. */
  last_error_chain?: Array<string>;
  next_try?: string;
  state: "idle" | "filling" | "backing_off" | "failing" | "draining" | (string & {});
}

export interface Finding {
  /** The check, for programs. */
  check: string;
  claim?: string;
  container?: string;
  /** How to fix it; commands are in backquotes. */
  hint: string;
  /** What is wrong, for display. */
  message: string;
  run?: string;
  severity: "error" | "warning" | (string & {});
  tenant?: string;
  workload?: string;
}

export interface FollowedEvent {
  /** Who caused it: key:NAME, token:ACTOR#TENANT, oidc:ISSUER#SUBJECT, cert:NAME, unix:UID, claim:ID for a program in a container, link, local or system. */
  actor?: string;
  /** The address of the client that caused it. Tenants do not see those of others. */
  address?: string;
  claim?: string;
  container?: string;
  /** Details, by type. */
  data?: unknown;
  /** 1 if a delivery to an event hook caused it: such an event is not delivered. */
  depth?: number;
  /** A sentence for people. */
  message: string;
  /** Of log.truncated: the sequence number of the oldest remaining event. */
  oldest_seq?: number;
  /** The hook point that it is about. */
  point?: "pre_start" | "post_start" | "post_create" | "post_claim" | "wait_start" | "wait_signal" | "wait_timeout" | "pre_release" | "pre_destroy" | (string & {});
  /** Of an event that a tenant's program published: 9 is critical, 8 about its lifecycle, 7 about its state, 6 and lower are measurements. */
  priority?: number;
  /** The id of the request that caused it. */
  request?: string;
  /** The hook run that it is about. */
  run?: string;
  /** Place in the log, growing; resume after it. */
  seq: number;
  tenant?: string;
  /** When it was recorded, UTC. */
  time: string;
  /** What happened: the thing first, then the verb. */
  type: unknown;
  /** Whether a tenant's program published it: its data is whatever that sent. */
  untrusted?: boolean;
  workload?: string;
}

export interface Grant {
  claim?: string;
  role: string;
  tenants?: Array<string>;
  workloads?: Array<string>;
}

export interface Health {
  status: string;
  version: string;
}

export interface Hook {
  action: "command" | "script" | "http" | "webhook" | "builtin" | (string & {});
  builtin?: Builtin;
  /** Of command and script. */
  command?: Command;
  condition?: string;
  disabled?: boolean;
  /** Why the attempt would fail before anything is sent or started. */
  error?: string;
  /** The result of the condition; true without one. */
  holds: boolean;
  name: string;
  /** Of http and webhook. */
  request?: Preview;
  /** False if it is disabled, its condition is false, or it has an error. */
  runs: boolean;
  timeout_ms: number;
  /** Those that the hook names. */
  variables: Array<Variable>;
}

export interface HookEndedData {
  action?: string;
  attempt?: number;
  command?: Array<string>;
  duration_ms?: number;
  error?: string;
  /** The type of the event, of an event hook. */
  event?: string;
  exit_code?: number;
  hook?: string;
  /** Place in the list of the point. */
  index?: number;
  killed?: boolean;
  /** Processes that were ended after the command. */
  leaked_processes?: number;
  point?: string;
  /** The place of the event in the log. */
  seq?: number;
  signal?: string;
  state?: string;
  stderr?: Excerpt;
  stdout?: Excerpt;
  timed_out?: boolean;
  /** The timeout that passed. */
  timeout_ms?: number;
}

export interface HookStartedData {
  action?: string;
  attempt?: number;
  command?: Array<string>;
  /** Why it was skipped. */
  error?: string;
  /** The type of the event, of an event hook. */
  event?: string;
  hook?: string;
  /** Place in the list of the point. */
  index?: number;
  point?: string;
  /** The place of the event in the log. */
  seq?: number;
  state?: string;
}

export interface HookSummary {
  attempt: number;
  duration_ms: number;
  exit_code?: number;
  hook: string;
  point: "pre_start" | "post_start" | "post_create" | "post_claim" | "wait_start" | "wait_signal" | "wait_timeout" | "pre_release" | "pre_destroy" | (string & {});
  run: string;
  state: "running" | "succeeded" | "failed" | "timed_out" | "start_failed" | "lost" | "cancelled" | "unknown" | "skipped" | (string & {});
}

export interface HookWarningData {
  attempt?: number;
  /** The type of the event, of an event hook. */
  event?: string;
  hook?: string;
  point?: string;
  warnings?: Array<string>;
}

export interface Item {
  /** The size of the value. */
  bytes: number;
  key: string;
  level: "claim" | "tenant" | "workload" | (string & {});
  updated_at: string;
  /** It grows with each put; two values of a key never have the same version. */
  version: number;
}

export interface Key {
  created_at?: string;
  /** The actor who created it. */
  created_by?: string;
  expires_at?: string;
  grants: Array<Grant>;
  /** To the minute. */
  last_used_at?: string;
  name: string;
  /** The beginning of the key, to recognise it. */
  prefix?: string;
  revoked_at?: string;
  /** database or file. */
  source: string;
}

export interface KeyCreatedData {
  expires_at?: string;
  /** The key's name. */
  key?: string;
  /** The beginning of the key. */
  prefix?: string;
  roles?: Array<string>;
}

export interface KeyRequest {
  /** How long the key is accepted, at most 87600h. Default: until it is revoked. */
  expires_in?: string | number;
  /** The key's name, which logs and events show. */
  name: string;
  /** What the holder may do. */
  role: "tenant" | "author" | "viewer" | "operator" | "metrics";
  /** Names of tenants, or a prefix and a *. The role tenant needs at least one. */
  tenants?: Array<string>;
  /** Ids of workloads, or a prefix and a *. The role author needs at least one. */
  workloads?: Array<string>;
}

export interface KeyRevokedData {
  /** The key's name. */
  key?: string;
}

export interface Limits {
  /** Live claims: pending, active, releasing or release_failed. -1: no limit. */
  claims?: number;
  /** Claims that were added in the last minute. -1: no limit. */
  claims_per_minute?: number;
  /** Requests that one server answers; twice as many at once. Not for workloads. -1: no limit. */
  requests_per_second?: number;
  /** Bytes that the current snapshots occupy in their sinks. -1: no limit. */
  state_bytes?: number;
}

export interface Link {
  /** When it expires: at the latest with the credential that made it. It ends before that with its claim. */
  expires_at: string;
  /** Who has it can use the port: it is a secret. */
  url: string;
}

export interface LinkRequest {
  /** For how long the link can be used; at most 24h. Default: 1h. */
  expires_in?: string | number;
}

export interface LiveTest {
  claim: string;
  point: "pre_start" | "post_start" | "post_create" | "post_claim" | "wait_start" | "wait_signal" | "wait_timeout" | "pre_release" | "pre_destroy" | (string & {});
  /** One for each hook that is enabled, in order; their event is test. and the point. */
  runs: Array<Run>;
}

export interface LiveTestRequest {
  /** A point, or an alias of one. */
  point: string;
}

export interface Note {
  /** From 1. */
  column?: number;
  /** Its path, such as hooks.post_claim[1].timeout. */
  field?: string;
  /** The name of the file. */
  file?: string;
  /** What to write instead. */
  hint?: string;
  /** From 1. */
  line?: number;
  /** What is wrong. */
  message: string;
}

export interface Output {
  head?: string;
  tail?: string;
  total: number;
  truncated?: boolean;
}

export interface Override {
  level: "tenant" | "key" | "workload" | (string & {});
  limits: Limits;
  /** Of the tenant or the workload; of a key, key:NAME, and of another credential its actor in events. */
  name: string;
  updated_at: string;
}

export interface Page {
  items: Array<Item>;
  /** The value of after for the next page; empty at the end. */
  next: string;
}

export interface PageBinding {
  items: Array<Binding>;
  /** The value of after for the next page; empty at the end. */
  next: string;
}

export interface PageClaim {
  items: Array<Claim>;
  /** The value of after for the next page; empty at the end. */
  next: string;
}

export interface PageContainer {
  items: Array<Container>;
  /** The value of after for the next page; empty at the end. */
  next: string;
}

export interface PageDelivery {
  items: Array<Delivery>;
  /** The value of after for the next page; empty at the end. */
  next: string;
}

export interface PageKey {
  items: Array<Key>;
  /** The value of after for the next page; empty at the end. */
  next: string;
}

export interface PageOverride {
  items: Array<Override>;
  /** The value of after for the next page; empty at the end. */
  next: string;
}

export interface PageRun {
  items: Array<Run>;
  /** The value of after for the next page; empty at the end. */
  next: string;
}

export interface PageSnapshot {
  items: Array<Snapshot>;
  /** The value of after for the next page; empty at the end. */
  next: string;
}

export interface PageStatus {
  items: Array<Status>;
  /** The value of after for the next page; empty at the end. */
  next: string;
}

export interface PageWait {
  items: Array<Wait>;
  /** The value of after for the next page; empty at the end. */
  next: string;
}

export interface PageWorkload {
  items: Array<Workload>;
  /** The value of after for the next page; empty at the end. */
  next: string;
}

export interface Permitted {
  allowed: boolean;
  /** The operation's id in this document. */
  operation: string;
  /** Why, for people. */
  reason: string;
}

export interface Plan {
  /** The values of the file that differ from the applied file, by path, at most 200. Bounds that the pool was scaled to are those of pool. */
  changes: Array<FieldChange>;
  /** The pool is draining, or the workload is being deleted, and this would end it. */
  ends_draining?: boolean;
  /** The revision that is applied; empty: there is no such workload. */
  previous_revision?: string;
  /** The containers that would be outdated, by the reason. */
  replaced: Array<Replaced>;
  /** What of that determines the containers, such as image or hooks.post_create. Empty: the revision stays. */
  revised: Array<string>;
}

export interface PoolScaledData {
  max_size?: number;
  min_idle?: number;
  previous_max_size?: number;
  previous_min_idle?: number;
}

export interface PoolWarningData {
  /** What was being done when it failed, outermost first. */
  chain?: Array<string>;
  /** Consecutive failures of the revision. */
  failures?: number;
  /** When the next container is created. */
  next_try?: string;
  revision?: string;
}

export interface Preview {
  body?: string;
  headers: Record<string, string>;
  method: string;
  url: string;
  warnings?: Array<string>;
}

export interface Problem {
  /** The claim that failed, or could not be released. */
  claim?: string;
  /** The kind of error, for programs. */
  code: "attached_elsewhere" | "binding_not_found" | "claim_aborted" | "claim_exists" | "claim_not_active" | "claim_not_found" | "claim_releasing" | "command_not_found" | "command_not_started" | "conflict" | "container_in_use" | "container_not_found" | "credential_in_file" | "delivery_not_found" | "denied_by_hook" | "engine_unavailable" | "event_hook_not_found" | "event_removed" | "file_changed" | "file_denied" | "file_failed" | "file_not_found" | "first_credential" | "forbidden" | "hook_failed" | "image_unavailable" | "internal" | "invalid_request" | "invalid_workload" | "key_exists" | "key_not_found" | "memory_full" | "memory_not_found" | "memory_not_shared" | "method_not_allowed" | "no_port_domain" | "no_space" | "not_a_file" | "not_configured" | "not_directory" | "not_empty" | "not_found" | "not_ready" | "not_supported" | "output_lost" | "path_outside" | "payload_too_large" | "pool_exhausted" | "pool_not_ready" | "port_failed" | "port_refused" | "quota_exceeded" | "quota_not_found" | "range_not_satisfiable" | "rate_limited" | "read_only" | "request_timeout" | "run_not_found" | "snapshot_not_found" | "start_failed" | "storage_unavailable" | "sync_failed" | "sync_not_configured" | "timeout" | "too_many_commands" | "too_many_connections" | "too_many_requests" | "too_many_waits" | "unauthorized" | "unhealthy" | "unsupported_media_type" | "version_conflict" | "wait_exists" | "wait_not_found" | "workload_not_found" | "wrong_version" | (string & {});
  /** Of quota_exceeded: what is used. */
  current?: number;
  /** Of version_conflict: the version that the value has; 0 when there is none. */
  current_version?: number;
  /** A description of this error, for display. */
  detail: string;
  /** Of rate_limited, of an event: how many events of the claim were dropped so far. */
  dropped?: number;
  /** The errors in the request or the file. */
  errors?: Array<ValidationError>;
  /** The id of the request; it is in the server's log. */
  instance: string;
  /** Of the quota. */
  limit?: number;
  /** Of quota_exceeded, and of rate_limited by a quota: which one. */
  quota?: string;
  /** The reason of pool_exhausted and pool_not_ready is exhausted, not_ready, fill_failing, draining or deleting. The reason of sync_failed is terminating, sink, credentials, too_large, tenant, stale, conflict, damaged, unknown_format, unknown_key or not_allowed. The reason of command_not_started is binary_not_found, not_executable, user_not_found, workdir_not_found, bad_input, unsupported or start_failed. The reason of denied_by_hook is the hook. */
  reason?: string;
  /** Of hook_failed: the attempt that failed, with its output. */
  run?: Run;
  /** The HTTP status. */
  status: number;
  /** The step at which the claim failed. */
  step?: string;
  /** The same for all problems of this code. */
  title: string;
  /** The code as a URN. */
  type: string;
}

export interface PublishRequest {
  /** The claim's id. */
  claim: string;
  /** JSON of at most 32 KiB. */
  data?: unknown;
  /** 9 is critical, 8 about the program's lifecycle, 7 about its state (default), 6 and lower are measurements. Under pressure, events of lower priority are discarded first. */
  priority?: number;
  /** Lower-case words with dots between them. What begins with neither agent. nor custom. is recorded as custom.TYPE. */
  type: string;
}

export interface Quota {
  level: "tenant" | "key" | "workload" | (string & {});
  /** The limits that apply. One that is omitted, or -1, does not. */
  limits: Limits;
  /** Of the tenant or the workload; of a key, key:NAME, and of another credential its actor in events. */
  name: string;
  /** The limits of its own, which win over the server's defaults. */
  override?: Limits;
  /** What it uses. */
  usage: Usage;
}

export interface QuotaData {
  claims?: number;
  claims_per_minute?: number;
  /** tenant, key or workload */
  level?: string;
  name?: string;
  requests_per_second?: number;
  state_bytes?: number;
}

export interface ReasonData {
  reason?: string;
}

export interface ReleaseRequest {
  /** Destroy the container with the tenant's state, without uploading it. */
  discard?: boolean;
}

export interface Replaced {
  /** Destroyed when their claims are released. */
  claimed: number;
  /** Their creation is canceled unless it ends soon. */
  creating: number;
  /** Destroyed once enough new containers are ready. */
  idle: number;
  reason: string;
}

export interface ReplayRequest {
  /** The place of the first event in the log. */
  from: number;
  /** The place of the last event; by default the end of the log. */
  to?: number;
}

export interface Replayed {
  /** How many deliveries were added. */
  deliveries: number;
}

export interface Report {
  database: Database;
  disk: Disk;
  engine: EngineInfo;
  /** Errors first. */
  findings: Array<Finding>;
  /** Nothing is wrong. */
  ok: boolean;
}

export interface RequestCompletedData {
  duration_ms?: number;
  /** The method of HTTP, as far as 16 characters. Omitted of a connection. It is untrusted. */
  method?: string;
  /** How many requests to ports of the claim before this one are not in the log, because there were too many. */
  omitted?: number;
  port?: number;
  /** Bytes that the port answered. */
  received?: number;
  /** Bytes that were sent to the port. */
  sent?: number;
  /** The status of HTTP. Omitted of a connection. */
  status?: number;
}

export interface Response {
  priority: number;
  time: string;
  /** The type as it is recorded. */
  type: string;
  /** Always true. */
  untrusted: boolean;
}

export interface RestoreRequest {
  /** The tenant's name. */
  tenant: string;
}

export interface Result {
  /** The type of the event. */
  event?: string;
  /** In the order in which they run; those for an event in order of their names. */
  hooks: Array<Hook>;
  /** Empty for an event. */
  point?: "" | "pre_start" | "post_start" | "post_create" | "post_claim" | "wait_start" | "wait_signal" | "wait_timeout" | "pre_release" | "pre_destroy" | (string & {});
  workload: string;
}

export interface Run {
  action: "command" | "script" | "http" | "webhook" | "builtin" | (string & {});
  /** From 1. */
  attempt: number;
  /** The names of the values that were captured from the response. */
  captured?: Array<string>;
  claim?: string;
  command: Array<string>;
  container: string;
  /** Of a hook of a gate: deny. What gates allow is not recorded. */
  decision?: string;
  duration_ms: number;
  ended_at?: string;
  /** Why there is no exit code, or why the hook was skipped. */
  error?: string;
  /** What was being done when the error occurred, outermost first. */
  error_chain?: Array<string>;
  /** The type of the event that an event hook ran for; test. and the point if the run was a test. */
  event?: string;
  /** Omitted if there is none: the command never started, or its outcome is unknown. */
  exit_code?: number;
  /** The hook's name. */
  hook: string;
  /** The same for all attempts: an idempotency key. */
  id: string;
  /** The index of the hook within the point, from 0. */
  index: number;
  /** SIGKILL was needed. */
  killed?: boolean;
  /** Processes that the command left behind; they were killed. */
  leaked_processes?: number;
  /** The out-of-memory killer ended a process of it. */
  oom_killed?: boolean;
  /** Or the gate. Empty if it is of an event hook. */
  point: "" | "pre_start" | "post_start" | "post_create" | "post_claim" | "wait_start" | "wait_signal" | "wait_timeout" | "pre_release" | "pre_destroy" | (string & {});
  /** The first bytes of the response, if the hook has keep_response. */
  response?: string;
  /** The place of that event in the log. */
  seq?: number;
  signal?: string;
  started_at: string;
  state: "running" | "succeeded" | "failed" | "timed_out" | "start_failed" | "lost" | "cancelled" | "unknown" | "skipped" | (string & {});
  /** Of the HTTP response. */
  status?: number;
  /** Omitted in lists without output=true, and if empty. */
  stderr?: Output;
  /** Omitted in lists without output=true, and if empty. Of an attempt that runs, only the answer for one run has it: the lines so far. */
  stdout?: Output;
  /** The hook ended its point as a success: the hooks after it were skipped. */
  stopped?: boolean;
  tenant?: string;
  timed_out?: boolean;
  /** The timeout that passed. */
  timeout_ms?: number;
  /** Of a run at a point of a wait: the wait's id, a dot, and the round. */
  wait?: string;
  /** What the author of the hook should know although the attempt was made, such as a variable that was empty. */
  warnings?: Array<string>;
  workload: string;
}

export interface ScaleRequest {
  /** The maximum number of containers. */
  max_size?: number;
  /** The number of idle containers. */
  min_idle?: number;
}

export interface SignalCommandInBody {
  /** SIGHUP, SIGINT, SIGQUIT, SIGKILL, SIGUSR1, SIGUSR2, SIGALRM, SIGTERM, SIGCONT, SIGSTOP, SIGTSTP or SIGWINCH. */
  signal: string;
}

export interface SignalRequest {
  /** JSON of at most 32 KiB for the program that waits, and its hooks. Default: null. */
  data?: unknown;
  /** That of the wait. */
  name?: string;
}

export interface SignalResult {
  /** How many signals are kept for the name, with this one. */
  kept?: number;
  /** The wait that got it; omitted if it is kept for the next one of its name. */
  wait?: string;
}

export interface Snapshot {
  /** Their total size. */
  bytes: number;
  /** The claim whose container it was taken from. */
  claim?: string;
  /** The tenant's next claim begins with it. */
  current: boolean;
  /** The number of files, directories and links. */
  files: number;
  id: string;
  /** What its upload has stored, its index included. The rest was there. 0 for a restored one. */
  new_bytes: number;
  /** Why it was taken: release, interval, request, restored or import. */
  reason?: "release" | "interval" | "request" | "restored" | "import" | (string & {});
  /** The older snapshot that it restores. */
  restored_from?: string;
  /** The workload's revision of its container. */
  revision?: string;
  /** What it needs in the sink, with what it shares with other snapshots. */
  stored_bytes: number;
  time: string;
}

export interface SnapshotExportedData {
  snapshot?: string;
}

export interface SnapshotImportedData {
  /** Its size in the sink. */
  bytes?: number;
  /** The number of files, directories and links. */
  files?: number;
  /** The snapshot that is current since then. */
  snapshot?: string;
}

export interface SnapshotRestoredData {
  /** Its size in the sink. */
  bytes?: number;
  /** The older snapshot. */
  from?: string;
  /** The snapshot that is current since then. */
  snapshot?: string;
}

export interface SocketEvent {
  /** Of error, the last message. */
  error?: Problem;
  /** Of input: how much of it was passed on. */
  offset?: number;
  /** Of exit, the last message. */
  result?: CommandResult;
  /** Of start, the first message. */
  start?: CommandStart;
  type: "start" | "input" | "exit" | "error" | (string & {});
}

export interface SocketMessage {
  columns: number;
  /** Of ack: the output before it will not be read again. */
  offset?: number;
  rows: number;
  /** Of signal. */
  signal?: string;
  /** Of start. */
  start?: CommandRequest;
  type: "start" | "resize" | "signal" | "close_stdin" | "ack" | (string & {});
}

export interface Status {
  /** The number of containers in each state. */
  containers: Record<string, number>;
  /** The workload is removed when its last container is destroyed. */
  deleting?: boolean;
  fill: FillStatus;
  /** Claimed containers whose release has failed. Up to max_size of them do not count towards max_size. */
  kept: number;
  max_size: number;
  min_idle: number;
  /** Containers that a newer server created, in any state. This server does not change them. */
  newer?: number;
  /** Containers of an older revision or protocol version, idle or claimed. */
  outdated: number;
  revision: string;
  /** Claims that wait for a container on this server. */
  waiting: number;
  workload: string;
}

export interface SyncEndedData {
  /** Of the whole state. */
  bytes?: number;
  /** upload or download. */
  direction?: string;
  duration_ms?: number;
  error?: string;
  /** Of the whole state, with directories and links. */
  files?: number;
  /** Of the files that were read from the container, or written into it. The others were there already. */
  moved_bytes?: number;
  /** How many files were read from the container, or written into it. */
  moved_files?: number;
  snapshot?: string;
  unchanged?: boolean;
  /** Bytes sent to the sink, or received from it. */
  uploaded_bytes?: number;
}

export interface SyncProgressedData {
  /** upload or download. */
  direction?: string;
  /** Bytes sent to the sink, or received from it, so far. */
  transferred_bytes?: number;
}

export interface SyncStartedData {
  /** upload or download. */
  direction?: string;
}

export interface Synced {
  claim: Claim;
  transfer: Transfer;
}

export interface TerminalSize {
  columns: number;
  rows: number;
}

export interface Token {
  claim?: string;
  expires_at: string;
  tenant: string;
  token: string;
}

export interface TokenCreatedData {
  expires_at?: string;
  /** The name of the credential that made it. */
  maker?: string;
  /** The token's id, which is no secret. */
  token?: string;
}

export interface TokenRequest {
  /** Limits the token to this claim of the tenant. */
  claim?: string;
  /** How long the token is accepted, at most 1h. Default: 15m. */
  expires_in?: string | number;
  /** The tenant that the token acts for. Default: that of the credential, if it is for exactly one. */
  tenant?: string;
  /** Limits the token to these workloads: ids, or a prefix and a *. */
  workloads?: Array<string>;
}

export interface Transfer {
  /** Their total size. */
  bytes: number;
  duration_ms: number;
  /** The number of files, directories and links of the state. */
  files: number;
  /** Their total size. */
  moved_bytes: number;
  /** How many files were read from the container. The others had not changed. */
  moved_files: number;
  /** The snapshot that is current now. */
  snapshot: string;
  /** The current snapshot was already the same, and nothing was stored. */
  unchanged: boolean;
  /** Bytes sent to the sink. */
  uploaded_bytes: number;
}

export interface Usage {
  /** Its live claims. */
  claims: number;
  /** Its claims of the last minute. */
  claims_per_minute: number;
  /** Bytes that its current snapshots occupy. */
  state_bytes: number;
}

export interface ValidationError {
  /** From 1. */
  column?: number;
  /** Its path, such as hooks.post_claim[1].timeout. */
  field?: string;
  /** The name of the file. */
  file?: string;
  /** What to write instead. */
  hint?: string;
  /** From 1. */
  line?: number;
  /** What is wrong. */
  message: string;
}

export interface Variable {
  /** It has no value here. */
  missing?: boolean;
  name: string;
  /** given, sample, environment, secret, captured or nothing. */
  source: "given" | "sample" | "environment" | "secret" | "captured" | "nothing" | (string & {});
  /** A tenant or the receiver of a request writes it. */
  untrusted?: boolean;
  /** ••• for a secret. */
  value: string;
}

export interface Verification {
  /** Their total size. */
  bytes: number;
  /** The number of damages. */
  damaged: number;
  /** The first 100 damages. */
  damages: Array<Damage>;
  /** The number of their files, directories and links. */
  files: number;
  /** The number of objects in the sink that they need. */
  objects: number;
  /** Nothing is damaged. */
  ok: boolean;
  /** Bytes that were read from the sink. What snapshots share is read once. */
  read_bytes: number;
  /** The number of reads of the sink. */
  requests: number;
  /** The number of snapshots that were checked. */
  snapshots: number;
}

export interface VerifyLine {
  /** The last line otherwise. */
  error?: Problem;
  /** About once a second. */
  progress?: VerifyProgress;
  /** The last line of one that has finished. */
  result?: Verification;
}

export interface VerifyProgress {
  /** Their total size. */
  bytes: number;
  /** The number of files, directories and links so far. */
  files: number;
  /** Bytes that were read from the sink. */
  read_bytes: number;
  /** The one that is being checked. */
  snapshot: string;
  /** The total size of all that is checked. */
  total_bytes: number;
}

export interface Wait {
  claim: string;
  container: string;
  /** What the tenant sent with it. Not in lists. */
  context?: unknown;
  created_at: string;
  /** The data of the signal. Not in lists. */
  data?: unknown;
  deadline?: string;
  /** What was last decided after its deadline. */
  decision?: string;
  ended_at?: string;
  extended?: boolean;
  /** When its signal came or its deadline passed, last. */
  fired_at?: string;
  id: string;
  /** A signal has the same name. */
  name?: string;
  /** What becomes of it after its deadline unless a hook decides: abort, retry, extend or escalate (default). */
  on_timeout?: string;
  /** Why it ended as it did. */
  reason?: string;
  /** The id of the request that began it: the same request returns the same wait. */
  request_id?: string;
  retried?: boolean;
  /** From 1; an extension or a retry begins another. */
  round: number;
  /** When its clock started, last. */
  started_at?: string;
  /** starting, waiting, signalling or timing_out while it is open; signalled, timed_out, aborted or cancelled. */
  state: "starting" | "waiting" | "signalling" | "timing_out" | "signalled" | "timed_out" | "aborted" | "cancelled" | (string & {});
  tenant: string;
  /** The timeout in milliseconds. The wait_start hooks do not count. */
  timeout_ms: number;
  /** What the tenant waits for: consensus, validation, dependency or another lower-case word. */
  type: string;
  workload: string;
}

export interface WaitData {
  /** After the deadline: abort, retry, extend or escalate. */
  decision?: string;
  /** How long the tenant waited since the clock started, of an end and of what precedes it. */
  duration_ms?: number;
  /** How long after the deadline that was. */
  exceeded_ms?: number;
  /** Of the context, as far as 256 characters. It is untrusted. */
  iteration?: string;
  /** What the tenant waits for, such as consensus. It is untrusted. */
  kind?: string;
  /** The wait's name. It is untrusted. */
  name?: string;
  /** Of the context, as far as 256 characters. It is untrusted. */
  phase?: string;
  /** Why it ended as it did. */
  reason?: string;
  /** From 1; each extension or retry begins another. */
  round?: number;
  /** Of the context, as far as 256 characters. It is untrusted. */
  task?: string;
  /** The timeout of the wait. */
  threshold_ms?: number;
  /** The time from the event to the deadline where the clock starts; else the timeout of the wait. */
  timeout_ms?: number;
  /** The wait's id. */
  wait?: string;
}

export interface WaitRequest {
  /** JSON of at most 32 KiB for its hooks. The fields task, iteration and phase are variables. */
  context?: unknown;
  /** That of the signals for it. While a wait of the name is open, a request for it returns that one. */
  name?: string;
  /** What becomes of it after its deadline unless a hook decides: abort, retry, extend or escalate (default). */
  on_timeout?: string;
  /** An id of this request: repeated, it returns the same wait, also after its end. */
  request_id?: string;
  /** How long it waits; at most 5m, unless the server permits more. */
  timeout: string | number;
  /** What the program waits for: consensus, validation, dependency or another lower-case word. */
  type: string;
}

export interface WhoAmI {
  /** As events name it: key:NAME, token:ACTOR#TENANT, oidc:ISSUER#SUBJECT, cert:NAME, unix:UID, or local for a client of a server without credentials. */
  actor: string;
  /** When the credential expires. */
  expires_at?: string;
  /** What the credential permits. */
  grants: Array<Grant>;
  /** For people. */
  name: string;
}

export interface Workload {
  created_at: string;
  /** It is deleted with its last container. */
  deleting?: boolean;
  /** No container is created and none may be claimed. */
  draining?: boolean;
  id: string;
  image: string;
  name: string;
  pool: Bounds;
  /** A hash of everything that determines its containers. */
  revision: string;
  /** The file as it was applied. */
  source: string;
  updated_at: string;
}

export interface WorkloadAcceptedData {
  /** Its name in the directory that the server follows. */
  file?: string;
}

export interface WorkloadAppliedData {
  /** The revision before. */
  previous_revision?: string;
  /** The revision since then. */
  revision?: string;
}

export interface WorkloadRejectedData {
  /** What is wrong with the file, the first of them. */
  faults?: Array<FileFault>;
  /** Its name in the directory that the server follows. */
  file?: string;
  /** The number of other faults. */
  more?: number;
}

/** The codes of errors that end by themselves. All other codes are final. */
export const TEMPORARY_CODES: readonly string[] = ["engine_unavailable", "not_ready", "storage_unavailable", "timeout", "wrong_version"];

/** What requests have and are answered with, by method and path. */
export interface Operations {
  /** Report that the process is alive */
  "GET /healthz": {
    path: Record<never, never>;
    query: Record<never, never>;
    body: undefined;
    answer: Health;
  };
  /** Metrics in the Prometheus text format */
  "GET /metrics": {
    path: Record<never, never>;
    query: Record<never, never>;
    body: undefined;
    answer: unknown;
  };
  /** This document */
  "GET /openapi.json": {
    path: Record<never, never>;
    query: Record<never, never>;
    body: undefined;
    answer: unknown;
  };
  /** Report whether requests can be served */
  "GET /readyz": {
    path: Record<never, never>;
    query: Record<never, never>;
    body: undefined;
    answer: Health;
  };
  /** List the bindings */
  "GET /v1/bindings": {
    path: Record<never, never>;
    query: { limit?: number; after?: string };
    body: undefined;
    answer: PageBinding;
  };
  /** Delete a binding */
  "DELETE /v1/bindings/{name}": {
    path: { name: string };
    query: Record<never, never>;
    body: undefined;
    answer: undefined;
  };
  /** Show a binding */
  "GET /v1/bindings/{name}": {
    path: { name: string };
    query: Record<never, never>;
    body: undefined;
    answer: Binding;
  };
  /** Add or change a binding */
  "PUT /v1/bindings/{name}": {
    path: { name: string };
    query: Record<never, never>;
    body: BindingRequest;
    answer: Binding;
  };
  /** Show whether an operation is permitted */
  "GET /v1/can-i": {
    path: Record<never, never>;
    query: { operation?: string; verb?: string; thing?: string; tenant?: string; workload?: string; claim?: string };
    body: undefined;
    answer: Permitted;
  };
  /** List claims */
  "GET /v1/claims": {
    path: Record<never, never>;
    query: { limit?: number; after?: string; id?: string; order?: "asc" | "desc"; workload?: string; tenant?: string; container?: string; label?: Array<string> | null; state?: Array<string> | null };
    body: undefined;
    answer: PageClaim;
  };
  /** Claim a container */
  "POST /v1/claims": {
    path: Record<never, never>;
    query: Record<never, never>;
    body: ClaimRequest;
    answer: Claim;
  };
  /** Show a claim */
  "GET /v1/claims/{id}": {
    path: { id: string };
    query: Record<never, never>;
    body: undefined;
    answer: Claim;
  };
  /** Record what a claim's program does */
  "PUT /v1/claims/{id}/activity": {
    path: { id: string };
    query: Record<never, never>;
    body: ActivityRequest;
    answer: ActivityResponse;
  };
  /** List the commands of a claim */
  "GET /v1/claims/{id}/exec": {
    path: { id: string };
    query: Record<never, never>;
    body: undefined;
    answer: ClaimCommands;
  };
  /** Run a command in a claim's container */
  "POST /v1/claims/{id}/exec": {
    path: { id: string };
    query: Record<never, never>;
    body: CommandRequest;
    answer: CompletedCommand | ClaimCommand;
  };
  /** Start a command over a WebSocket */
  "GET /v1/claims/{id}/exec/attach": {
    path: { id: string };
    query: Record<never, never>;
    body: undefined;
    answer: undefined;
  };
  /** End a command */
  "DELETE /v1/claims/{id}/exec/{command}": {
    path: { id: string; command: string };
    query: Record<never, never>;
    body: undefined;
    answer: ClaimCommand;
  };
  /** Show a command */
  "GET /v1/claims/{id}/exec/{command}": {
    path: { id: string; command: string };
    query: Record<never, never>;
    body: undefined;
    answer: ClaimCommand;
  };
  /** Acknowledge output of a command */
  "POST /v1/claims/{id}/exec/{command}/ack": {
    path: { id: string; command: string };
    query: Record<never, never>;
    body: AckCommandInBody;
    answer: undefined;
  };
  /** Attach to a command over a WebSocket */
  "GET /v1/claims/{id}/exec/{command}/attach": {
    path: { id: string; command: string };
    query: { after?: number };
    body: undefined;
    answer: undefined;
  };
  /** Send input to a command */
  "POST /v1/claims/{id}/exec/{command}/input": {
    path: { id: string; command: string };
    query: { offset?: number; close?: boolean };
    body: unknown;
    answer: CommandInput;
  };
  /** Stream the output of a command */
  "GET /v1/claims/{id}/exec/{command}/output": {
    path: { id: string; command: string };
    query: { after?: number };
    body: undefined;
    answer: CommandLine;
  };
  /** Change the size of a command's terminal */
  "POST /v1/claims/{id}/exec/{command}/resize": {
    path: { id: string; command: string };
    query: Record<never, never>;
    body: TerminalSize;
    answer: undefined;
  };
  /** Send a signal to a command */
  "POST /v1/claims/{id}/exec/{command}/signal": {
    path: { id: string; command: string };
    query: Record<never, never>;
    body: SignalCommandInBody;
    answer: undefined;
  };
  /** Extend a claim's lifetime */
  "POST /v1/claims/{id}/extend": {
    path: { id: string };
    query: Record<never, never>;
    body: ExtendRequest;
    answer: Claim;
  };
  /** Remove a file or directory */
  "DELETE /v1/claims/{id}/files/{path}": {
    path: { id: string; path: string };
    query: { recursive?: boolean };
    body: undefined;
    answer: undefined;
  };
  /** Read a file or directory of a claim's container */
  "GET /v1/claims/{id}/files/{path}": {
    path: { id: string; path: string };
    query: { stat?: boolean; list?: boolean; archive?: boolean; after?: string; limit?: number };
    body: undefined;
    answer: unknown;
  };
  /** Write a file, or unpack an archive */
  "PUT /v1/claims/{id}/files/{path}": {
    path: { id: string; path: string };
    query: { mode?: string; archive?: boolean };
    body: unknown;
    answer: FileInfo;
  };
  /** Run the hooks of a point once in a claim's container, as a test */
  "POST /v1/claims/{id}/hooks/test": {
    path: { id: string };
    query: Record<never, never>;
    body: LiveTestRequest;
    answer: LiveTest;
  };
  /** List the keys of a claim's memory */
  "GET /v1/claims/{id}/memory": {
    path: { id: string };
    query: { level?: "claim" | "tenant" | "workload" | "agent" | "swarm" | "project"; limit?: number; after?: string; prefix?: string };
    body: undefined;
    answer: Page;
  };
  /** Delete a value of a claim's memory */
  "DELETE /v1/claims/{id}/memory/{key}": {
    path: { id: string; key: string };
    query: { level?: "claim" | "tenant" | "workload" | "agent" | "swarm" | "project"; if_version?: number };
    body: undefined;
    answer: Deleted;
  };
  /** Read a value of a claim's memory */
  "GET /v1/claims/{id}/memory/{key}": {
    path: { id: string; key: string };
    query: { level?: "claim" | "tenant" | "workload" | "agent" | "swarm" | "project" };
    body: undefined;
    answer: unknown;
  };
  /** Put a value into a claim's memory */
  "PUT /v1/claims/{id}/memory/{key}": {
    path: { id: string; key: string };
    query: { level?: "claim" | "tenant" | "workload" | "agent" | "swarm" | "project"; if_version?: number };
    body: unknown;
    answer: Item;
  };
  /** Connect to a port of a claim's container */
  "POST /v1/claims/{id}/ports/{port}": {
    path: { id: string; port: number };
    query: Record<never, never>;
    body: undefined;
    answer: undefined;
  };
  /** Make a link to a port, for a browser */
  "POST /v1/claims/{id}/ports/{port}/links": {
    path: { id: string; port: number };
    query: Record<never, never>;
    body: LinkRequest;
    answer: Link;
  };
  /** Send a DELETE to a program in a claim's container */
  "DELETE /v1/claims/{id}/ports/{port}/{path}": {
    path: { id: string; port: number; path: string };
    query: Record<never, never>;
    body: undefined;
    answer: unknown;
  };
  /** Send a GET to a program in a claim's container, or open a WebSocket */
  "GET /v1/claims/{id}/ports/{port}/{path}": {
    path: { id: string; port: number; path: string };
    query: Record<never, never>;
    body: undefined;
    answer: unknown;
  };
  /** Send a HEAD to a program in a claim's container */
  "HEAD /v1/claims/{id}/ports/{port}/{path}": {
    path: { id: string; port: number; path: string };
    query: Record<never, never>;
    body: undefined;
    answer: unknown;
  };
  /** Send an OPTIONS to a program in a claim's container */
  "OPTIONS /v1/claims/{id}/ports/{port}/{path}": {
    path: { id: string; port: number; path: string };
    query: Record<never, never>;
    body: undefined;
    answer: unknown;
  };
  /** Send a PATCH to a program in a claim's container */
  "PATCH /v1/claims/{id}/ports/{port}/{path}": {
    path: { id: string; port: number; path: string };
    query: Record<never, never>;
    body: unknown;
    answer: unknown;
  };
  /** Send a POST to a program in a claim's container */
  "POST /v1/claims/{id}/ports/{port}/{path}": {
    path: { id: string; port: number; path: string };
    query: Record<never, never>;
    body: unknown;
    answer: unknown;
  };
  /** Send a PUT to a program in a claim's container */
  "PUT /v1/claims/{id}/ports/{port}/{path}": {
    path: { id: string; port: number; path: string };
    query: Record<never, never>;
    body: unknown;
    answer: unknown;
  };
  /** Release a claim */
  "POST /v1/claims/{id}/release": {
    path: { id: string };
    query: Record<never, never>;
    body: ReleaseRequest | undefined;
    answer: Claim;
  };
  /** Send a signal to a wait */
  "POST /v1/claims/{id}/signals": {
    path: { id: string };
    query: Record<never, never>;
    body: SignalRequest;
    answer: SignalResult;
  };
  /** Upload a claim's state as a snapshot now */
  "POST /v1/claims/{id}/sync": {
    path: { id: string };
    query: Record<never, never>;
    body: undefined;
    answer: Synced;
  };
  /** Record that a claim is still in use */
  "POST /v1/claims/{id}/touch": {
    path: { id: string };
    query: Record<never, never>;
    body: undefined;
    answer: Claim;
  };
  /** Wait for a signal */
  "POST /v1/claims/{id}/waits": {
    path: { id: string };
    query: { wait?: string };
    body: WaitRequest;
    answer: Wait;
  };
  /** List containers */
  "GET /v1/containers": {
    path: Record<never, never>;
    query: { limit?: number; after?: string; id?: string; order?: "asc" | "desc"; workload?: string; tenant?: string; state?: Array<string> | null };
    body: undefined;
    answer: PageContainer;
  };
  /** Destroy a container */
  "DELETE /v1/containers/{id}": {
    path: { id: string };
    query: { force?: boolean; now?: boolean };
    body: undefined;
    answer: Container;
  };
  /** Show a container */
  "GET /v1/containers/{id}": {
    path: { id: string };
    query: Record<never, never>;
    body: undefined;
    answer: Container;
  };
  /** Read a container's logs */
  "GET /v1/containers/{id}/logs": {
    path: { id: string };
    query: { tail?: number };
    body: undefined;
    answer: unknown;
  };
  /** List deliveries of events to event hooks */
  "GET /v1/deliveries": {
    path: Record<never, never>;
    query: { limit?: number; after?: string; id?: string; order?: "asc" | "desc"; workload?: string; hook?: string; container?: string; claim?: string; tenant?: string; state?: Array<string> | null };
    body: undefined;
    answer: PageDelivery;
  };
  /** Show a delivery */
  "GET /v1/deliveries/{id}": {
    path: { id: string };
    query: Record<never, never>;
    body: undefined;
    answer: Delivery;
  };
  /** Discard a delivery that waits */
  "POST /v1/deliveries/{id}/discard": {
    path: { id: string };
    query: Record<never, never>;
    body: undefined;
    answer: Delivery;
  };
  /** Attempt a delivery again */
  "POST /v1/deliveries/{id}/retry": {
    path: { id: string };
    query: Record<never, never>;
    body: undefined;
    answer: Delivery;
  };
  /** Diagnose the installation */
  "GET /v1/doctor": {
    path: Record<never, never>;
    query: Record<never, never>;
    body: undefined;
    answer: Report;
  };
  /** Read or follow the activity log */
  "GET /v1/events": {
    path: Record<never, never>;
    query: { after?: string; since?: string; type?: Array<string> | null; workload?: string; container?: string; tenant?: string; claim?: string; point?: string; actor?: string; run?: string; label?: Array<string> | null; min_priority?: number; untrusted?: "true" | "false"; limit?: number; last?: number; follow?: boolean };
    body: undefined;
    answer: EventPage;
  };
  /** Publish an event of a claim's program */
  "POST /v1/events": {
    path: Record<never, never>;
    query: Record<never, never>;
    body: PublishRequest;
    answer: Response;
  };
  /** Follow the activity log */
  "GET /v1/events/stream": {
    path: Record<never, never>;
    query: { after?: string; since?: string; type?: Array<string> | null; workload?: string; container?: string; tenant?: string; claim?: string; point?: string; actor?: string; run?: string; label?: Array<string> | null; min_priority?: number; untrusted?: "true" | "false" };
    body: undefined;
    answer: FollowedEvent;
  };
  /** List hook runs */
  "GET /v1/hook-runs": {
    path: Record<never, never>;
    query: { limit?: number; after?: string; id?: string; order?: "asc" | "desc"; workload?: string; container?: string; claim?: string; tenant?: string; point?: string; since?: string; output?: boolean; state?: Array<string> | null };
    body: undefined;
    answer: PageRun;
  };
  /** Show all attempts of a hook run */
  "GET /v1/hook-runs/{id}": {
    path: { id: string };
    query: Record<never, never>;
    body: undefined;
    answer: Attempts;
  };
  /** List the keys */
  "GET /v1/keys": {
    path: Record<never, never>;
    query: { limit?: number; after?: string };
    body: undefined;
    answer: PageKey;
  };
  /** Create a key */
  "POST /v1/keys": {
    path: Record<never, never>;
    query: Record<never, never>;
    body: KeyRequest;
    answer: CreatedKey;
  };
  /** Revoke a key */
  "DELETE /v1/keys/{name}": {
    path: { name: string };
    query: Record<never, never>;
    body: undefined;
    answer: Key;
  };
  /** Show a key */
  "GET /v1/keys/{name}": {
    path: { name: string };
    query: Record<never, never>;
    body: undefined;
    answer: Key;
  };
  /** List the pools */
  "GET /v1/pools": {
    path: Record<never, never>;
    query: { limit?: number; after?: string };
    body: undefined;
    answer: PageStatus;
  };
  /** Show a pool */
  "GET /v1/pools/{workload}": {
    path: { workload: string };
    query: Record<never, never>;
    body: undefined;
    answer: Status;
  };
  /** Empty a pool */
  "POST /v1/pools/{workload}/drain": {
    path: { workload: string };
    query: Record<never, never>;
    body: undefined;
    answer: Status;
  };
  /** Change a pool's bounds */
  "POST /v1/pools/{workload}/scale": {
    path: { workload: string };
    query: Record<never, never>;
    body: ScaleRequest;
    answer: Status;
  };
  /** List quotas */
  "GET /v1/quotas": {
    path: Record<never, never>;
    query: { limit?: number; after?: string };
    body: undefined;
    answer: PageOverride;
  };
  /** Remove a quota */
  "DELETE /v1/quotas/{level}/{name}": {
    path: { level: "tenant" | "key" | "workload"; name: string };
    query: Record<never, never>;
    body: undefined;
    answer: Quota;
  };
  /** Show a quota and its use */
  "GET /v1/quotas/{level}/{name}": {
    path: { level: "tenant" | "key" | "workload"; name: string };
    query: Record<never, never>;
    body: undefined;
    answer: Quota;
  };
  /** Set a quota */
  "PUT /v1/quotas/{level}/{name}": {
    path: { level: "tenant" | "key" | "workload"; name: string };
    query: Record<never, never>;
    body: Limits;
    answer: Quota;
  };
  /** Make a short-lived token for a tenant */
  "POST /v1/tokens": {
    path: Record<never, never>;
    query: Record<never, never>;
    body: TokenRequest;
    answer: Token;
  };
  /** List waits */
  "GET /v1/waits": {
    path: Record<never, never>;
    query: { limit?: number; after?: string; id?: string; order?: "asc" | "desc"; workload?: string; claim?: string; tenant?: string; state?: Array<string> | null };
    body: undefined;
    answer: PageWait;
  };
  /** Show a wait, or wait for its end */
  "GET /v1/waits/{id}": {
    path: { id: string };
    query: { wait?: string };
    body: undefined;
    answer: Wait;
  };
  /** Show who sends the request */
  "GET /v1/whoami": {
    path: Record<never, never>;
    query: Record<never, never>;
    body: undefined;
    answer: WhoAmI;
  };
  /** List the workloads */
  "GET /v1/workloads": {
    path: Record<never, never>;
    query: { limit?: number; after?: string };
    body: undefined;
    answer: PageWorkload;
  };
  /** Delete a workload */
  "DELETE /v1/workloads/{id}": {
    path: { id: string };
    query: Record<never, never>;
    body: undefined;
    answer: Workload | undefined;
  };
  /** Show a workload */
  "GET /v1/workloads/{id}": {
    path: { id: string };
    query: Record<never, never>;
    body: undefined;
    answer: Workload;
  };
  /** Apply a workload file */
  "PUT /v1/workloads/{id}": {
    path: { id: string };
    query: { dry_run?: boolean };
    body: unknown;
    answer: AppliedWorkload;
  };
  /** Deliver old events to an event hook again */
  "POST /v1/workloads/{id}/event-hooks/{hook}/replay": {
    path: { id: string; hook: string };
    query: Record<never, never>;
    body: ReplayRequest;
    answer: Replayed;
  };
  /** Show what hooks would do, and do nothing */
  "POST /v1/workloads/{id}/hooks/test": {
    path: { id: string };
    query: Record<never, never>;
    body: DryRunRequest;
    answer: Result;
  };
  /** List a tenant's snapshots */
  "GET /v1/workloads/{id}/snapshots": {
    path: { id: string };
    query: { tenant: string };
    body: undefined;
    answer: PageSnapshot;
  };
  /** Make a tar a tenant's current snapshot */
  "POST /v1/workloads/{id}/snapshots/import": {
    path: { id: string };
    query: { tenant: string };
    body: unknown;
    answer: Snapshot;
  };
  /** Download a snapshot as a tar */
  "GET /v1/workloads/{id}/snapshots/{snapshot}/export": {
    path: { id: string; snapshot: string };
    query: { tenant: string };
    body: undefined;
    answer: unknown;
  };
  /** Restore an older snapshot */
  "POST /v1/workloads/{id}/snapshots/{snapshot}/restore": {
    path: { id: string; snapshot: string };
    query: Record<never, never>;
    body: RestoreRequest;
    answer: Snapshot;
  };
  /** Read and check a snapshot, or all of a tenant's */
  "POST /v1/workloads/{id}/snapshots/{snapshot}/verify": {
    path: { id: string; snapshot: string };
    query: { tenant: string };
    body: undefined;
    answer: VerifyLine;
  };
}
