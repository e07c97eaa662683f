package workload

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/runtime"
)

// parseAccepted parses a file of testdata that must be valid.
func parseAccepted(t *testing.T, name string) *Workload {
	t.Helper()
	source, err := os.ReadFile(filepath.Join("testdata", "accepted", name))
	require.NoError(t, err)
	w, err := Parse(source, name)
	require.NoError(t, err)
	require.Equal(t, source, w.Source)
	return w
}

func execAction(args ...string) hooks.Command { return hooks.Command{Args: args} }

// Every key of the format is parsed.
func TestParseAllFields(t *testing.T) {
	w := parseAccepted(t, "whole.yaml")
	require.Len(t, w.Revision, revisionLen)
	w.Revision, w.File, w.Source, w.Advice = "", "", nil, nil
	require.Equal(t, &Workload{
		ID: "openclaw", Name: "OpenClaw Agent", Image: "ghcr.io/openclaw/openclaw:latest",
		Command: []string{"node", "server.js"}, Environment: map[string]string{"LOG_LEVEL": "info"},
		User: "1000:1000", ReadOnly: true, Ports: []int{18789}, Networks: []string{"egress"}, DNS: []string{"1.1.1.1"},
		Healthcheck: &Healthcheck{
			Command:  []string{"curl", "-sf", "http://localhost:18789/"},
			Interval: 30 * time.Second, Timeout: 5 * time.Second, StartPeriod: 15 * time.Second, Retries: 3,
		},
		Limits: runtime.Limits{CPUs: 1, Memory: 1 << 30, PIDs: 512},
		Volumes: []Volume{
			{Name: "state", Target: "/home/node/.openclaw", Seed: "seed"},
			{Name: "cache", Target: "/cache"},
		},
		Pool:    Pool{MinIdle: 2, MaxSize: 50, IdleTimeout: 10 * time.Minute, ClaimIdleTTL: 15 * time.Minute, ReleaseFailedTTL: 7 * 24 * time.Hour, Reuse: ReuseWipe},
		Restart: RestartOnChange,
		Sync: &Sync{
			Sink:     Sink{Type: "s3", Bucket: "b", Region: "us-east-1", Endpoint: "http://127.0.0.1:9000", Prefix: "tenants/${tenantId}/"},
			Mappings: []Mapping{{Path: "/home/node/.openclaw", Volume: "/home/node/.openclaw", Pattern: "**", Direction: "bidirectional", Mode: "sync"}},
			Policy:   SyncPolicy{OnClaim: true, OnRelease: true, Interval: 5 * time.Minute, Manual: true},
			Keep:     3, MaxSize: 10 << 30, MaxFiles: 1_000_000,
		},
		Hooks: map[hooks.Point][]hooks.Hook{
			hooks.PostCreate: {{Name: "post_create[0]", Action: execAction("node", "warm.js"), Timeout: 2 * time.Minute, OnError: hooks.Fail}},
			hooks.PostClaim: {
				{Name: "migrate", Action: execAction("node", "dist/index.js", "init", "--skip-existing"), Timeout: 15 * time.Second, OnError: hooks.Fail},
				{Name: "post_claim[1]", Action: execAction("node", "warm-cache.js"), Timeout: hooks.DefaultTimeout, OnError: hooks.Retry, Retries: 3},
			},
			hooks.PreRelease: {{Name: "pre_release[0]", Action: execAction("curl", "-sf", "-X", "POST", "http://localhost:18789/flush"), Timeout: 10 * time.Second, OnError: hooks.Continue}},
			hooks.PreDestroy: {{Name: "pre_destroy[0]", Action: execAction("node", "deregister.js"), Timeout: 10 * time.Second, OnError: hooks.Continue}},
		},
	}, w)
}

