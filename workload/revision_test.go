package workload

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/variables"
	"github.com/hostler/hostler/runtime"
)

// complete is a workload with all fields set.
func complete() *Workload {
	grace := 3 * time.Second
	return &Workload{
		ID: "w", Name: "a name", Image: "image:1", Command: []string{"run", ""}, Environment: map[string]string{"A": "", "B": "2"},
		User: "1000:1000", ReadOnly: true, Ports: []int{80, 443}, Networks: []string{"front"}, DNS: []string{"10.0.0.1"},
		Healthcheck: &Healthcheck{Command: []string{"check"}, Interval: time.Second, Timeout: 2 * time.Second, StartPeriod: time.Minute, Retries: 4},
		Limits:      runtime.Limits{CPUs: 0.5, Memory: 1 << 20, PIDs: 100},
		Volumes:     []Volume{{Name: "state", Target: "/data", ReadOnly: true, Seed: "seed"}},
		Pool:        Pool{MinIdle: 1, MaxSize: 2, Reuse: ReuseWipe},
		Restart:     RestartAlways, StopSignal: "SIGINT", StopGrace: &grace,
		Isolation: runtime.Isolation{Runtime: "runsc", SecurityOpt: []string{"seccomp=x"}, UsernsMode: "private", NetworkMode: "none"},
		Sync: &Sync{
			Sink: Sink{
				Type: SinkS3, Path: "/p", Bucket: "b", Account: "a", Region: "r", Endpoint: "https://e", Prefix: "x/${tenantId}/",
				Credentials: Credentials{File: "f", Env: "E"},
			},
			Mappings: []Mapping{{
				Path: "/data", Volume: "/data", Pattern: "**", SinkPath: "s", Direction: Upload, Mode: ModeCopy,
			}},
			Policy: SyncPolicy{OnClaim: true, OnRelease: true, Interval: time.Minute, Manual: true},
			Keep:   3, MaxSize: 1 << 30, MaxFiles: 1000,
		},
		Hooks: map[hooks.Point][]hooks.Hook{hooks.PostClaim: {{
			Name: "h", Timeout: time.Second, OnError: hooks.Retry, Retries: 2, Idempotent: true,
			Action: hooks.Command{Args: []string{"echo"}, Process: hooks.Process{User: "root", Workdir: "/", Environment: map[string]variables.Template{"C": variables.Literal("3")}}},
		}}},
		Revision: "set by Parse", Source: []byte("the file"), File: "set by Parse",
	}
}

// The revisions of containers are recorded: a change of the program that changes
// them replaces every idle container of every workload. If this test fails,
// restore the canonical form; do not change the values here.
func TestRevisionGolden(t *testing.T) {
	text, err := json.Marshal(canonical(complete()))
	require.NoError(t, err)
	require.JSONEq(t, `{
		"id": "w", "image": "image:1", "command": ["run", ""], "environment": {"A": "", "B": "2"}, "user": "1000:1000",
		"read_only": true, "ports": [80, 443], "networks": ["front"], "dns": ["10.0.0.1"],
		"cpus": 0.5, "memory": 1048576, "pids": 100, "restart": "always", "stop_signal": "SIGINT", "stop_grace_period": "3s",
		"runtime": "runsc", "security_opt": ["seccomp=x"], "userns_mode": "private", "network_mode": "none",
		"healthcheck": {"test": ["check"], "interval": "1s", "timeout": "2s", "start_period": "1m0s", "retries": 4},
		"volumes": [{"name": "state", "target": "/data", "read_only": true, "seed": "seed"}],
		"sync": {
			"sink": {"type": "s3", "path": "/p", "bucket": "b", "account": "a", "region": "r", "endpoint": "https://e",
				"prefix": "x/${tenantId}/", "credentials_file": "f", "credentials_env": "E"},
			"mappings": [{"path": "/data", "volume": "/data", "pattern": "**", "sink_path": "s", "direction": "upload", "mode": "copy"}],
			"policy": {"on_claim": true, "on_release": true, "interval": "1m0s", "manual": true},
			"keep": 3, "max_size": 1073741824, "max_files": 1000
		},
		"hooks": {"post_claim": [{"name": "h", "timeout": "1s", "on_error": "retry", "retries": 2, "idempotent": true,
			"command": ["echo"], "user": "root", "workdir": "/", "environment": {"C": "3"}}]}
	}`, string(text))
	require.Equal(t, "08aa6ed97de9", revision(complete()))
}

