package workload

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fileWith returns a file that contains the given lines.
func fileWith(lines string) string { return "id: a\nimage: b\n" + lines }

// invalidFiles are files with one mistake, the field of the error, and a part of
// the message or the hint.
var invalidFiles = []struct{ name, source, field, wantText string }{
	{"empty", "", "", "is empty"},
	{"only a comment", "# nothing", "", "is empty"},
	{"a list", "[a]", "", "not a mapping"},
	{"a word", "hello", "", "not a mapping"},
	{"syntax", fileWith("x: [1, 2"), "", "not valid YAML"},
	{"two documents", fileWith("---\nid: b"), "", "second document"},
	{"no id", "image: b", "id", "is missing"},
	{"no image", "id: a", "image", "is missing"},
	{"empty image", "id: a\nimage: ''", "image", "not allowed"},
	{"image with a space", "id: a\nimage: a b", "image", "without spaces"},
	{"long id", "id: a" + strings.Repeat("b", 63) + "\nimage: b", "id", "not allowed"},
	{"number for a text", "id: a\nimage: 7", "image", `put it in quotes: "7"`},
	{"no value", fileWith("name:"), "name", "has no value"},
	{"no value of a mapping", fileWith("hooks:"), "hooks", "has no value"},
	{"unknown key", fileWith("imgae: x"), "imgae", "did you mean image?"},
	{"unknown key, no near one", fileWith("zzz: x"), "zzz", "known keys are id, name"},
	{"key twice", fileWith("image: c"), "image", "twice, first in line 2"},
	{"key twice, nested", fileWith("environment: {A: 1, A: 2}"), "environment.A", "twice"},
	{"mapping as a key", fileWith("? {a: b}\n: c"), "", "for a key"},
	{"unknown tag", fileWith("name: !!binary aGk="), "name", "has the tag"},
	{"unknown tag on a mapping", fileWith("pool: !x {min_idle: 1}"), "pool", "has the tag"},
	{"merge of a text", fileWith("pool: {<<: x}"), "pool.<<", "is not a mapping"},
	{"NUL", fileWith(`name: "a\0b"`), "name", "NUL"},
	{"NUL in an argument", fileWith(`command: [sh, "a\0b"]`), "command[1]", "NUL"},
	{"NUL in a key", fileWith(`environment: {"a\0b": c}`), `environment."a\x00b"`, "NUL"},
	{"unsupported key", fileWith("network_mode: bridge"), "network_mode", "networks"},
	{"unsupported key, nested", fileWith("pool: {min_size: 1}"), "pool.min_size", "min_idle"},

	{"command is text", fileWith("command: node x"), "command", "not a list"},
	{"command is empty", fileWith("command: []"), "command", "is empty"},
	{"command has no program", fileWith("command: ['', x]"), "command[0]", "is empty"},
	{"command with a number", fileWith("command: [sleep, 3]"), "command[1]", "in quotes"},
	{"command too long", fileWith("command: [x, " + strings.Repeat("y", maxArgs) + "]"), "command", "more than 131072"},

	{"variable without =", fileWith("environment: [A]"), "environment[0]", "has no ="},
	{"variable twice", fileWith("environment: [A=1, A=2]"), "environment[1]", "second time"},
	{"variable without a value", fileWith("environment: {A: }"), "environment.A", "has no value"},
	{"variable's name", fileWith("environment: {1A: b}"), "environment.1A", "not a variable name"},
	{"variable's name with =", fileWith("environment: {A=B: b}"), "environment.A=B", "not a variable name"},
	{"variable is a list", fileWith("environment: {A: [b]}"), "environment.A", "is a list"},
	{"environment is text", fileWith("environment: A=b"), "environment", "list of NAME=value"},

	{"user below 0", fileWith("user: -1"), "user", "not a uid"},
	{"user with a space", fileWith("user: a b"), "user", "name:group"},
	{"user of the shim", fileWith("user: 64997"), "user", "reserved for Hostler"},
	{"user of the shim as text", fileWith("user: '64997:0'"), "user", "reserved for Hostler"},
	{"group of the shim", fileWith("user: '0:64997'"), "user", "reserved for Hostler"},
	{"user is empty", fileWith("user: ''"), "user", "not allowed"},
	{"read_only as text", fileWith("read_only: yes"), "read_only", "true or false"},
	{"port 0", fileWith("ports: [0]"), "ports[0]", "less than 1"},
	{"port too high", fileWith("ports: [65536]"), "ports[0]", "more than 65535"},
	{"port twice", fileWith("ports: [80, 80]"), "ports[1]", "same as ports[0]"},
	{"port mapped", fileWith(`ports: ["80:80"]`), "ports[0]", "whole number"},
	{"port with a point", fileWith("ports: [80.5]"), "ports[0]", "whole number"},
	{"no port list", fileWith("ports: 80"), "ports", "not a list"},
	{"resolver", fileWith("dns: [1.1.1]"), "dns[0]", "not an IP address"},
	{"restart", fileWith("restart: allways"), "restart", "did you mean always?"},

	{"check without test", fileWith("healthcheck: {}"), "healthcheck.test", "is missing"},
	{"check interval 0", fileWith("healthcheck: {test: x, interval: 0}"), "healthcheck.interval", "less than 1ms"},
	{"check retries", fileWith("healthcheck: {test: x, retries: 0}"), "healthcheck.retries", "less than 1"},
	{"cpus", fileWith("deploy: {resources: {limits: {cpus: 0}}}"), "deploy.resources.limits.cpus", "less than 0.01"},
	{"cpus with a unit", fileWith("deploy: {resources: {limits: {cpus: 500m}}}"), "deploy.resources.limits.cpus", "0.5"},
	{"memory too small", fileWith("deploy: {resources: {limits: {memory: 1m}}}"), "deploy.resources.limits.memory", "less than 6m"},
	{"memory too large", fileWith("deploy: {resources: {limits: {memory: 999999999999999t}}}"), "deploy.resources.limits.memory", "too large"},
	{"memory not a number", fileWith("deploy: {resources: {limits: {memory: lots}}}"), "deploy.resources.limits.memory", "not a size"},
	{"pids", fileWith("deploy: {resources: {limits: {pids: -1}}}"), "deploy.resources.limits.pids", "less than 1"},

	{"no target", fileWith("volumes: {state: {}}"), "volumes.state.target", "is missing"},
	{"relative target", fileWith("volumes: {state: {target: data}}"), "volumes.state.target", "absolute"},
	{"target /", fileWith("volumes: {state: {target: /}}"), "volumes.state.target", "root"},
	{"target //", fileWith("volumes: {state: {target: //}}"), "volumes.state.target", "shortest form"},
	{"target with ..", fileWith("volumes: {state: {target: /a/../b}}"), "volumes.state.target", "write /b"},
	{"target with a slash", fileWith("volumes: {state: {target: /a/}}"), "volumes.state.target", "write /a"},
	{"target reserved by Hostler", fileWith("volumes: {state: {target: /.hostler/x}}"), "volumes.state.target", "Hostler's own"},
	{"target reserved by the kernel", fileWith("volumes: {state: {target: /proc}}"), "volumes.state.target", "kernel's"},
	{"target twice", fileWith("volumes: {state: {target: /a}, comm: {target: /a}}"), "volumes.comm.target", "must not be nested"},
	{"target nested", fileWith("volumes: {state: {target: /a/b}, comm: {target: /a}}"), "volumes.comm.target", "must not be nested"},
	{"volume name twice", fileWith("volumes: {custom: [{name: x, target: /a}, {name: x, target: /b}]}"), "volumes.custom[1].name", "same as"},
	{"volume name taken", fileWith("volumes: {custom: [{name: state, target: /a}]}"), "volumes.custom[0].name", "predefined volume"},
	{"seed outside", fileWith("volumes: {state: {target: /a, seed: ../x}}"), "volumes.state.seed", "next to the file"},
	{"seed outside, not clean", fileWith("volumes: {state: {target: /a, seed: x/../../y}}"), "volumes.state.seed", "next to the file"},
	{"seed absolute", fileWith("volumes: {state: {target: /a, seed: /etc}}"), "volumes.state.seed", "next to the file"},
	{"seed is the directory itself", fileWith("volumes: {state: {target: /a, seed: .}}"), "volumes.state.seed", "next to the file"},
	{"seed is empty", fileWith("volumes: {state: {target: /a, seed: ''}}"), "volumes.state.seed", "next to the file"},

	{"idle more than size", fileWith("pool: {min_idle: 11}"), "pool.min_idle", "more than max_size"},
	{"size 0", fileWith("pool: {min_idle: 0, max_size: 0}"), "pool.max_size", "less than 1"},
	{"both names", fileWith("pool: {file_idle_ttl: 1m, claim_idle_ttl: 1m}"), "pool.file_idle_ttl", "another name"},
	{"reuse", fileWith("pool: {reuse: all}"), "pool.reuse", "never, same_tenant, wipe"},

	{"no sink", fileWith("volumes: {state: {target: /a}}\nsync: {}"), "sync.sink", "is missing"},
	{"sink without type", fileWith("volumes: {state: {target: /a}}\nsync: {sink: {bucket: b}}"), "sync.sink.type", "s3, gcs, azure, file"},
	{"sink of unknown type", fileWith("volumes: {state: {target: /a}}\nsync: {sink: {type: ftp}}"), "sync.sink.type", "s3, gcs, azure, file"},
	{"sink without bucket", fileWith("volumes: {state: {target: /a}}\nsync: {sink: {type: s3}}"), "sync.sink.bucket", "is missing"},
	{"sink of another kind's field", fileWith("volumes: {state: {target: /a}}\nsync: {sink: {type: file, path: /s, bucket: b}}"), "sync.sink.bucket", "unknown key"},
	{"sink endpoint", fileWith("volumes: {state: {target: /a}}\nsync: {sink: {type: s3, bucket: b, endpoint: s3.local}}"), "sync.sink.endpoint", "http://"},
	{"sink endpoint with a password", fileWith("volumes: {state: {target: /a}}\nsync: {sink: {type: s3, bucket: b, endpoint: 'http://a:b@c'}}"), "sync.sink.endpoint", "without a password"},
	{"sink with a key", fileWith("volumes: {state: {target: /a}}\nsync: {sink: {type: s3, bucket: b, access_key_id: x}}"), "sync.sink.access_key_id", "write credentials"},
	{"sink with a secret", fileWith("volumes: {state: {target: /a}}\nsync: {sink: {type: s3, bucket: b, secret_access_key: x}}"), "sync.sink.secret_access_key", "write credentials"},
	{"credentials empty", fileWith("volumes: {state: {target: /a}}\nsync: {sink: {type: s3, bucket: b, credentials: {}}}"), "sync.sink.credentials", "give one of them"},
	{"credentials twice", fileWith("volumes: {state: {target: /a}}\nsync: {sink: {type: s3, bucket: b, credentials: {file: a, env: HOSTLER_SINK_A}}}"), "sync.sink.credentials", "give one of them"},
	{"credentials with an absolute path", fileWith("volumes: {state: {target: /a}}\nsync: {sink: {type: gcs, bucket: b, credentials: {file: /etc/shadow}}}"), "sync.sink.credentials.file", "server's credentials directory"},
	{"credentials with ..", fileWith("volumes: {state: {target: /a}}\nsync: {sink: {type: gcs, bucket: b, credentials: {file: ../a}}}"), "sync.sink.credentials.file", "server's credentials directory"},
	{"credentials with another variable", fileWith("volumes: {state: {target: /a}}\nsync: {sink: {type: azure, account: abc, container: abc, credentials: {env: HOSTLER_API_KEY}}}"), "sync.sink.credentials.env", "HOSTLER_SINK_"},
	{"azure without an account", fileWith("volumes: {state: {target: /a}}\nsync: {sink: {type: azure, container: abc}}"), "sync.sink.account", "is missing"},
	{"sink path not clean", fileWith("volumes: {state: {target: /a}}\nsync: {sink: {type: file, path: /a/../b}}"), "sync.sink.path", "write /b"},
	{"keep 0", fileWith("volumes: {state: {target: /a}}\nsync: {sink: {type: file}, keep: 0}"), "sync.keep", "less than 1"},
	{"state too large", fileWith("volumes: {state: {target: /a}}\nsync: {sink: {type: file}, max_size: 2t}"), "sync.max_size", "more than 1t"},
	{"same sink path twice", fileWith("volumes: {state: {target: /a}, custom: [{name: b, target: /b}]}\nsync: {sink: {type: file}, mappings: [{path: b}, {path: /b}]}"), "sync.mappings[1]", "another sink_path"},
	{"sink path reserved", fileWith("volumes: {state: {target: /a}}\nsync: {sink: {type: file}, mappings: [{path: b, sink_path: .hostler/x}]}"), "sync.mappings[0].sink_path", "where snapshots are"},
	{"prefix shared by tenants", fileWith("volumes: {state: {target: /a}}\nsync: {sink: {type: s3, bucket: b, prefix: all/}}"), "sync.sink.prefix", "share their state"},
	{"prefix with a variable", fileWith("volumes: {state: {target: /a}}\nsync: {sink: {type: s3, bucket: b, prefix: '${tenantId}/${x}/'}}"), "sync.sink.prefix", "another variable"},
	{"prefix with ..", fileWith("volumes: {state: {target: /a}}\nsync: {sink: {type: s3, bucket: b, prefix: '../${tenantId}/'}}"), "sync.sink.prefix", "relative path"},
	{"no mappings and no state", fileWith("sync: {sink: {type: file, path: /s}}"), "sync.mappings", "no state volume"},
	{"mappings are empty", fileWith("volumes: {state: {target: /a}}\nsync: {sink: {type: file, path: /s}, mappings: []}"), "sync.mappings", "fewer than 1"},
	{"mapping without state", fileWith("sync: {sink: {type: file, path: /s}, mappings: [{path: x}]}"), "sync.mappings[0].path", "there is none"},
	{"mapping with ..", fileWith("volumes: {state: {target: /a}}\nsync: {sink: {type: file, path: /s}, mappings: [{path: ../x}]}"), "sync.mappings[0].path", "not a clean path"},
	{"mapping not clean", fileWith("sync: {sink: {type: file, path: /s}, mappings: [{path: /a//b}]}"), "sync.mappings[0].path", "not a clean path"},
	{"mapping twice", fileWith("sync: {sink: {type: file, path: /s}, mappings: [{path: /a}, {path: /a/}]}"), "sync.mappings[1]", "same as"},
	{"mapping on a read-only root", fileWith("read_only: true\nsync: {sink: {type: file, path: /s}, mappings: [{path: /a}]}"), "sync.mappings[0].path", "not in a volume"},
	{"mapping's pattern", fileWith("sync: {sink: {type: file, path: /s}, mappings: [{path: /a, pattern: '[a'}]}"), "sync.mappings[0].pattern", "not a glob"},
	{"mapping's sink path", fileWith("sync: {sink: {type: file, path: /s}, mappings: [{path: /a, sink_path: ../b}]}"), "sync.mappings[0].sink_path", "relative path"},
	{"direction", fileWith("sync: {sink: {type: file, path: /s}, mappings: [{path: /a, direction: both}]}"), "sync.mappings[0].direction", "bidirectional"},
	{"interval", fileWith("volumes: {state: {target: /a}}\nsync: {sink: {type: file, path: /s}, policy: {interval: 5}}"), "sync.policy.interval", "less than 1s"},

	{"unknown point", fileWith("hooks: {post-claim: []}"), "hooks.post-claim", "did you mean post_claim?"},
	{"point is a number", fileWith("hooks: {post_claim: 5}"), "hooks.post_claim", "not a list"},
	{"hook is text", fileWith("hooks: {post_claim: [ls]}"), "hooks.post_claim[0]", "not a mapping"},
	{"hook without a command", fileWith("hooks: {post_claim: [{name: x}]}"), "hooks.post_claim[0].command", "is missing"},
	{"hook names", fileWith("hooks: {post_claim: [{name: x, command: [a]}, {name: x, command: [b]}]}"), "hooks.post_claim[1].name", "unique within a point"},
	{"hook name like a default", fileWith("hooks: {post_claim: [{name: 'post_claim[1]', command: [a]}]}"), "hooks.post_claim[0].name", "not allowed"},
	{"hook timeout 0", fileWith("hooks: {post_claim: [{command: [a], timeout: 0}]}"), "hooks.post_claim[0].timeout", "less than 1ms"},
	{"hook timeout too long", fileWith("hooks: {post_claim: [{command: [a], timeout: 11m}]}"), "hooks.post_claim[0].timeout", "more than 10m"},
	{"retries without on_error", fileWith("hooks: {post_claim: [{command: [a], retries: 2}]}"), "hooks.post_claim[0].retries", "on_error: retry"},
	{"retries 0", fileWith("hooks: {post_claim: [{command: [a], on_error: retry, retries: 0}]}"), "hooks.post_claim[0].retries", "less than 1"},
	{"retries 6", fileWith("hooks: {post_claim: [{command: [a], on_error: retry, retries: 6}]}"), "hooks.post_claim[0].retries", "more than 5"},
	{"retries 1.5", fileWith("hooks: {post_claim: [{command: [a], on_error: retry, retries: 1.5}]}"), "hooks.post_claim[0].retries", "whole number"},
	{"on_error", fileWith("hooks: {post_claim: [{command: [a], on_error: ignore}]}"), "hooks.post_claim[0].on_error", "fail, continue, retry"},
	{"workdir", fileWith("hooks: {post_claim: [{command: [a], workdir: x}]}"), "hooks.post_claim[0].workdir", "absolute"},
	{"reserved variable", fileWith("hooks: {post_claim: [{command: [a], environment: {HOSTLER_X: 1}}]}"), "hooks.post_claim[0].environment.HOSTLER_X", "set by Hostler"},
}