// Omitted keys have their documented defaults.
func TestParseDefaults(t *testing.T) {
	w := parseAccepted(t, "minimal.yaml")
	w.Revision, w.File, w.Source, w.Advice = "", "", nil, nil
	require.Equal(t, &Workload{
		ID: "minimal", Name: "minimal", Image: "alpine",
		Limits:  runtime.Limits{CPUs: 1, Memory: 512 << 20, PIDs: 512},
		Pool:    Pool{MinIdle: 1, MaxSize: 10, ReleaseFailedTTL: 7 * 24 * time.Hour, Reuse: ReuseSameTenant},
		Restart: RestartOnChange,
		Hooks:   map[hooks.Point][]hooks.Hook{},
	}, w)
}

// The limits in the tags are those of package hooks.
func TestHookTagsAgreeWithPackageHooks(t *testing.T) {
	at := func(timeout, retries string) error {
		_, err := Parse(fmt.Appendf(nil, "id: a\nimage: b\nhooks: {post_claim: [{command: [x], timeout: %s, on_error: retry, retries: %s}]}", timeout, retries), "")
		return err
	}
	require.NoError(t, at(fmt.Sprint(hooks.MaxTimeout.Milliseconds()), fmt.Sprint(hooks.MaxRetries)))
	require.Error(t, at(fmt.Sprint(hooks.MaxTimeout.Milliseconds()+1), "1"))
	require.Error(t, at("1s", fmt.Sprint(hooks.MaxRetries+1)))
	w, err := Parse([]byte("id: a\nimage: b\nhooks: {post_claim: [{command: [x], on_error: retry}]}"), "")
	require.NoError(t, err)
	require.Equal(t, hooks.DefaultTimeout, w.Hooks[hooks.PostClaim][0].Timeout)
	require.Equal(t, hooks.DefaultRetries, w.Hooks[hooks.PostClaim][0].Retries)
}

// Files of the boilerhouse design can be loaded unchanged.
func TestParseBoilerhouse(t *testing.T) {
	w := parseAccepted(t, "boilerhouse-points.yaml")
	require.Nil(t, w.Healthcheck)
	require.Len(t, w.Hooks, 4)
	require.Len(t, w.Hooks[hooks.PostClaim], 2)
	require.Equal(t, 120*time.Second, w.Hooks[hooks.PostCreate][0].Timeout)

	require.Len(t, parseAccepted(t, "boilerhouse-short.yaml").Hooks[hooks.PostClaim], 2)
	require.Equal(t, 5*time.Minute, parseAccepted(t, "boilerhouse-openclaw.yaml").Pool.ClaimIdleTTL)

	w = parseAccepted(t, "boilerhouse-nanobot.yaml")
	require.True(t, w.Volumes[1].ReadOnly)
	require.Equal(t, []Mapping{
		{Path: "/root/.nanobot/sessions", Volume: "/root/.nanobot", Pattern: "**", SinkPath: "sessions", Direction: "bidirectional", Mode: "sync"},
		{Path: "/root/.nanobot", Volume: "/root/.nanobot", Pattern: "config.json", Direction: "download", Mode: "copy"},
	}, w.Sync.Mappings)
}

// The notations of compose are accepted.
func TestParseComposeForms(t *testing.T) {
	w := parseAccepted(t, "compose.yaml")
	require.Equal(t, map[string]string{"LOG_LEVEL": "info", "EMPTY": "", "WITH": "a=b"}, w.Environment)
	require.Equal(t, "1000", w.User)
	require.Equal(t, []string{"/bin/sh", "-c", "curl -sf http://localhost/ || exit 1"}, w.Healthcheck.Command)
	require.Equal(t, runtime.Limits{CPUs: 0.5, Memory: 512 << 20, PIDs: 512}, w.Limits)
	first, second := w.Hooks[hooks.PostClaim][0], w.Hooks[hooks.PostClaim][1]
	require.Equal(t, 90*time.Second, first.Timeout)
	require.Equal(t, map[string]string{"PORT": "8080", "DEBUG": "true", "RATIO": "1.50", "DAY": "2024-01-01", "HEX": "0x10"}, texts(first.Action.(hooks.Command).Environment))
	require.Equal(t, "second", second.Name)
	require.Equal(t, []string{"env"}, second.Action.(hooks.Command).Args)
	require.Equal(t, "9090", second.Action.(hooks.Command).Environment["PORT"].String())
	require.Equal(t, "true", second.Action.(hooks.Command).Environment["DEBUG"].String())
}

