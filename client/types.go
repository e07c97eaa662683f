package client

import "time"

// Workload is a workload that is applied.
type Workload struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Image     string    `json:"image"`
	Revision  string    `json:"revision"` // names all that a container is made of
	Pool      Bounds    `json:"pool"`
	Draining  bool      `json:"draining,omitempty"` // no container is created and none may be claimed
	Deleting  bool      `json:"deleting,omitempty"` // it is deleted with its last container
	Source    string    `json:"source"`             // the file as it was applied
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// Bounds are the bounds of a pool.
type Bounds struct {
	MinIdle int `json:"min_idle"`
	MaxSize int `json:"max_size"`
}

// AppliedWorkload is the answer to Apply.
type AppliedWorkload struct {
	Workload
	Created bool `json:"created"` // there was no workload of this id
	Changed bool `json:"changed"` // its revision or its pool changed
	// Notes are remarks about the file, with the fields of an error.
	Notes []ValidationError `json:"notes,omitempty"`
	// Plan is what applying would do, of a dry run.
	Plan *Plan `json:"plan,omitempty"`
}

// Plan is what applying a workload file would do.
type Plan struct {
	PreviousRevision string        `json:"previous_revision,omitempty"` // empty: there is no such workload
	Changes          []FieldChange `json:"changes"`                     // at most 200
	Revised          []string      `json:"revised"`                     // what of that determines the containers
	EndsDraining     bool          `json:"ends_draining,omitempty"`     // of the pool
	Replaced         []Replaced    `json:"replaced"`                    // the containers that would be outdated
}

// FieldChange is a value of the file that would change.
type FieldChange struct {
	Field  string  `json:"field"`            // its path, such as hooks.post_claim[1].timeout
	Before *string `json:"before,omitempty"` // as JSON; nil: there is none
	After  *string `json:"after,omitempty"`
}

// Replaced is how many containers would be outdated for one reason.
type Replaced struct {
	Reason   string `json:"reason"`
	Idle     int    `json:"idle"`     // destroyed once enough new ones are ready
	Claimed  int    `json:"claimed"`  // destroyed when they are released
	Creating int    `json:"creating"` // canceled unless their creation ends soon
}

// Pool is the pool of a workload.
type Pool struct {
	Workload   string                 `json:"workload"`
	Revision   string                 `json:"revision"`
	MinIdle    int                    `json:"min_idle"`
	MaxSize    int                    `json:"max_size"`
	Containers map[ContainerState]int `json:"containers"`      // how many are in each state
	Kept       int                    `json:"kept"`            // claimed ones whose release has failed; not counted against MaxSize
	Outdated   int                    `json:"outdated"`        // of an older revision or protocol version
	Newer      int                    `json:"newer,omitempty"` // created by a newer server, which this one leaves alone
	Waiting    int                    `json:"waiting"`         // claims that wait for a container on this server
	Fill       Fill                   `json:"fill"`
	Deleting   bool                   `json:"deleting,omitempty"`
}

// FillState is what a server does to fill a pool.
type FillState string

// The states of filling.
const (
	FillIdle       FillState = "idle"        // there are enough containers
	FillFilling    FillState = "filling"     // containers are being created
	FillBackingOff FillState = "backing_off" // the last one failed; the next is tried at NextTry
	FillFailing    FillState = "failing"     // many failed in a row
	FillDraining   FillState = "draining"    // none is created
)

// Fill is how filling a pool goes.
type Fill struct {
	State     FillState  `json:"state"`
	Failures  int        `json:"failures"` // in a row
	NextTry   *time.Time `json:"next_try,omitempty"`
	LastError string     `json:"last_error,omitempty"` // kept until a container was created
	// LastErrorChain is what was being done when it occurred, outermost first.
	LastErrorChain []string   `json:"last_error_chain,omitempty"`
	LastContainer  string     `json:"last_container,omitempty"` // whose creation that was; see ContainerLogs
	LastErrorAt    *time.Time `json:"last_error_at,omitempty"`
}

// Scale changes the bounds of a pool; nil leaves one as it is.
type Scale struct {
	MinIdle *int `json:"min_idle,omitempty"`
	MaxSize *int `json:"max_size,omitempty"`
}

// ContainerState is where a container is in its life.
type ContainerState string

// The states of a container.
const (
	ContainerCreating   ContainerState = "creating"
	ContainerIdle       ContainerState = "idle"
	ContainerClaimed    ContainerState = "claimed"
	ContainerDestroying ContainerState = "destroying"
	ContainerDestroyed  ContainerState = "destroyed"
)

// Health is the health of a container; empty when it was not checked.
type Health string

// The kinds of health.
const (
	Healthy   Health = "healthy"
	Unhealthy Health = "unhealthy" // its health check fails
	Exited    Health = "exited"    // its main process has ended
)