// One mistake is one error, with the right field.
func TestParseRejects(t *testing.T) {
	for _, c := range invalidFiles {
		t.Run(c.name, func(t *testing.T) {
			requireOneError(t, c.source, c.field, c.wantText)
		})
	}
}

func requireOneError(t *testing.T, source, field, wantText string) {
	t.Helper()
	_, err := Parse([]byte(source), "w.yaml")
	var invalid ValidationErrors
	require.True(t, errors.As(err, &invalid), "got %v", err)
	require.Len(t, invalid, 1, "got %v", err)
	f := invalid[0]
	require.Equal(t, field, f.Field, "got %v", err)
	require.Contains(t, f.Message+" "+f.Hint, wantText)
	require.Positive(t, f.Line)
	require.Positive(t, f.Column)
}

// Input that expands to much more, or is deeply nested, is rejected quickly.
func TestParseIsBounded(t *testing.T) {
	lol := "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 12; i++ {
		ref := fmt.Sprintf("*a%d", i-1)
		lol += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(ref+", ", 9), ", "))
	}
	merges := "a0: &a0 {k: v}\n"
	for i := 1; i < 30; i++ {
		merges += fmt.Sprintf("a%d: &a%d {<<: [*a%d, *a%d]}\n", i, i, i-1, i-1)
	}
	for name, source := range map[string]string{
		"laughs":         lol,
		"merges":         merges,
		"contains self":  "environment: &e [*e]",
		"merges itself":  "environment: &e {<<: *e}",
		"flow depth":     strings.Repeat("[", 5000) + strings.Repeat("]", 5000),
		"unclosed":       strings.Repeat("{a: ", 100_000),
		"block depth":    strings.Repeat("- ", 9000) + "x",
		"too large":      "# " + strings.Repeat("x", MaxSize),
		"many keys":      strings.Repeat("? ", 3000) + "x",
		"long key":       strings.Repeat("k", 900_000) + ": v",
		"many unknown":   manyKeys(40_000),
		"one long value": "id: '" + strings.Repeat("x", 1_000_000) + "'",
		"many comments":  strings.Repeat("#\n", 500_000),
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			_, err := Parse([]byte(source), "")
			var invalid ValidationErrors
			require.True(t, errors.As(err, &invalid))
			require.LessOrEqual(t, len(invalid), maxErrors)
			require.Less(t, len(err.Error()), 64<<10)
			t.Logf("%d bytes in %s: %.100s", len(source), time.Since(began), err)
		})
	}
}

