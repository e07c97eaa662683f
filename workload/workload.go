// Package workload is the one YAML file that a workload's author writes: its
// types, how it is read, what is wrong with it, and its JSON Schema.
//
// It promises that a Workload which Parse returns is valid and complete: every
// default is filled in, every duration and size is a number, every hook has a
// name. Faults are found all at once, each with its line, its field and a
// remedy. Nothing outside this package reads YAML.
package workload

import (
	"slices"
	"time"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/runtime"
)

// Workload is a parsed workload file. It is not changed after Parse: share it.
type Workload struct {
	ID          string
	Name        string
	Image       string
	Command     []string
	Environment map[string]string
	User        string
	ReadOnly    bool
	Ports       []int
	Networks    []string
	DNS         []string
	Healthcheck *Healthcheck // nil: running is healthy
	Limits      runtime.Limits
	Volumes     []Volume
	Pool        Pool
	Restart     Restart
	StopSignal  string         // empty: the image's own, else SIGTERM
	StopGrace   *time.Duration // nil: DefaultStopGrace
	Isolation   runtime.Isolation
	Sync        *Sync // nil: nothing is kept
	Hooks       map[hooks.Point][]hooks.Hook

	// Revision names everything in the file that a container is made of: all
	// but name and pool. Containers of another revision are replaced.
	Revision string
	// Source is the file as it was given.
	Source []byte
}

// Healthcheck is a command that exits with 0 when the workload is ready.
type Healthcheck struct {
	Command     []string // argv; CMD-SHELL is resolved to /bin/sh -c
	Interval    time.Duration
	Timeout     time.Duration
	StartPeriod time.Duration
	Retries     int
}

// How long a main process may take to end when its container is destroyed.
const (
	DefaultStopGrace = 10 * time.Second
	MaxStopGrace     = 10 * time.Minute
)

// Volume is a folder of the container that may be seeded.
type Volume struct {
	Name     string // "state", "secrets", "comm", or the custom volume's own
	Target   string
	ReadOnly bool
	Seed     string // a folder, relative to the file; empty for none
}

// Pool is how many containers wait and what becomes of used ones.
type Pool struct {
	MinIdle      int
	MaxSize      int
	IdleTimeout  time.Duration // 0: never
	ClaimIdleTTL time.Duration // 0: never
	// ReleaseFailedTTL is after how long a container is given up whose state
	// cannot be taken through a fault of its tenant; 0: never.
	ReleaseFailedTTL time.Duration
	Reuse            Reuse
}

// Reuse is who may have a container that a tenant has given back.
type Reuse string

// The policies of reuse.
const (
	ReuseNever      Reuse = "never"       // nobody: it is destroyed
	ReuseSameTenant Reuse = "same_tenant" // the same tenant, as it is; the default
	ReuseWipe       Reuse = "wipe"        // the same tenant as it is, others after a wipe
)

// Restart is when a claim restarts the main process.
type Restart string

// The policies of restart.
const (
	RestartOnChange Restart = "on_change" // when files were put in or wiped
	RestartAlways   Restart = "always"
	RestartNever    Restart = "never" // only where a wipe has ended it
)

// Sync is where a tenant's state is kept between claims.
type Sync struct {
	Sink     Sink
	Mappings []Mapping
	Policy   SyncPolicy
	Keep     int   // snapshots of a tenant, the current one too
	MaxSize  int64 // bytes of a tenant's state, unpacked
	MaxFiles int   // entries of a tenant's state
}

// Sink is a place for tenants' state. It holds no secret, only where one is.
type Sink struct {
	Type        SinkType
	Path        string // file; empty for the server's own folder
	Bucket      string // s3 and gcs; the container of azure
	Account     string // azure
	Region      string // s3
	Endpoint    string // where the provider's own is not meant
	Prefix      string // holds ${tenantId}, ends with a slash
	Credentials Credentials
}

// SinkType is a kind of sink.
type SinkType string

// The kinds of sinks.
const (
	SinkS3    SinkType = "s3"
	SinkGCS   SinkType = "gcs"
	SinkAzure SinkType = "azure"
	SinkFile  SinkType = "file"
)

// Credentials say where a sink's secret is. Without either it is the
// provider's standard chain.
type Credentials struct {
	File string // a name in the server's folder of credentials
	Env  string // a variable of the server's environment
}

// TenantPlaceholder is what stands for the tenant in a sink's prefix.
const TenantPlaceholder = "${tenantId}"

// Mapping is a part of the container that is kept.
type Mapping struct {
	Path      string // absolute and clean
	Volume    string // the target of the volume that Path is in; empty for none
	Pattern   string // a glob below Path; ** stands for any folders
	SinkPath  string // below the sink's prefix; empty for the prefix itself
	Direction Direction
	Mode      Mode
}

// Direction is which way a mapping's files go.
type Direction string

// The directions.
const (
	Bidirectional Direction = "bidirectional"
	Upload        Direction = "upload"   // kept, and not put back at claims
	Download      Direction = "download" // somebody else's files, put in at claims
)

// Mode is what becomes of files that are gone.
type Mode string

// The modes.
const (
	ModeSync Mode = "sync" // they are gone from the snapshot too
	ModeCopy Mode = "copy" // they are kept: a snapshot only adds and replaces
)

// SyncPolicy is when state is moved.
type SyncPolicy struct {
	OnClaim   bool
	OnRelease bool
	Interval  time.Duration // 0: not while claimed
	Manual    bool
}

// StateDirs are where a tenant's state is: the state volume, and what sync
// takes out of the container.
func (w *Workload) StateDirs() []string {
	var dirs []string
	for _, v := range w.Volumes {
		if v.Name == "state" {
			dirs = append(dirs, v.Target)
		}
	}
	if w.Sync != nil {
		for _, m := range w.Sync.Mappings {
			if m.Direction != Download && !slices.Contains(dirs, m.Path) {
				dirs = append(dirs, m.Path)
			}
		}
	}
	return dirs
}

// StopGracePeriod is how long the main process may take to end.
func (w *Workload) StopGracePeriod() time.Duration {
	if w.StopGrace == nil {
		return DefaultStopGrace
	}
	return *w.StopGrace
}

// Spec is what a container of w with the given id is made of.
func (w *Workload) Spec(id string) runtime.Spec {
	volumes := make([]runtime.Volume, 0, len(w.Volumes))
	for _, v := range w.Volumes {
		volumes = append(volumes, runtime.Volume{Name: v.Name, Target: v.Target, ReadOnly: v.ReadOnly})
	}
	return runtime.Spec{
		ID: id, Workload: w.ID, Revision: w.Revision,
		Image: w.Image, Command: w.Command, Environment: w.Environment,
		User: w.User, ReadOnly: w.ReadOnly,
		Ports: w.Ports, Networks: w.Networks, DNS: w.DNS,
		Limits: w.Limits, Volumes: volumes,
		StopSignal: w.StopSignal, StopGracePeriod: w.StopGracePeriod(),
		Isolation: w.Isolation,
	}
}