// Endpoint is where a container listens.
type Endpoint struct {
	Host  string `json:"host"`  // an address; empty when the container has no network
	Ports []int  `json:"ports"` // in the order of the workload file
}

// Container is one container.
type Container struct {
	ID       string         `json:"id"`
	Workload string         `json:"workload"`
	Revision string         `json:"revision"`
	State    ContainerState `json:"state"`
	Health   Health         `json:"health,omitempty"`
	Tenant   string         `json:"tenant,omitempty"`   // whose data may be in it
	Claim    string         `json:"claim,omitempty"`    // the live claim that holds it
	Snapshot string         `json:"snapshot,omitempty"` // of the tenant's state that its files correspond to
	Endpoint Endpoint       `json:"endpoint"`
	Node     string         `json:"node,omitempty"`   // the machine that it runs on
	Reason   string         `json:"reason,omitempty"` // why it is being destroyed, was destroyed or is not healthy
	// ReasonChain is what was being done when that went wrong, outermost first.
	ReasonChain []string `json:"reason_chain,omitempty"`
	Output      string   `json:"output,omitempty"` // kept: ContainerLogs has it when the container is gone; wanted: it will be read
	Forced      string   `json:"forced,omitempty"` // how an operator has forced its destruction: after_hooks, now or done
	Protocol    int      `json:"protocol"`         // the version that its shim speaks
	// CreatedAt and ChangedAt are when it and its state began, WipedAt when it
	// was last wiped for a claim.
	CreatedAt time.Time  `json:"created_at"`
	ChangedAt time.Time  `json:"changed_at"`
	WipedAt   *time.Time `json:"wiped_at,omitempty"`
}

// ContainerFilter selects containers; empty fields match all.
type ContainerFilter struct {
	Workload string
	Tenant   string
	States   []ContainerState // empty: all but ContainerDestroyed
	After    string           // ids after this one
	IDPart   string           // ids that begin or end with it; of all states only if States has them
	Newest   bool             // the newest first; After: ids before this one
	Limit    int              // 0: no limit
}

// ClaimState is where a claim is in its life.
type ClaimState string

// The states of a claim. The first four are live: a tenant has at most one live
// claim on a workload.
const (
	ClaimPending       ClaimState = "pending"
	ClaimActive        ClaimState = "active"
	ClaimReleasing     ClaimState = "releasing"
	ClaimReleaseFailed ClaimState = "release_failed"
	ClaimReleased      ClaimState = "released"
	ClaimFailed        ClaimState = "failed"
)

// Source is what a claim's container was before.
type Source string

// The sources of containers.
const (
	SourceFresh    Source = "fresh"    // never claimed
	SourceAffinity Source = "affinity" // this tenant's last one, as it was left
	SourceRecycled Source = "recycled" // another tenant's, wiped
)

// FailureReason is what a release failed for.
type FailureReason string

// What a release can fail for.
const (
	FailedByTenant  FailureReason = "tenant"  // what is in the container cannot be read or kept
	FailedBySink    FailureReason = "sink"    // the storage, or the way there
	FailedStale     FailureReason = "stale"   // a later claim of the tenant has kept its state
	FailedByVersion FailureReason = "version" // only an older server can read the container
)

