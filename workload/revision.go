package workload

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/variables"
)

// revisionLen is the length of a revision in hexadecimal digits. It
// distinguishes the revisions of one workload, of which there are few.
const revisionLen = 12

// revision returns a hash of the canonical form of w. It does not depend on
// comments, order and notation in the file.
func revision(w *Workload) string {
	text, err := json.Marshal(canonical(w))
	if err != nil {
		panic(fmt.Sprintf("workload: a canonical form is not JSON: %v", err)) // it has only text, numbers, maps and lists
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:revisionLen]
}

// FileID returns what identifies the content of a workload file.
func FileID(source []byte) string {
	sum := sha256.Sum256(source)
	return hex.EncodeToString(sum[:])[:2*revisionLen]
}

// form is a canonical form. It encodes to JSON with sorted keys. It omits values
// that are not set, so that a key that a later version adds does not change the
// revision.
type form map[string]any

// canonical returns everything that defines a container of the workload, under
// the names in the workload file. The hash of these names and values is recorded
// as the revision of containers: a change of one replaces every idle container
// at the next start of a server. The name and the pool are not part of it, and
// neither are hooks that do not run in the container.
func canonical(w *Workload) form {
	f := form{
		"id": w.ID, "image": w.Image, "command": w.Command, "environment": w.Environment, "user": w.User,
		"read_only": w.ReadOnly, "ports": w.Ports, "networks": w.Networks, "dns": w.DNS,
		"cpus": w.Limits.CPUs, "memory": w.Limits.Memory, "pids": w.Limits.PIDs,
		"restart": w.Restart, "stop_signal": w.StopSignal, "image_hooks": w.ImageHooks,
		"runtime": w.Isolation.Runtime, "security_opt": w.Isolation.SecurityOpt,
		"userns_mode": w.Isolation.UsernsMode, "network_mode": w.Isolation.NetworkMode,
	}
	if w.StopGrace != nil {
		f["stop_grace_period"] = w.StopGrace.String() // 0s is not the same as not set
	}
	if h := w.Healthcheck; h != nil {
		f["healthcheck"] = form{
			"test": h.Command, "interval": h.Interval, "timeout": h.Timeout, "start_period": h.StartPeriod, "retries": h.Retries,
		}.clean()
	}
	var volumes []form
	for _, v := range w.Volumes {
		volumes = append(volumes, form{"name": v.Name, "target": v.Target, "read_only": v.ReadOnly, "seed": v.Seed}.clean())
	}
	f["volumes"] = volumes
	if w.Sync != nil {
		f["sync"] = canonicalSync(w.Sync)
	}
	points := form{}
	for point, list := range w.Hooks {
		points[string(point)] = canonicalHooks(point, list)
	}
	f["hooks"] = points.clean()
	return f.clean()
}

func canonicalSync(s *Sync) form {
	var mappings []form
	for _, m := range s.Mappings {
		mappings = append(mappings, form{
			"path": m.Path, "volume": m.Volume, "pattern": m.Pattern, "sink_path": m.SinkPath, "direction": m.Direction, "mode": m.Mode,
		}.clean())
	}
	return form{
		"sink": form{
			"type": s.Sink.Type, "path": s.Sink.Path, "bucket": s.Sink.Bucket, "account": s.Sink.Account, "region": s.Sink.Region,
			"endpoint": s.Sink.Endpoint, "prefix": s.Sink.Prefix,
			"credentials_file": s.Sink.Credentials.File, "credentials_env": s.Sink.Credentials.Env,
		}.clean(),
		"mappings": mappings,
		"policy": form{
			"on_claim": s.Policy.OnClaim, "on_release": s.Policy.OnRelease, "interval": s.Policy.Interval, "manual": s.Policy.Manual,
		}.clean(),
		"keep": s.Keep, "max_size": s.MaxSize, "max_files": s.MaxFiles,
	}.clean()
}

// canonicalHooks returns the hooks of a point that run in the container. One
// without a name is named by its place among them: those of the server change no
// revision.
func canonicalHooks(p hooks.Point, list []hooks.Hook) []form {
	var all []form
	for _, h := range list {
		if isDefaultName(h.Name) {
			h.Name = defaultName(p, len(all))
		}
		f := form{
			"name": h.Name, "timeout": h.Timeout, "on_error": h.OnError, "retries": h.Retries, "idempotent": h.Idempotent,
			"condition": h.Condition.String(), "disabled": h.Disabled, "stop_on": h.StopOn,
		}
		if h.OnExhausted != hooks.Fail {
			f["on_exhausted"] = h.OnExhausted
		}
		switch a := h.Action.(type) {
		case hooks.Command:
			f["command"] = a.Args
			addProcess(f, a.Process)
		case hooks.Script:
			f["script"], f["shell"] = a.Text, a.Shell
			addProcess(f, a.Process)
		default:
			continue // it runs on the server
		}
		all = append(all, f.clean())
	}
	return all
}

// addProcess adds how a command or a script runs.
func addProcess(f form, p hooks.Process) {
	f["user"], f["workdir"], f["environment"] = p.User, p.Workdir, texts(p.Environment)
	f["limits"] = form{
		"cpu_time": p.Limits.CPUTime, "memory": p.Limits.Memory, "file_size": p.Limits.FileSize, "output": p.Limits.Output,
	}.clean()
	if p.Grace != nil {
		f["grace"] = p.Grace.String() // 0s is not the same as not set
	}
}

// texts returns the sources of templates.
func texts(all map[string]variables.Template) map[string]string {
	out := make(map[string]string, len(all))
	for name, t := range all {
		out[name] = t.String()
	}
	return out
}

// clean removes what is not set and writes durations as in the file.
func (f form) clean() form {
	for key, value := range f {
		if isUnset(value) {
			delete(f, key)
		} else if d, ok := value.(time.Duration); ok {
			f[key] = d.String()
		}
	}
	return f
}

// isUnset reports whether a value means the same as its absence.
func isUnset(value any) bool {
	v := reflect.ValueOf(value)
	if k := v.Kind(); k == reflect.Map || k == reflect.Slice {
		return v.Len() == 0
	}
	return v.IsZero()
}
