-- Ids are TEXT, times BIGINT nanoseconds since 1970 (0: never), objects JSON
-- in TEXT. What may never be is forbidden here, whatever the program does.

-- What the installation stores about itself, and the number of this schema.
CREATE TABLE meta (
    key   {{.Key}} PRIMARY KEY,
    value TEXT     NOT NULL
);
INSERT INTO meta (key, value) VALUES ('schema', '{{.Number}}');

-- The log's one row. A transaction takes the numbers of its events from it
-- last of all: whoever holds the row commits next, so numbers grow in the
-- order of commits. Events up to pruned have been removed by retention. Every
-- change changes the row: PostgreSQL leaves room for its next versions.
CREATE TABLE log (
    id     {{.Int}} PRIMARY KEY CHECK (id = 1),
    last   BIGINT   NOT NULL,
    pruned BIGINT   NOT NULL CHECK (pruned <= last)
){{if not .SQLite}} WITH (fillfactor = 10){{end}};
INSERT INTO log (id, last, pruned) VALUES (1, 0, 0);

CREATE TABLE events (
    seq        {{.Int}} PRIMARY KEY,
    time       BIGINT   NOT NULL,
    type       TEXT     NOT NULL CHECK (type <> ''),
    workload   {{.Key}} NOT NULL,
    container  {{.Key}} NOT NULL,
    tenant     {{.Key}} NOT NULL,
    claim      {{.Key}} NOT NULL,
    run        TEXT     NOT NULL,
    point      TEXT     NOT NULL,
    message    TEXT     NOT NULL,
    data       TEXT     NOT NULL,
    -- An event that a delivery caused has depth 1. It is not delivered itself.
    depth      {{.Int}} NOT NULL DEFAULT 0,
    -- Events that tenants' programs published are untrusted and have a priority.
    untrusted  {{.Int}} NOT NULL DEFAULT 0 CHECK (untrusted IN (0, 1)),
    priority   {{.Int}} CHECK ((priority IS NOT NULL) = (untrusted = 1)),
    -- The request of a program in a container that published the event. A request
    -- that is sent again, because its answer was lost, publishes nothing.
    request    TEXT     NOT NULL DEFAULT '',
    -- Who caused the event.
    actor      TEXT     NOT NULL DEFAULT '',
    address    TEXT     NOT NULL DEFAULT '',
    request_id TEXT     NOT NULL DEFAULT ''
);
CREATE INDEX events_container ON events (container, seq) WHERE container <> '';
CREATE INDEX events_tenant    ON events (tenant, seq)    WHERE tenant <> '';
CREATE INDEX events_claim     ON events (claim, seq)     WHERE claim <> '';
CREATE UNIQUE INDEX events_request ON events (claim, request) WHERE request <> '';
-- Retention finds what programs published, of a claim and of all, and what a
-- tenant has done with its container, by its kind.
CREATE INDEX events_published ON events (claim, seq) WHERE untrusted = 1;
CREATE INDEX events_untrusted ON events (seq) WHERE untrusted = 1;
CREATE INDEX events_uses_exec ON events (claim, seq, type) WHERE type IN ('exec.started', 'exec.completed', 'exec.failed');
CREATE INDEX events_uses_file ON events (claim, seq, type) WHERE type IN ('file.read', 'file.written', 'file.removed');
CREATE INDEX events_uses_request ON events (claim, seq, type) WHERE type IN ('request.completed');

-- How far each follower of the log that must handle every event once has come.
-- Retention keeps the events that a cursor has not passed.
CREATE TABLE cursors (
    name {{.Key}} PRIMARY KEY CHECK (name <> ''),
    seq  BIGINT   NOT NULL CHECK (seq >= 0)
);