// Claim is a tenant's hold on a container.
type Claim struct {
	ID        string             `json:"id"`
	Workload  string             `json:"workload"`
	Tenant    string             `json:"tenant"`
	Actor     string             `json:"actor,omitempty"`     // who claimed
	Container string             `json:"container,omitempty"` // empty while it waits for one
	Revision  string             `json:"revision,omitempty"`
	State     ClaimState         `json:"state"`
	Source    Source             `json:"source,omitempty"`
	Endpoint  Endpoint           `json:"endpoint"`
	Health    string             `json:"health,omitempty"` // the container's
	Hooks     []HookSummary      `json:"hooks"`            // every attempt, in order
	Timings   map[string]float64 `json:"timings"`          // milliseconds by step
	Warnings  []string           `json:"warnings"`
	Reason    string             `json:"reason,omitempty"` // why it failed, was released or could not be released
	// ReasonChain is what was being done when that went wrong, outermost first.
	ReasonChain []string   `json:"reason_chain,omitempty"`
	Snapshot    string     `json:"snapshot,omitempty"`  // of its tenant's state: put in, or taken last
	SyncedAt    *time.Time `json:"synced_at,omitempty"` // when the state was last taken
	// Failures is how often its release has failed in a row for FailureReason,
	// since FailedAt. RetryAt is when it is tried again; nil when it is not.
	Failures      int           `json:"failures,omitempty"`
	FailureReason FailureReason `json:"failure_reason,omitempty"`
	FailedAt      *time.Time    `json:"failed_at,omitempty"`
	RetryAt       *time.Time    `json:"retry_at,omitempty"`
	Waits         int           `json:"waits,omitempty"`   // that are open
	Discard       bool          `json:"discard,omitempty"` // nothing of what the tenant left is kept
	CreatedAt     time.Time     `json:"created_at"`
	ActiveAt      *time.Time    `json:"active_at,omitempty"`
	TouchedAt     *time.Time    `json:"touched_at,omitempty"`
	Activity      string        `json:"activity,omitempty"`      // what the tenant's program reported to do
	ActivityTool  string        `json:"activity_tool,omitempty"` // the tool that it reported to use: untrusted
	ActivityAt    *time.Time    `json:"activity_at,omitempty"`   // when that last changed
	// IdleExpiresAt is when it is released unless it is touched or its tenant
	// changes files, for pools with a claim_idle_ttl.
	IdleExpiresAt *time.Time `json:"idle_expires_at,omitempty"`
	// ExpiresAt is when its lifetime ends, nil if it has none. Parameters has ••• for a
	// secret one.
	ExpiresAt  *time.Time        `json:"expires_at,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
	Parameters map[string]string `json:"parameters,omitempty"`
	ReleasedAt *time.Time        `json:"released_at,omitempty"` // when it ended, released or failed
}

// ClaimFilter selects claims; empty fields match all.
type ClaimFilter struct {
	Workload  string
	Tenant    string
	Container string
	States    []ClaimState      // empty: the live ones
	Labels    map[string]string // all of them
	After     string            // ids after this one
	IDPart    string            // ids that begin or end with it; of all states only if States has them
	Newest    bool              // the newest first; After: ids before this one
	Limit     int               // 0: no limit
}

// Synced is the answer to Sync.
type Synced struct {
	Claim    Claim    `json:"claim"`
	Transfer Transfer `json:"transfer"`
}

// Transfer is what taking a snapshot moved.
type Transfer struct {
	Snapshot   string  `json:"snapshot"`       // the current one
	Unchanged  bool    `json:"unchanged"`      // the current snapshot had everything already
	Files      int     `json:"files"`          // files, directories and links of the state
	Bytes      int64   `json:"bytes"`          // their size
	MovedFiles int     `json:"moved_files"`    // files that were read; the others had not changed
	MovedBytes int64   `json:"moved_bytes"`    // their size
	Sent       int64   `json:"uploaded_bytes"` // bytes that went to the sink
	Duration   float64 `json:"duration_ms"`
}

// Snapshot is a snapshot of a tenant's state.
type Snapshot struct {
	ID           string    `json:"id"`
	Current      bool      `json:"current"` // the tenant's next claim begins with it
	Time         time.Time `json:"time"`
	Reason       string    `json:"reason,omitempty"`        // why it was taken: release, interval, request, restored or import
	RestoredFrom string    `json:"restored_from,omitempty"` // the older snapshot that it is a copy of
	Revision     string    `json:"revision,omitempty"`      // of the workload
	Claim        string    `json:"claim,omitempty"`         // whose container it was taken from
	Files        int       `json:"files"`
	Bytes        int64     `json:"bytes"`
	Stored       int64     `json:"stored_bytes"` // what it needs in the sink, with what it shares with others
	New          int64     `json:"new_bytes"`    // what its upload has stored
}

// Report is what the server's doctor found.
type Report struct {
	OK       bool      `json:"ok"`
	Findings []Finding `json:"findings"` // errors first
	Engine   Engine    `json:"engine"`
	Database Database  `json:"database"`
	Disk     Disk      `json:"disk"`
}

// Severity is how bad a finding is.
type Severity string

// The severities.
const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
)

// Finding is one thing that is wrong, with what to do about it.
type Finding struct {
	Severity  Severity `json:"severity"`
	Check     string   `json:"check"`
	Workload  string   `json:"workload,omitempty"`
	Container string   `json:"container,omitempty"`
	Claim     string   `json:"claim,omitempty"`
	Tenant    string   `json:"tenant,omitempty"`
	Run       string   `json:"run,omitempty"`
	Message   string   `json:"message"`
	Hint      string   `json:"hint"`
}

// Engine is the container engine as the doctor found it.
type Engine struct {
	Reachable  bool    `json:"answers"`
	Containers int     `json:"containers"` // of this installation, in any state
	Duration   float64 `json:"duration_ms"`
}

// Database is the server's database.
type Database struct {
	Kind    string `json:"kind"`
	Version string `json:"version"`
	Schema  int64  `json:"schema"`
	Bytes   int64  `json:"bytes"`
}

// Disk is the disk with the server's data.
type Disk struct {
	Path  string `json:"path"`
	Total uint64 `json:"total_bytes"`
	Free  uint64 `json:"free_bytes"`
}

// ServerHealth is the answer of a server that is ready.
type ServerHealth struct {
	Status  string `json:"status"`
	Version string `json:"version"`
}