// Every field of a workload is part of the revision, except those in this list. A
// new field must be in the revision or in the list.
func TestRevisionHasEveryField(t *testing.T) {
	without := map[string]bool{
		"Name": true, "Pool": true, "Revision": true, "Source": true, "File": true, "Advice": true, "Notes": true,
		"EventHooks": true, "Gates": true, "Secrets": true, "Parameters": true, // of the server
		"Workspace": true,                  // it is in the scripts
		"HooksFrom": true, "cleared": true, // the hooks that are copied are
		"ImageHooks":   true, // TestRevisionOfImageHooks
		"SharedMemory": true, // TestMemoryIsNotPartOfRevision
	}
	base := revision(complete())
	var visit func(path string, of func(*Workload) reflect.Value)
	visit = func(path string, of func(*Workload) reflect.Value) {
		v := of(complete())
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				name := v.Type().Field(i).Name
				if path == "" && without[name] {
					continue
				}
				visit(path+"."+name, func(w *Workload) reflect.Value { return of(w).Field(i) })
			}
		case reflect.Pointer:
			visit(path, func(w *Workload) reflect.Value { return of(w).Elem() })
		case reflect.Slice:
			if v.Type().Elem().Kind() == reflect.Struct {
				visit(path, func(w *Workload) reflect.Value { return of(w).Index(0) })
				return
			}
			fallthrough
		default:
			w := complete()
			of(w).SetZero()
			require.NotEqual(t, base, revision(w), "without %s", path)
		}
	}
	visit("", func(w *Workload) reflect.Value { return reflect.ValueOf(w).Elem() })
	checkHookFields(t)
}

// checkHookFields checks that each field of a hook, of its action and of how a
// process runs is part of the revision.
func checkHookFields(t *testing.T) {
	condition, err := variables.ParseCondition("CLAIM_SOURCE == fresh")
	require.NoError(t, err)
	grace := time.Second
	process := hooks.Process{
		User: "root", Workdir: "/", Environment: map[string]variables.Template{"C": variables.Literal("3")}, Grace: &grace,
		Limits: hooks.ProcessLimits{CPUTime: time.Second, Memory: 1, FileSize: 2, Output: 3},
	}
	with := func(action hooks.Action) *Workload {
		w := complete()
		w.Hooks[hooks.PostClaim][0] = hooks.Hook{
			Name: "h", Timeout: time.Second, OnError: hooks.Retry, Retries: 2, OnExhausted: hooks.Continue, Idempotent: true,
			Condition: condition, Disabled: true, StopOn: []int{75}, Action: action,
		}
		return w
	}
	command, script := hooks.Command{Args: []string{"echo"}, Process: process}, hooks.Script{Text: "echo", Shell: []string{"sh"}, Process: process}
	checkFields(t, hooks.Hook{}, func(i int) (*Workload, *Workload) {
		w := with(command)
		reflect.ValueOf(&w.Hooks[hooks.PostClaim][0]).Elem().Field(i).SetZero()
		return with(command), w
	})
	checkFields(t, hooks.Command{}, func(i int) (*Workload, *Workload) {
		c := command
		reflect.ValueOf(&c).Elem().Field(i).SetZero()
		return with(command), with(c)
	})
	checkFields(t, hooks.Script{}, func(i int) (*Workload, *Workload) {
		s := script
		reflect.ValueOf(&s).Elem().Field(i).SetZero()
		return with(script), with(s)
	})
	checkFields(t, hooks.Process{}, func(i int) (*Workload, *Workload) {
		s := script
		reflect.ValueOf(&s.Process).Elem().Field(i).SetZero()
		return with(script), with(s)
	})
	checkFields(t, hooks.ProcessLimits{}, func(i int) (*Workload, *Workload) {
		s := script
		reflect.ValueOf(&s.Limits).Elem().Field(i).SetZero()
		return with(script), with(s)
	})
}

// checkFields checks that two workloads of which one lacks field i of a struct
// have different revisions.
func checkFields(t *testing.T, of any, without func(i int) (whole, lacking *Workload)) {
	for i := range reflect.TypeOf(of).NumField() {
		whole, lacking := without(i)
		require.NotEqual(t, revision(whole), revision(lacking), "without field %s of %T", reflect.TypeOf(of).Field(i).Name, of)
	}
}

// Executables of the image that run as hooks are part of the revision.
func TestRevisionOfImageHooks(t *testing.T) {
	w := complete()
	w.ImageHooks = true
	require.NotEqual(t, revision(complete()), revision(w))
}

// Memory does not define a container: sharing it replaces none.
func TestMemoryIsNotPartOfRevision(t *testing.T) {
	plain, err := Parse([]byte("id: w\nimage: i\n"), "w")
	require.NoError(t, err)
	require.False(t, plain.SharedMemory)
	shared, err := Parse([]byte("id: w\nimage: i\nmemory: {shared: true}\n"), "w")
	require.NoError(t, err)
	require.True(t, shared.SharedMemory)
	require.Equal(t, plain.Revision, shared.Revision)
}

// request is an action that does not run in the container.
type request struct{ hooks.Action }

// Hooks that run on the server do not define a container: changing one does not
// replace containers.
func TestRevisionWithoutHooksOfTheServer(t *testing.T) {
	w := complete()
	w.Hooks[hooks.PostClaim] = append(w.Hooks[hooks.PostClaim], hooks.Hook{Name: "call", Action: request{}})
	require.Equal(t, revision(complete()), revision(w))

	const file = "id: w\nimage: i\nhooks:\n  post_claim: [%s{command: [a]}]\n"
	plain, err := Parse(fmt.Appendf(nil, file, ""), "w")
	require.NoError(t, err)
	with, err := Parse(fmt.Appendf(nil, file, "{builtin: log}, "), "w")
	require.NoError(t, err)
	require.Equal(t, "post_claim[1]", with.Hooks[hooks.PostClaim][1].Name)
	require.Equal(t, plain.Revision, with.Revision, "a command without a name has another place")
}