CREATE TABLE workloads (
    id            {{.Key}} PRIMARY KEY CHECK (id <> ''),
    revision      {{.Key}} NOT NULL,
    source        {{.Blob}} NOT NULL,
    dir           TEXT     NOT NULL,
    min_idle      {{.Int}} NOT NULL CHECK (min_idle >= 0),
    max_size      {{.Int}} NOT NULL CHECK (max_size >= 0),
    draining      {{.Int}} NOT NULL CHECK (draining IN (0, 1)),
    deleting      {{.Int}} NOT NULL CHECK (deleting IN (0, 1)),
    created_at    BIGINT   NOT NULL,
    updated_at    BIGINT   NOT NULL,
    -- The names of the event hooks, each with the number of the last event before
    -- its file was applied.
    event_hooks   TEXT     NOT NULL DEFAULT '{}',
    -- Whether the file says that the workload's memory is shared between tenants.
    shared_memory {{.Int}} NOT NULL DEFAULT 0 CHECK (shared_memory IN (0, 1))
);

-- The sources of revisions that containers may still be of.
CREATE TABLE revisions (
    workload   {{.Key}} NOT NULL,
    revision   {{.Key}} NOT NULL,
    source     {{.Blob}} NOT NULL,
    dir        TEXT     NOT NULL,
    updated_at BIGINT   NOT NULL,
    PRIMARY KEY (workload, revision)
);

-- The workload files as they were applied. The hooks of a point come from one of
-- them, which its runs name, so that another server can resume the point.
CREATE TABLE files (
    workload   {{.Key}} NOT NULL,
    file       {{.Key}} NOT NULL,
    source     {{.Blob}} NOT NULL,
    updated_at BIGINT   NOT NULL,
    PRIMARY KEY (workload, file)
);

-- The recent failures to create containers of a pool: they survive a restart,
-- and every server shows them. A pool without failures has no row.
CREATE TABLE pools (
    workload         {{.Key}} PRIMARY KEY CHECK (workload <> ''),
    revision         {{.Key}} NOT NULL,
    failures         {{.Int}} NOT NULL CHECK (failures > 0),
    last_error       TEXT     NOT NULL,
    last_error_at    BIGINT   NOT NULL,
    retry_at         BIGINT   NOT NULL,
    crash_looping    {{.Int}} NOT NULL CHECK (crash_looping IN (0, 1)),
    last_error_chain TEXT     NOT NULL DEFAULT '',
    -- The container whose creation failed last.
    last_container   TEXT     NOT NULL DEFAULT ''
);

CREATE TABLE containers (
    id             {{.Key}} PRIMARY KEY CHECK (id <> ''),
    workload       {{.Key}} NOT NULL CHECK (workload <> ''),
    revision       {{.Key}} NOT NULL,
    state          TEXT     NOT NULL CHECK (state IN ('creating', 'idle', 'claimed', 'destroying', 'destroyed')),
    health         TEXT     NOT NULL CHECK (health IN ('', 'healthy', 'unhealthy', 'exited')),
    tenant         {{.Key}} NOT NULL,
    claim          {{.Key}} NOT NULL CHECK (claim = '' OR state NOT IN ('idle', 'destroyed')),
    endpoint       TEXT     NOT NULL,
    reason         TEXT     NOT NULL,
    snapshot       TEXT     NOT NULL,
    created_at     BIGINT   NOT NULL,
    changed_at     BIGINT   NOT NULL,
    -- The server (replicas.id) that changed the record last: while a flow is in
    -- progress, the one to finish it. Empty when that server has not registered.
    owner          {{.Key}} NOT NULL DEFAULT '',
    -- When the container was last emptied for a claim.
    wiped_at       BIGINT   NOT NULL DEFAULT 0,
    -- Grows whenever another flow, or another server, becomes responsible for the
    -- container, which refuses changes with an older one.
    fence          BIGINT   NOT NULL DEFAULT 1,
    -- The version of the protocol that the container's program speaks: that of the
    -- server that made it. Servers of different versions may use the database at
    -- once.
    protocol       INTEGER  NOT NULL DEFAULT 0,
    -- Whether a command of an event hook was ever started in the container. The
    -- flows of the others need not look for such commands.
    event_commands {{.Int}} NOT NULL DEFAULT 0,
    -- Whether an operator has forced the destruction, and how far it is. A container
    -- that is claimed stays so until its claim is released.
    forced         TEXT     NOT NULL DEFAULT '' CHECK (forced IN ('', 'after_hooks', 'now', 'done')),
    -- The node that the container runs on, since it is idle for the first time.
    node           TEXT     NOT NULL DEFAULT '',
    -- The hooks of the image, as listed before the first tenant: what was changed
    -- since is not run.
    image_hooks    TEXT     NOT NULL DEFAULT 'null',
    -- Whether the output of a container that failed is kept, or still to be read.
    output         TEXT     NOT NULL DEFAULT '' CHECK (output IN ('', 'wanted', 'kept')),
    -- What was being done when what the reason has went wrong: a JSON list, outermost
    -- first. Empty for none. The same in claims and pools.
    reason_chain   TEXT     NOT NULL DEFAULT '',
    -- A claimed container has a claim and a tenant.
    CHECK (state <> 'claimed' OR (claim <> '' AND tenant <> ''))
);
-- A claim holds at most one container.
CREATE UNIQUE INDEX containers_claim ON containers (claim) WHERE claim <> '';
-- Counting and listing what exists never reads what is destroyed.
CREATE INDEX containers_live ON containers (workload, state, revision, tenant, health, protocol) WHERE state <> 'destroyed';
-- Reserving: a tenant's own and the never claimed ones, then any.
CREATE INDEX containers_idle ON containers (workload, tenant, revision, changed_at) WHERE state = 'idle';
CREATE INDEX containers_used ON containers (workload, revision, changed_at) WHERE state = 'idle' AND tenant <> '';
CREATE INDEX containers_forced ON containers (id) WHERE forced IN ('after_hooks', 'now');

