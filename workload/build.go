package workload

import (
	"path"
	"strings"
	"time"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/runtime"
)

// minSyncInterval is the min interval of uploads during a claim.
const minSyncInterval = time.Second

// workload returns the Workload of a valid file.
func (f *file) workload() *Workload {
	w := &Workload{
		ID: f.ID, Name: f.Name, Image: f.Image,
		Command: f.Command, Environment: f.Environment,
		User: string(f.User), ReadOnly: f.ReadOnly,
		Ports: f.Ports, Networks: f.Networks, DNS: f.DNS,
		Healthcheck: f.Healthcheck.healthcheck(),
		Limits: runtime.Limits{
			CPUs:   float64(f.Deploy.Resources.Limits.CPUs),
			Memory: int64(f.Deploy.Resources.Limits.Memory),
			PIDs:   int64(f.Deploy.Resources.Limits.PIDs),
		},
		Pool: Pool{
			MinIdle: f.Pool.MinIdle, MaxSize: f.Pool.MaxSize,
			IdleTimeout:      time.Duration(f.Pool.IdleTimeout),
			ClaimIdleTTL:     time.Duration(f.Pool.ClaimIdleTTL),
			ReleaseFailedTTL: time.Duration(f.Pool.ReleaseFailedTTL),
			Reuse:            Reuse(f.Pool.Reuse),
		},
		Restart:    Restart(f.Restart),
		StopSignal: f.StopSignal,
		StopGrace:  (*time.Duration)(f.StopGrace),
		Isolation: runtime.Isolation{
			Runtime: f.Runtime, SecurityOpt: f.SecurityOpt, UsernsMode: f.UsernsMode, NetworkMode: f.NetworkMode,
		},
		Sync:    f.sync(),
		Hooks:   map[hooks.Point][]hooks.Hook{},
		Secrets: f.Secrets.secrets(), Parameters: f.Parameters.parameters(),
		Workspace: f.Workspace, HooksFrom: f.HooksFrom, cleared: f.Hooks.cleared, ImageHooks: f.ImageHooks,
		SharedMemory: f.Memory.Shared,
	}
	if w.Name == "" {
		w.Name = w.ID
	}
	for _, v := range f.volumes() {
		w.Volumes = append(w.Volumes, v.Volume)
	}
	f.addHooks(w)
	w.bound(w.Hooks[hooks.PreDestroy])
	return w
}

// bound limits the timeouts of pre_destroy hooks to the grace period, if the file
// sets one. If the grace period is 0, only the main process is killed immediately;
// the hooks keep their timeouts.
func (w *Workload) bound(list []hooks.Hook) {
	if w.StopGrace == nil || *w.StopGrace <= 0 {
		return
	}
	for i := range list {
		list[i].Timeout = min(list[i].Timeout, *w.StopGrace)
	}
}

func (h *healthcheckFile) healthcheck() *Healthcheck {
	if h == nil || len(h.Test.command) == 0 {
		return nil
	}
	return &Healthcheck{
		Command:     h.Test.command,
		Interval:    time.Duration(h.Interval),
		Timeout:     time.Duration(h.Timeout),
		StartPeriod: time.Duration(h.StartPeriod),
		Retries:     h.Retries,
	}
}

// placedVolume is a volume and its path in the file.
type placedVolume struct {
	Volume
	at string
}

// volumes returns the volumes of all kinds in the order of the format.
func (f *file) volumes() []placedVolume {
	var list []placedVolume
	add := func(at, name, target string, readOnly bool, seed string) {
		if seed != "" {
			seed = path.Clean(seed)
		}
		list = append(list, placedVolume{Volume{Name: name, Target: target, ReadOnly: readOnly, Seed: seed}, at})
	}
	if v := f.Volumes.State; v != nil {
		add("volumes.state", "state", v.Target, v.ReadOnly, v.Seed)
	}
	if v := f.Volumes.Secrets; v != nil {
		add("volumes.secrets", "secrets", v.Target, v.ReadOnly, v.Seed)
	}
	if v := f.Volumes.Comm; v != nil {
		add("volumes.comm", "comm", v.Target, v.ReadOnly, v.Seed)
	}
	for i, v := range f.Volumes.Custom {
		add(elementOf("volumes.custom", i), v.Name, v.Target, v.ReadOnly, v.Seed)
	}
	return list
}

func (f *file) sync() *Sync {
	if f.Sync == nil {
		return nil
	}
	policy := f.Sync.Policy
	s := &Sync{
		Sink: f.Sync.Sink.sink(),
		Policy: SyncPolicy{
			OnClaim: policy.OnClaim, OnRelease: policy.OnRelease,
			Interval: time.Duration(policy.Interval), Manual: policy.Manual,
		},
		Keep: f.Sync.Keep, MaxSize: int64(f.Sync.MaxSize), MaxFiles: f.Sync.MaxFiles,
	}
	mappings := f.Sync.Mappings
	if len(mappings) == 0 {
		mappings = []mappingFile{{Path: "/", Pattern: "**", Direction: "bidirectional", Mode: "sync"}}
	}
	for _, m := range mappings {
		s.Mappings = append(s.Mappings, Mapping{
			Path: f.mappingPath(m.Path), Volume: f.volumeOf(f.mappingPath(m.Path)),
			Pattern: m.Pattern, SinkPath: f.sinkPath(m),
			Direction: Direction(m.Direction), Mode: Mode(m.Mode),
		})
	}
	return s
}

// mappingPath returns the absolute path of a mapping. Relative paths, and /, are
// below the state volume.
func (f *file) mappingPath(p string) string {
	if strings.HasPrefix(p, "/") && p != "/" || f.Volumes.State == nil {
		return path.Clean(p)
	}
	return path.Join(f.Volumes.State.Target, p)
}

// volumeOf returns the target of the volume that contains a path, "" for none.
func (f *file) volumeOf(p string) string {
	for _, v := range f.volumes() {
		if isUnder(p, v.Target) {
			return v.Target
		}
	}
	return ""
}

// sinkPath returns the path of a mapping below the prefix: relative, without a
// trailing slash, "" for the prefix itself.
func (f *file) sinkPath(m mappingFile) string {
	if m.SinkPath != "" {
		return strings.TrimSuffix(m.SinkPath, "/")
	}
	p := f.mappingPath(m.Path)
	if s := f.Volumes.State; s != nil && isUnder(p, s.Target) {
		p = strings.TrimPrefix(p, s.Target)
	}
	return strings.TrimPrefix(p, "/")
}
