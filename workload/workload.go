// Package workload implements the YAML file that describes a workload: its
// types, its parser, its validation, and its JSON Schema.
//
// It promises that a Workload that Parse returns is valid and complete: every
// default is set, every duration and size is a number, every hook has a name.
// Parse returns all errors of a file, each with its line, its field and a hint.
// Nothing outside this package reads YAML.
package workload

import (
	"slices"
	"time"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/runtime"
)

// Workload is a parsed workload file. It does not change after Parse and may be
// shared.
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
	Healthcheck *Healthcheck // nil: a running container is healthy
	Limits      runtime.Limits
	Volumes     []Volume
	Pool        Pool
	Restart     Restart
	StopSignal  string         // empty: the image's own, else SIGTERM
	StopGrace   *time.Duration // nil: DefaultStopGrace
	Isolation   runtime.Isolation
	Sync        *Sync // nil: no state is kept
	Hooks       map[hooks.Point][]hooks.Hook
	EventHooks  []hooks.EventHook           // ordered by name
	Gates       map[hooks.Gate][]hooks.Hook // not part of the revision
	Secrets     map[string]hooks.Secret     // that requests may name
	Parameters  map[string]Parameter        // of claims, not part of the revision
	Workspace   string                      // as in the file; ScriptDir has the default

	// HooksFrom is the workload whose hooks are copied when the file is applied:
	// WithHooksOf returns the workload without it. cleared has the points, gates and
	// names of events of which none are copied.
	HooksFrom string
	cleared   []string
	// ImageHooks reports whether executables of the image run at points before the
	// hooks of the file.
	ImageHooks bool

	// SharedMemory reports whether tenants share the memory of level workload.
	SharedMemory bool

	// Notes are remarks about the file, ordered by line.
	Notes []Note
	// Advice is what is valid and probably not what the author wants, ordered by line.
	Advice []Note
	// Revision identifies everything in the file that defines a container: all
	// but name and pool. Containers of another revision are replaced.
	Revision string
	// Source is the content of the file; of a Markdown file, its front matter. File
	// identifies it.
	Source []byte
	File   string
}

// Healthcheck is a command that exits with 0 when the workload is ready.
type Healthcheck struct {
	Command     []string // argv; CMD-SHELL is resolved to /bin/sh -c
	Interval    time.Duration
	Timeout     time.Duration
	StartPeriod time.Duration
	Retries     int
}

// How long a main process may take to exit when its container is destroyed.
const (
	DefaultStopGrace = 10 * time.Second
	MaxStopGrace     = 10 * time.Minute
)

// Volume is a directory of the container that may be seeded.
type Volume struct {
	Name     string // "state", "secrets", "comm", or the custom volume's own
	Target   string
	ReadOnly bool
	Seed     string // a directory, relative to the file; empty for none
}

// Pool has the number of containers of a pool and how they are reused.
type Pool struct {
	MinIdle      int
	MaxSize      int
	IdleTimeout  time.Duration // 0: never
	ClaimIdleTTL time.Duration // 0: never
	// ReleaseFailedTTL is how long a container is kept whose state cannot be
	// uploaded because of its tenant; 0: indefinitely.
	ReleaseFailedTTL time.Duration
	Reuse            Reuse
}

// Reuse is the policy for which tenants may get a released container.
type Reuse string

// The policies of reuse.
const (
	ReuseNever      Reuse = "never"       // none: it is destroyed
	ReuseSameTenant Reuse = "same_tenant" // the same tenant, unchanged; the default
	ReuseWipe       Reuse = "wipe"        // the same tenant unchanged, others after a wipe
)

// Restart is the policy for when a claim restarts the main process.
type Restart string

// The policies of restart.
const (
	RestartOnChange Restart = "on_change" // if files were written or wiped
	RestartAlways   Restart = "always"
	RestartNever    Restart = "never" // only if it was ended to replace files
)

// Sync describes how a tenant's state is kept between claims.
type Sync struct {
	Sink     Sink
	Mappings []Mapping
	Policy   SyncPolicy
	Keep     int   // snapshots of a tenant, including the current one
	MaxSize  int64 // bytes of a tenant's state, unpacked
	MaxFiles int   // entries of a tenant's state
}

// Sink is the storage for tenants' state. It has no secret, only its location.
type Sink struct {
	Type        SinkType
	Path        string // file; empty for the server's own directory
	Bucket      string // s3 and gcs; the container of azure
	Account     string // azure
	Region      string // s3
	Endpoint    string // empty for the provider's default
	Prefix      string // contains ${tenantId}, ends with a slash
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

// Credentials is the location of a sink's secret. If both fields are empty, the
// provider's default credential chain is used.
type Credentials struct {
	File string // a name in the server's directory of credentials
	Env  string // a variable of the server's environment
}

// TenantPlaceholder is replaced by the tenant in a sink's prefix.
const TenantPlaceholder = "${tenantId}"

// Mapping is a part of the container that is kept.
type Mapping struct {
	Path      string // absolute and clean
	Volume    string // the target of the volume that contains Path; empty for none
	Pattern   string // a glob below Path; ** matches any directories
	SinkPath  string // below the sink's prefix; empty for the prefix itself
	Direction Direction
	Mode      Mode
}

// Direction is the direction in which a mapping's files are transferred.
type Direction string

// The directions.
const (
	Bidirectional Direction = "bidirectional"
	Upload        Direction = "upload"   // uploaded, but not downloaded at claims
	Download      Direction = "download" // files of another source, downloaded at claims
)

// Mode is how a snapshot handles files that were deleted.
type Mode string

// The modes.
const (
	ModeSync Mode = "sync" // they are also deleted from the snapshot
	ModeCopy Mode = "copy" // they are kept: a snapshot only adds and replaces
)

// SyncPolicy is when state is transferred.
type SyncPolicy struct {
	OnClaim   bool
	OnRelease bool
	Interval  time.Duration // 0: not while claimed
	Manual    bool
}

// StateDirs returns the directories of a tenant's state: the state volume, and
// those that sync uploads.
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

// ScriptDir returns the directory that scripts of hooks start in. Empty stands
// for the container's working directory.
func (w *Workload) ScriptDir() string {
	i := slices.IndexFunc(w.Volumes, func(v Volume) bool { return v.Name == "state" })
	if w.Workspace == "" && i >= 0 {
		return w.Volumes[i].Target
	}
	return w.Workspace
}

// StopGracePeriod returns how long the main process may take to exit.
func (w *Workload) StopGracePeriod() time.Duration {
	if w.StopGrace == nil {
		return DefaultStopGrace
	}
	return *w.StopGrace
}

// Spec returns the runtime.Spec of a container of w with the given id.
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
		Isolation: w.Isolation, CommandLimits: w.commandLimits(), KeepsState: w.Sync != nil && w.Sync.Policy.OnRelease,
	}
}