-- The last output of a container that failed: of its main process, and of the health
-- check that failed. It ends with the container's record.
CREATE TABLE outputs (
    container {{.Key}} PRIMARY KEY REFERENCES containers (id) ON DELETE CASCADE,
    workload  {{.Key}} NOT NULL,
    tenant    {{.Key}} NOT NULL,
    main      TEXT     NOT NULL, -- JSON
    probe     TEXT     NOT NULL, -- JSON
    kept_at   BIGINT   NOT NULL,
    -- Whether it is so much that only the newest of a tenant stay whole.
    large     {{.Int}} NOT NULL CHECK (large IN (0, 1))
);
CREATE INDEX outputs_large ON outputs (workload, tenant, kept_at, container) WHERE large = 1;

CREATE TABLE claims (
    id             {{.Key}} PRIMARY KEY CHECK (id <> ''),
    workload       {{.Key}} NOT NULL CHECK (workload <> ''),
    tenant         {{.Key}} NOT NULL CHECK (tenant <> ''),
    container      {{.Key}} NOT NULL,
    revision       {{.Key}} NOT NULL,
    state          TEXT     NOT NULL CHECK (state IN ('pending', 'active', 'releasing', 'release_failed', 'released', 'failed')),
    source         TEXT     NOT NULL CHECK (source IN ('', 'fresh', 'affinity', 'recycled')),
    endpoint       TEXT     NOT NULL,
    hooks          TEXT     NOT NULL,
    timings        TEXT     NOT NULL,
    warnings       TEXT     NOT NULL,
    reason         TEXT     NOT NULL,
    snapshot       TEXT     NOT NULL,
    -- Greater than those of all earlier claims of the tenant, however many there
    -- were, also when the clock was set back.
    fence          BIGINT   NOT NULL,
    failures       INTEGER  NOT NULL,
    retry_at       BIGINT   NOT NULL,
    synced_at      BIGINT   NOT NULL,
    discard        {{.Int}} NOT NULL CHECK (discard IN (0, 1)),
    created_at     BIGINT   NOT NULL,
    active_at      BIGINT   NOT NULL,
    touched_at     BIGINT   NOT NULL,
    released_at    BIGINT   NOT NULL,
    owner          {{.Key}} NOT NULL DEFAULT '',
    -- Why the release fails, empty while it does not, and since when.
    failure_reason {{.Key}} NOT NULL DEFAULT '' CHECK (failure_reason IN ('', 'tenant', 'sink', 'stale', 'version')),
    failed_at      BIGINT   NOT NULL DEFAULT 0,
    -- The traceparent header of the request that the hooks run for: of the claim,
    -- then of its release. Another server that resumes them needs it.
    traceparent    TEXT     NOT NULL DEFAULT '',
    -- What the tenant's program reported to do.
    activity       TEXT     NOT NULL DEFAULT '',
    activity_tool  TEXT     NOT NULL DEFAULT '',
    activity_at    BIGINT   NOT NULL DEFAULT 0,
    -- How many waits of the claim are open, and how many signals are kept for it.
    waits          {{.Int}} NOT NULL DEFAULT 0 CHECK (waits >= 0),
    signals        {{.Int}} NOT NULL DEFAULT 0 CHECK (signals >= 0),
    -- Who claimed, and whose quota the claim counts for: empty without a credential.
    actor          TEXT     NOT NULL DEFAULT '',
    -- The id of the request that created the claim; empty for none.
    request_id     TEXT     NOT NULL DEFAULT '',
    quota_key      {{.Key}} NOT NULL DEFAULT '',
    -- A digest of the environment that a live claim has given its main process. Empty
    -- for none. The values are nowhere.
    environment    TEXT     NOT NULL DEFAULT '',
    labels         TEXT     NOT NULL DEFAULT '', -- JSON
    parameters     TEXT     NOT NULL DEFAULT '', -- JSON, without the values of secret ones
    sealed         TEXT     NOT NULL DEFAULT '', -- JSON, the encrypted values of secret ones
    expires_at     BIGINT   NOT NULL DEFAULT 0,
    reason_chain   TEXT     NOT NULL DEFAULT '',
    CHECK (state NOT IN ('active', 'releasing', 'release_failed') OR container <> '')
);
-- A tenant has at most one live claim on a workload.
CREATE UNIQUE INDEX claims_live ON claims (workload, tenant)
    WHERE state IN ('pending', 'active', 'releasing', 'release_failed');