func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "imag%d: 1\n", i)
	}
	return b.String()
}

// Durations and sizes are parsed correctly, and rejected if they are invalid or
// too large.
func TestParseDurationsAndSizes(t *testing.T) {
	for s, want := range map[string]time.Duration{
		"500ms": 500 * time.Millisecond, "30s": 30 * time.Second, "5m": 5 * time.Minute, "1h": time.Hour,
		"1m30s": 90 * time.Second, "1h2m3s4ms": time.Hour + 2*time.Minute + 3*time.Second + 4*time.Millisecond, "0s": 0,
		"": -1, "30": -1, "-1s": -1, "1e3s": -1, "1.5h": -1, "1s1m": -1, "1us": -1, " 1s": -1, "1s\n": -1,
		"9999999999999999999h": -1, "2562048h": -1, "٣s": -1,
	} {
		got, err := parseDuration(s)
		if want < 0 {
			require.Error(t, err, s)
			continue
		}
		require.NoError(t, err, s)
		require.Equal(t, want, got, s)
	}
	for s, want := range map[string]int64{
		"512m": 512 << 20, "1g": 1 << 30, "1G": 1 << 30, "1gb": 1 << 30, "1GiB": 1 << 30, "1.5g": 3 << 29, "1024": 1024, "0": 0, "10b": 10, "4kB": 4096,
		"": -1, "g": -1, "-1g": -1, "1x": -1, "1e9": -1, "999999999999999t": -1, "1 g": -1, "1.5.5g": -1, "1g\n": -1,
	} {
		got, err := parseSize(s)
		if want < 0 {
			require.Error(t, err, s)
			continue
		}
		require.NoError(t, err, s)
		require.Equal(t, want, got, s)
	}
}