// JSON as encoders write it is a workload file: tabs, \/ and surrogate pairs.
func TestParseJSON(t *testing.T) {
	w := parseAccepted(t, "file-sink.json")
	require.Equal(t, `café 😀 / \ud83d`, w.Name)
	require.Equal(t, Sink{Type: "file", Path: "/srv/state", Prefix: "${tenantId}/"}, w.Sync.Sink)
	require.Equal(t, []Mapping{{Path: "/data", Volume: "/data", Pattern: "**", Direction: "bidirectional", Mode: "sync"}}, w.Sync.Mappings)
	require.Equal(t, 0, w.Pool.MinIdle)
}

// The ways to write a health check.
func TestParseHealthcheckTest(t *testing.T) {
	for written, want := range map[string][]string{
		`[CMD, true]`:           nil, // true is not text
		`[CMD, "true"]`:         {"true"},
		`[CMD-SHELL, "a && b"]`: {"/bin/sh", "-c", "a && b"},
		`"a && b"`:              {"/bin/sh", "-c", "a && b"},
		`[NONE]`:                {},
		`[CMD]`:                 nil,
		`[CMD-SHELL, a, b]`:     nil,
		`[NONE, a]`:             nil,
		`[curl, a]`:             nil,
		`[]`:                    nil,
		`""`:                    nil,
		`5`:                     nil,
	} {
		w, err := Parse([]byte("id: a\nimage: b\nhealthcheck: {test: "+written+"}"), "")
		switch {
		case want == nil:
			require.Error(t, err, written)
		case len(want) == 0:
			require.NoError(t, err, written)
			require.Nil(t, w.Healthcheck, written)
		default:
			require.NoError(t, err, written)
			require.Equal(t, want, w.Healthcheck.Command, written)
		}
	}
}

// All errors are reported at once, each with its position, in the order of the
// file.
func TestParseReportsAllErrors(t *testing.T) {
	source := strings.Join([]string{
		`id: Bad_ID`,         // 1
		`namme: x`,           // 2
		`ports: [80, 0, 80]`, // 3
		`hooks:`,             // 4
		`  postClaim: []`,    // 5
		`  post_claim:`,      // 6
		`    - command: []`,  // 7
		`      timeout: 0`,   // 8
		`    - command: [x]`, // 9
		`      retries: 2`,   // 10
		`pool:`,              // 11
		`  min_idle: 20`,     // 12
	}, "\n")
	_, err := Parse([]byte(source), "w.yaml")
	var invalid ValidationErrors
	require.True(t, errors.As(err, &invalid))
	var got []string
	for _, f := range invalid {
		require.Equal(t, "w.yaml", f.File)
		require.NotEmpty(t, f.Hint, f)
		got = append(got, fmt.Sprintf("%d:%d %s", f.Line, f.Column, f.Field))
	}
	require.Equal(t, []string{
		"1:1 image", "1:5 id", "2:1 namme", "3:13 ports[1]", "3:16 ports[2]",
		"5:3 hooks.postClaim", "7:16 hooks.post_claim[0].command", "8:16 hooks.post_claim[0].timeout",
		"10:16 hooks.post_claim[1].retries", "12:13 pool.min_idle",
	}, got)
	require.Contains(t, err.Error(), "w.yaml:2:1: namme: is an unknown key (did you mean name?)")
	require.Contains(t, err.Error(), "did you mean post_claim?")
}