-- A container has at most one live claim.
CREATE UNIQUE INDEX claims_container ON claims (container)
    WHERE state IN ('pending', 'active', 'releasing', 'release_failed') AND container <> '';
CREATE INDEX claims_tenant ON claims (tenant, id);
CREATE INDEX claims_fence ON claims (workload, tenant, fence);
-- Releases that have failed: their containers are counted by themselves.
CREATE INDEX claims_kept ON claims (workload) WHERE state IN ('releasing', 'release_failed') AND failures > 0;
CREATE INDEX claims_expiring ON claims (expires_at) WHERE state = 'active' AND expires_at > 0;
-- Counting the live claims of a tenant and of a key, and the claims of the last
-- minute. The expressions keep SQLite from using the latter for the former.
CREATE INDEX claims_live_tenant ON claims (tenant)
    WHERE state IN ('pending', 'active', 'releasing', 'release_failed');
CREATE INDEX claims_live_workload ON claims (workload)
    WHERE state IN ('pending', 'active', 'releasing', 'release_failed');
CREATE INDEX claims_live_key ON claims (quota_key)
    WHERE state IN ('pending', 'active', 'releasing', 'release_failed') AND quota_key <> '';
CREATE INDEX claims_tenant_created ON claims ((tenant || ''), created_at);
CREATE INDEX claims_key_created ON claims ((quota_key || ''), created_at);
CREATE INDEX claims_workload_created ON claims ((workload || ''), created_at);

-- The labels of claims again, for filters.
CREATE TABLE claim_labels (
    claim {{.Key}} NOT NULL REFERENCES claims (id) ON DELETE CASCADE,
    name  {{.Key}} NOT NULL CHECK (name <> ''),
    value {{.Key}} NOT NULL,
    PRIMARY KEY (claim, name)
);
CREATE INDEX claim_labels_value ON claim_labels (name, value, claim);

CREATE TABLE runs (
    id         {{.Key}} NOT NULL CHECK (id <> ''),
    attempt    {{.Int}} NOT NULL CHECK (attempt >= 1),
    point      TEXT     NOT NULL,
    hook       TEXT     NOT NULL,
    place      {{.Int}} NOT NULL,
    kind       TEXT     NOT NULL,
    command    TEXT     NOT NULL,
    workload   {{.Key}} NOT NULL,
    container  {{.Key}} NOT NULL,
    claim      {{.Key}} NOT NULL,
    tenant     {{.Key}} NOT NULL,
    state      TEXT     NOT NULL CHECK (state IN ('running', 'succeeded', 'failed', 'timed_out', 'start_failed', 'lost', 'cancelled', 'unknown', 'skipped')),
    stdout     TEXT     NOT NULL,
    stderr     TEXT     NOT NULL,
    error      TEXT     NOT NULL,
    started_at BIGINT   NOT NULL,
    ended_at   BIGINT   NOT NULL,
    duration   {{.Real}} NOT NULL,
    owner      {{.Key}} NOT NULL DEFAULT '',
    -- Whether the run keeps so much output that only the newest of a tenant do.
    large      INTEGER  NOT NULL DEFAULT 0 CHECK (large IN (0, 1)),
    -- What the record has because of its kind.
    detail     TEXT     NOT NULL DEFAULT '{}',
    -- The event that an event hook ran for. Runs of points have none.
    event      TEXT     NOT NULL DEFAULT '',
    seq        BIGINT   NOT NULL DEFAULT 0,
    -- The values that the run captured from a response, as JSON; empty if none.
    captured   TEXT     NOT NULL DEFAULT '',
    -- The workload file that the hook comes from (files.file).
    file       TEXT     NOT NULL DEFAULT '',
    -- The wait and the round of a run at a point of one.
    wait       TEXT     NOT NULL DEFAULT '',
    PRIMARY KEY (id, attempt),
    CHECK ((state = 'running') = (ended_at = 0))
);
CREATE INDEX runs_running   ON runs (id, attempt)   WHERE state = 'running';
CREATE INDEX runs_claim     ON runs (claim, id)     WHERE claim <> '';
CREATE INDEX runs_container ON runs (container, id) WHERE container <> '';
CREATE INDEX runs_large ON runs (workload, tenant, id, attempt) WHERE large = 1;
-- What a hook may use of the values that were captured: those of its claim, and
-- those of its container outside claims, however many claims that has had.
CREATE INDEX runs_captured ON runs (container, claim, id) WHERE captured <> '';
-- A tenant lists its runs, also by a part of an id, at the cost of its own.
CREATE INDEX runs_tenant ON runs (tenant, id, attempt);

-- A delivery is one event hook for one event. Those with the same workload, hook
-- and lane are attempted one after another, in the order of their events.
CREATE TABLE deliveries (
    id         {{.Key}} PRIMARY KEY CHECK (id <> ''),
    workload   {{.Key}} NOT NULL CHECK (workload <> ''),
    hook       {{.Key}} NOT NULL CHECK (hook <> ''),
    lane       {{.Key}} NOT NULL CHECK (lane <> ''),
    seq        BIGINT   NOT NULL CHECK (seq > 0),
    event      TEXT     NOT NULL,
    container  {{.Key}} NOT NULL,
    claim      {{.Key}} NOT NULL,
    tenant     {{.Key}} NOT NULL,
    replay     {{.Int}} NOT NULL CHECK (replay IN (0, 1)),
    priority   {{.Int}} NOT NULL,
    state      TEXT     NOT NULL CHECK (state IN ('queued', 'scheduled', 'running', 'succeeded', 'failed', 'discarded')),
    attempts   {{.Int}} NOT NULL CHECK (attempts >= 0),
    failures   {{.Int}} NOT NULL CHECK (failures >= 0),
    due_at     BIGINT   NOT NULL,
    reason     TEXT     NOT NULL,
    owner      {{.Key}} NOT NULL,
    created_at BIGINT   NOT NULL,
    ended_at   BIGINT   NOT NULL,
    CHECK ((state IN ('queued', 'scheduled', 'running')) = (ended_at = 0)),
    CHECK (state <> 'running' OR attempts > 0)
);
-- The next delivery of a lane is found without reading those behind it or those
-- that have ended.
CREATE INDEX deliveries_lane ON deliveries (workload, hook, lane, seq, id) WHERE state IN ('queued', 'scheduled', 'running');
-- An event has one delivery for each hook.
CREATE UNIQUE INDEX deliveries_event ON deliveries (workload, hook, seq) WHERE replay = 0;