// A revision changes if and only if the definition of the container changes.
func TestRevision(t *testing.T) {
	const base = "id: a\nimage: b\nenvironment: {X: \"\"}\n"
	of := func(source string) string {
		w, err := Parse([]byte(source), "")
		require.NoError(t, err, source)
		return w.Revision
	}
	for _, same := range []string{
		"# a comment\nimage: 'b'\nid: a\nenvironment: [X=]\n",
		base + "name: another\n",
		base + "pool: {min_idle: 3, reuse: never}\n",
		base + "read_only: false\nrestart: on_change\n",
		base + "deploy: {resources: {limits: {memory: 536870912}}}\n",
		`{"id": "a", "image": "b", "environment": {"X": ""}}`,
	} {
		require.Equal(t, of(base), of(same), same)
	}
	seen := map[string]string{of(base): base}
	for _, other := range []string{
		"id: a\nimage: b\n",
		"id: a\nimage: c\nenvironment: {X: \"\"}\n",
		base + "command: [x]\n",
		base + "command: [x, \"\"]\n",
		base + "read_only: true\n",
		base + "restart: never\n",
		base + "stop_signal: SIGINT\n",
		base + "stop_grace_period: 0s\n",
		base + "stop_grace_period: 10s\n", // if given, it also limits the hooks
		base + "hooks: {post_claim: [{command: [x]}]}\n",
		base + "hooks: {post_claim: [{command: [x], timeout: 31s}]}\n",
		base + "hooks: {pre_release: [{command: [x]}]}\n",
		base + "volumes: {state: {target: /x}}\n",
		base + "volumes: {state: {target: /x, seed: s}}\n",
	} {
		rev := of(other)
		require.NotContains(t, seen, rev, "%s and %s", other, seen[rev])
		seen[rev] = other
	}
}

// Every kind of sink has the location of its secret, not the secret; a mapping
// has its volume.
func TestParseSinks(t *testing.T) {
	parse := func(sync string) *Sync {
		w, err := Parse([]byte(fileWith("volumes: {state: {target: /a}, custom: [{name: b, target: /b}]}\nsync: "+sync)), "x.yaml")
		require.NoError(t, err)
		return w.Sync
	}
	const prefix = "tenants/${tenantId}/"
	for source, want := range map[string]Sink{
		"{sink: {type: file}}": {Type: SinkFile, Prefix: prefix},
		"{sink: {type: gcs, bucket: b, credentials: {file: gcs/key.json}}}": {
			Type: SinkGCS, Bucket: "b", Prefix: prefix, Credentials: Credentials{File: "gcs/key.json"}},
		"{sink: {type: azure, account: acc, container: con, credentials: {env: HOSTLER_SINK_AZ}}}": {
			Type: SinkAzure, Account: "acc", Bucket: "con", Prefix: prefix, Credentials: Credentials{Env: "HOSTLER_SINK_AZ"}},
	} {
		require.Equal(t, want, parse(source).Sink, source)
	}
	s := parse("{sink: {type: file}, keep: 7, max_size: 1m, max_files: 5, mappings: [{path: /b/c}, {path: /d}, {path: x, direction: upload, mode: copy}]}")
	require.Equal(t, []Mapping{
		{Path: "/b/c", Volume: "/b", Pattern: "**", SinkPath: "b/c", Direction: Bidirectional, Mode: ModeSync},
		{Path: "/d", Pattern: "**", SinkPath: "d", Direction: Bidirectional, Mode: ModeSync},
		{Path: "/a/x", Volume: "/a", Pattern: "**", SinkPath: "x", Direction: Upload, Mode: ModeCopy},
	}, s.Mappings)
	require.Equal(t, []int{7, 1 << 20, 5}, []int{s.Keep, int(s.MaxSize), s.MaxFiles})
}

// A hook is idempotent only if the file sets it.
func TestParseIdempotent(t *testing.T) {
	w, err := Parse([]byte("id: w\nimage: i\nhooks:\n  post_claim: [{ command: [a], idempotent: true }, { command: [b] }]\n"), "w.yaml")
	require.NoError(t, err)
	require.True(t, w.Hooks[hooks.PostClaim][0].Idempotent)
	require.False(t, w.Hooks[hooks.PostClaim][1].Idempotent)
}