-- The servers that use the database. Each may write as long as its row has the
-- epoch that it was given: who takes over from one that does not answer raises it.
CREATE TABLE replicas (
    id         {{.Key}} PRIMARY KEY CHECK (id <> ''),
    host       TEXT     NOT NULL,
    epoch      BIGINT   NOT NULL CHECK (epoch > 0),
    started_at BIGINT   NOT NULL,
    expires_at BIGINT   NOT NULL
);

-- Who does what one server is enough for. Epochs only grow.
CREATE TABLE leases (
    name       {{.Key}} PRIMARY KEY CHECK (name <> ''),
    holder     TEXT     NOT NULL,
    epoch      BIGINT   NOT NULL,
    expires_at BIGINT   NOT NULL
);

-- How much of the limits a claim or a tenant has used: the times at which all of
-- the burst is available again. A row that is missing has used nothing.
CREATE TABLE allowances (
    kind    {{.Key}} NOT NULL CHECK (kind IN ('claim', 'tenant')),
    id      {{.Key}} NOT NULL CHECK (id <> ''),
    events  BIGINT   NOT NULL,
    bytes   BIGINT   NOT NULL,
    dropped BIGINT   NOT NULL CHECK (dropped >= 0),
    PRIMARY KEY (kind, id)
);

-- What a claim, a tenant on a workload, or a workload holds. When one has ended,
-- nothing is read or added, and its entries are removed. What comes after it has
-- another id: a workload that is added again begins empty.
CREATE TABLE memory_scopes (
    id         {{.Key}} PRIMARY KEY CHECK (id <> ''),
    level      TEXT     NOT NULL CHECK (level IN ('claim', 'tenant', 'workload')),
    workload   {{.Key}} NOT NULL CHECK (workload <> ''),
    tenant     {{.Key}} NOT NULL CHECK ((tenant = '') = (level = 'workload')),
    claim      {{.Key}} NOT NULL CHECK ((claim <> '') = (level = 'claim')),
    keys       BIGINT   NOT NULL CHECK (keys >= 0),
    bytes      BIGINT   NOT NULL CHECK (bytes >= 0),
    version    BIGINT   NOT NULL, -- of the last put
    ended      {{.Int}} NOT NULL CHECK (ended IN (0, 1)),
    ends_at    BIGINT   NOT NULL, -- unless a claim uses it before; 0 for never
    updated_at BIGINT   NOT NULL
);
CREATE UNIQUE INDEX memory_scopes_live ON memory_scopes (workload, tenant, claim) WHERE ended = 0;
CREATE INDEX memory_scopes_ended ON memory_scopes (id) WHERE ended = 1;
-- The memory that ends is looked for each minute.
CREATE INDEX memory_scopes_ends ON memory_scopes (level, ends_at) WHERE ended = 0;

CREATE TABLE memory_entries (
    scope      {{.Key}} NOT NULL CHECK (scope <> ''),
    key        {{.Key}} NOT NULL CHECK (key <> ''),
    version    BIGINT   NOT NULL,
    bytes      BIGINT   NOT NULL,
    updated_at BIGINT   NOT NULL,
    value      TEXT     NOT NULL,
    PRIMARY KEY (scope, key)
);

-- The latest changes of memory that programs in containers have requested, with their
-- results. A request that is sent again, because its answer was lost, changes nothing.
CREATE TABLE memory_requests (
    claim   {{.Key}} NOT NULL CHECK (claim <> ''),
    request {{.Key}} NOT NULL CHECK (request <> ''),
    time    BIGINT   NOT NULL,
    result  TEXT     NOT NULL, -- JSON
    PRIMARY KEY (claim, request)
);
CREATE INDEX memory_requests_time ON memory_requests (claim, time);

-- A wait is a row with a deadline. Its times are those of the database's clock.
CREATE TABLE waits (
    id         {{.Key}} PRIMARY KEY CHECK (id <> ''),
    claim      {{.Key}} NOT NULL CHECK (claim <> ''),
    workload   {{.Key}} NOT NULL CHECK (workload <> ''),
    container  {{.Key}} NOT NULL CHECK (container <> ''),
    tenant     {{.Key}} NOT NULL,
    request    {{.Key}} NOT NULL,
    name       {{.Key}} NOT NULL,
    type       TEXT     NOT NULL CHECK (type <> ''),
    state      TEXT     NOT NULL CHECK (state IN ('starting', 'waiting', 'signalling', 'timing_out',
                                                  'signalled', 'timed_out', 'aborted', 'cancelled')),
    round      {{.Int}} NOT NULL CHECK (round BETWEEN 1 AND 3),
    timeout    BIGINT   NOT NULL CHECK (timeout > 0),
    on_timeout TEXT     NOT NULL,
    context    TEXT     NOT NULL,
    data       TEXT     NOT NULL,
    decision   TEXT     NOT NULL,
    reason     TEXT     NOT NULL,
    extended   {{.Int}} NOT NULL CHECK (extended IN (0, 1)),
    retried    {{.Int}} NOT NULL CHECK (retried IN (0, 1)),
    points     TEXT     NOT NULL,
    owner      {{.Key}} NOT NULL,
    created_at BIGINT   NOT NULL,
    started_at BIGINT   NOT NULL,
    deadline   BIGINT   NOT NULL,
    fired_at   BIGINT   NOT NULL,
    ended_at   BIGINT   NOT NULL,
    CHECK ((state IN ('starting', 'waiting', 'signalling', 'timing_out')) = (ended_at = 0)),
    CHECK (state <> 'waiting' OR deadline > 0),
    CHECK (state NOT IN ('signalling', 'signalled') OR data <> '')
);
CREATE INDEX waits_claim ON waits (claim, id);
CREATE INDEX waits_open ON waits (id) WHERE state IN ('starting', 'waiting', 'signalling', 'timing_out');
-- A claim has at most one open wait of a name, and a request makes one wait.
CREATE UNIQUE INDEX waits_name ON waits (claim, name) WHERE state IN ('starting', 'waiting', 'signalling', 'timing_out');
CREATE UNIQUE INDEX waits_request ON waits (claim, request) WHERE request <> '';
-- The waits of a tenant, and those of a workload, in pages.
CREATE INDEX waits_tenant ON waits (tenant, id);
CREATE INDEX waits_workload ON waits (workload, id);
-- The waits that have ended, in the order of their ends.
CREATE INDEX waits_ended ON waits (claim, ended_at) WHERE ended_at > 0;

-- Signals for which no wait was open. They are given to waits in the order of id.
CREATE TABLE signals (
    id         {{.Key}} PRIMARY KEY CHECK (id <> ''),
    claim      {{.Key}} NOT NULL CHECK (claim <> ''),
    name       {{.Key}} NOT NULL,
    data       TEXT     NOT NULL,
    created_at BIGINT   NOT NULL
);
CREATE INDEX signals_name ON signals (claim, name, id);

-- The requests that joined an open wait of their name, which a request with another id
-- had begun: repeated, also after its end, they return that wait. A row ends with its
-- wait. Its time is that of the database's clock.
CREATE TABLE wait_requests (
    claim      {{.Key}} NOT NULL CHECK (claim <> ''),
    request    {{.Key}} NOT NULL CHECK (request <> ''),
    wait       {{.Key}} NOT NULL REFERENCES waits (id) ON DELETE CASCADE,
    digest     TEXT     NOT NULL, -- of what is requested
    created_at BIGINT   NOT NULL,
    PRIMARY KEY (claim, request)
);
CREATE INDEX wait_requests_wait ON wait_requests (wait);
CREATE INDEX wait_requests_time ON wait_requests (claim, created_at);

-- Commands of tenants whose start is in the log and whose end is not.
CREATE TABLE open_execs (
    claim      {{.Key}} NOT NULL CHECK (claim <> ''),
    id         {{.Key}} NOT NULL CHECK (id <> ''),
    workload   {{.Key}} NOT NULL CHECK (workload <> ''),
    container  {{.Key}} NOT NULL CHECK (container <> ''),
    tenant     {{.Key}} NOT NULL,
    fence      BIGINT   NOT NULL,
    program    TEXT     NOT NULL,
    terminal   {{.Int}} NOT NULL CHECK (terminal IN (0, 1)),
    started_at BIGINT   NOT NULL,
    -- The end of a command has the actor of its start.
    actor      TEXT     NOT NULL DEFAULT '',
    PRIMARY KEY (claim, id)
);

-- The generation grows with each change of a key or binding, in its
-- transaction: servers compare it with the one that they know. It is 0 until the
-- first credential is added, and never again.
CREATE TABLE credential_generation (
    id    {{.Int}} PRIMARY KEY CHECK (id = 1),
    value BIGINT   NOT NULL CHECK (value >= 0)
);
INSERT INTO credential_generation (id, value) VALUES (1, 0);

-- Keys, without their secrets.
CREATE TABLE credential_keys (
    name         {{.Key}} PRIMARY KEY CHECK (name <> ''),
    hash         {{.Key}} NOT NULL UNIQUE CHECK (length(hash) = 64), -- SHA-256, hexadecimal
    prefix       TEXT     NOT NULL,
    grants       TEXT     NOT NULL, -- JSON
    operator     {{.Int}} NOT NULL CHECK (operator IN (0, 1)),
    created_at   BIGINT   NOT NULL,
    created_by   TEXT     NOT NULL,
    expires_at   BIGINT   NOT NULL,
    revoked_at   BIGINT   NOT NULL,
    last_used_at BIGINT   NOT NULL,
    generation   BIGINT   NOT NULL
);
CREATE INDEX credential_keys_generation ON credential_keys (generation);
CREATE INDEX credential_keys_operator ON credential_keys (name) WHERE operator = 1;
CREATE INDEX credential_keys_revoked ON credential_keys (revoked_at) WHERE revoked_at > 0;
CREATE INDEX credential_keys_expired ON credential_keys (expires_at) WHERE expires_at > 0;

-- What gives grants to the holders of tokens of other issuers, of certificates, and
-- to users of the machine.
CREATE TABLE credential_bindings (
    name     {{.Key}} PRIMARY KEY CHECK (name <> ''),
    binding  TEXT     NOT NULL, -- JSON
    operator {{.Int}} NOT NULL CHECK (operator IN (0, 1))
);

-- The limits that win over a server's defaults, as JSON, and a number that each
-- change of them increases.
CREATE TABLE quotas (
    level      TEXT     NOT NULL CHECK (level IN ('tenant', 'key', 'workload')),
    name       {{.Key}} NOT NULL CHECK (name <> ''),
    limits     TEXT     NOT NULL,
    updated_at BIGINT   NOT NULL,
    PRIMARY KEY (level, name)
);
CREATE TABLE quota_version (
    id      {{.Int}} PRIMARY KEY CHECK (id = 1),
    version BIGINT   NOT NULL
);
INSERT INTO quota_version (id, version) VALUES (1, 0);

-- What the current snapshot of a tenant occupies, as of its last transfer.
CREATE TABLE state_sizes (
    workload   {{.Key}} NOT NULL CHECK (workload <> ''),
    tenant     {{.Key}} NOT NULL CHECK (tenant <> ''),
    quota_key  {{.Key}} NOT NULL,
    bytes      BIGINT   NOT NULL CHECK (bytes >= 0),
    updated_at BIGINT   NOT NULL,
    PRIMARY KEY (workload, tenant)
);
CREATE INDEX state_sizes_tenant ON state_sizes (tenant);
CREATE INDEX state_sizes_key ON state_sizes (quota_key) WHERE quota_key <> '';
