package main

import (
	"bytes"
	"context"
	"flag"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/api/apitest"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/delivery"
	"github.com/hostler/hostler/doctor"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/memory"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/store"
)

var update = flag.Bool("update", false, "rewrite the golden files and docs/cli.md")

// hostler runs one command line and returns its exit code and output.
func hostler(t *testing.T, in string, args ...string) (code int, out, errOut string) {
	t.Helper()
	var o, e bytes.Buffer
	code = run(t.Context(), args, strings.NewReader(in), &o, &e)
	return code, o.String(), e.String()
}

// serveTestBackend serves a backend with objects of each kind, and points the
// command line at it.
func serveTestBackend(t *testing.T) *apitest.Backend {
	t.Helper()
	t.Setenv("HOSTLER_API_KEY", "")
	t.Setenv("HOSTLER_API_KEY_FILE", "")
	t.Setenv("TZ", "UTC")
	localUTC() // once: a backend of the same test may read it
	b := apitest.New()
	code := 1
	b.Containers = []pool.Container{
		{ID: "box-1", Workload: "web", State: pool.Claimed, Health: pool.Healthy, Tenant: "alice", Claim: "claim-alice", CreatedAt: apitest.Time},
		{ID: "box-2", Workload: "web", State: pool.Idle, CreatedAt: apitest.Time},
	}
	b.Claims = []claim.Claim{{
		ID: "claim-alice", Workload: "web", Tenant: "alice", Container: "box-1", State: claim.Active, Source: claim.Fresh, CreatedAt: apitest.Time,
		Endpoint: runtime.Endpoint{Host: "10.0.0.2", Ports: []int{80}}, Warnings: []string{"a hook was slow"},
		Hooks: []claim.HookSummary{{Run: "run-1", Point: hooks.PostClaim, Hook: "init", Attempt: 1, State: hooks.Succeeded, Duration: 3.14}},
	}}
	b.Attempts = []hooks.Run{{
		ID: "run-1", Attempt: 1, Point: hooks.PostClaim, Hook: "init", Workload: "web", Tenant: "alice", State: hooks.Failed, Detail: hooks.Detail{ExitCode: &code},
		Stdout: runtime.Output{Head: "half done\n"}, Stderr: runtime.Output{Head: "no disk\n"}, Duration: 12.34, StartedAt: apitest.Time,
	}}
	b.Deliveries = []delivery.Delivery{{
		ID: "delivery-1", Workload: "web", Hook: "notify", Lane: "box-1", Seq: 1, Event: activity.ClaimActivated, Container: "box-1",
		Priority: delivery.PriorityOwn, State: delivery.Failed, Attempts: 16, Failures: 16, Reason: "status 503", CreatedAt: apitest.Time, EndedAt: &apitest.Time,
	}}
	retry := apitest.Time.Add(time.Hour)
	b.Claims = append(b.Claims, claim.Claim{
		ID: "claim-carl", Workload: "web", Tenant: "carl", Container: "box-9", State: claim.ReleaseFailed, CreatedAt: apitest.Time,
		Failures: 3, FailureReason: claim.FailedBySink, RetryAt: &retry, Reason: "upload of the tenant's state: the bucket is not there",
	})
	for _, id := range []string{"snap-2", "snap-1"} {
		b.Snapshots = append(b.Snapshots, snapshot.Snapshot{
			ID: id, Time: apitest.Time, Reason: "release", Parts: []snapshot.Part{{Stored: 42, New: 7, Files: 3, Bytes: 100}},
		})
	}
	b.Values["claim-alice claim"] = map[string]memory.Value{"plan/a": {
		Item: memory.Item{Key: "plan/a", Level: memory.Claim, Version: 1, Bytes: 5, UpdatedAt: apitest.Time}, Value: []byte("[1,2]"),
	}}
	b.PutFile("/work/a.txt", "hello\n")
	b.PutFile("/work/b\x1b[2J\nd", "")
	b.Output = "listening\n"
	b.Append(
		activity.Event{Type: activity.ClaimActivated, Workload: "web", Tenant: "alice", Container: "box-1", Message: "claim is active"},
		activity.Event{Type: activity.HookFailed, Workload: "web", Tenant: "alice", Message: "hook init failed"},
		activity.Event{
			Type: "custom.x", Workload: "web", Tenant: "alice", Message: "published by the tenant's program", Untrusted: true, Priority: new(7),
			Data: []byte("{\"a\":\"\u009b2J\u202e\x7f\"}"),
		},
	)
	server := httptest.NewServer(api.New(b.Options()))
	t.Cleanup(server.Close)
	t.Setenv("HOSTLER_SERVER", server.URL)
	c, _, e := hostler(t, "id: web\nimage: nginx\npool: {min_idle: 2, max_size: 5}\n", "apply", "-f", "-")
	require.Equal(t, exitOK, c, e)
	return b
}

// The output of each command matches its golden file.
func TestCommandOutput(t *testing.T) {
	tests := []struct{ name, args string }{
		{"get-workloads", "get workloads"},
		{"get-pools", "get pools"},
		{"get-pool-yaml", "get pool web -o yaml"},
		{"get-containers", "get containers --workload web"},
		{"get-claims", "get claims --tenant alice"},
		{"get-claim-json", "get claim claim-alice -o json"},
		{"get-runs", "get runs --point post_claim"},
		{"get-deliveries", "get deliveries --hook notify --state failed"},
		{"retry-delivery", "retry delivery delivery-1"},
		{"discard-delivery", "discard delivery delivery-1"},
		{"hooks-test", "hooks test web post_claim --var TENANT_ID=alice"},
		{"hooks-replay", "hooks replay web --hook notify --from 1"},
		{"claim", "claim web --tenant alice"},
		{"claim-new", "claim web --tenant bob --wait 1s"},
		{"release", "release claim-alice"},
		{"release-by-name", "release --workload web --tenant alice --discard"},
		{"get-claims-failed", "get claims --failed"},
		{"sync", "sync claim-alice"},
		{"sync-by-name", "sync --workload web --tenant alice -o json"},
		{"memory-put", "memory put plan/b --claim claim-alice --data [1,2]"},
		{"memory-put-json", "memory put b --claim claim-alice --if-version 0 --data true -o json"},
		{"memory-get", "memory get plan/a --claim claim-alice"},
		{"memory-get-yaml", "memory get plan/a --level agent --claim claim-alice -o yaml"},
		{"memory-list", "memory list --claim claim-alice"},
		{"memory-delete", "memory delete plan/a --claim claim-alice --if-version 1"},
		{"cp-out", "cp claim-alice:/work/a.txt -"},
		{"files-list", "files list claim-alice:/work"},
		{"files-stat-yaml", "files stat claim-alice:/work/a.txt -o yaml"},
		{"files-delete", "files delete claim-alice:/work --recursive"},
		{"snapshots", "snapshots --workload web --tenant alice"},
		{"snapshots-restore", "snapshots restore snap-1 --workload web --tenant carl"},
		{"doctor", "doctor"},
		{"scale", "scale web --min-idle 0"},
		{"drain", "drain web"},
		{"delete-workload", "delete workload web"},
		{"delete-container", "delete container box-1 --force"},
		{"events", "events --after 0"},
		{"events-json", "events --after 0 --type hook -o json"},
		{"events-untrusted", "get events --after 0 --type agent.*,custom"},
		{"event-publish", `event publish deploy.done --claim claim-alice --data {"a":1} --priority 9`},
		{"activity", "activity claim-alice executing --tool grep -o yaml"},
		{"describe-claim", "describe claim claim-alice"},
		{"describe-container-yaml", "describe container box-1 -o yaml"},
		{"describe-pool", "describe pool web"},
		{"get-containers-names", "get containers --last 1 -o name"},
		{"events-last", "events -n 2 --type hook,custom"},
		{"touch", "touch claim-alice"},
		{"logs-tail", "logs --container box-1 --tail 1"},
		{"logs", "logs run-1"},
		{"logs-container", "logs --container box-1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			serveTestBackend(t)
			code, out, errOut := hostler(t, "", strings.Fields(test.args)...)
			require.Equal(t, exitOK, code, errOut)
			golden(t, filepath.Join("testdata", test.name+".txt"), "$ hostler "+test.args+"\n"+out+errOut)
		})
	}
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "run the tests with -update once")
	require.Equal(t, string(want), got, path)
}

// Each kind of error has its exit code, and is printed in one line with a hint.
func TestExitCodes(t *testing.T) {
	hook := &claim.FailedError{Claim: claim.Claim{ID: "c"}, Step: "post_claim", Err: &hooks.Error{Run: hooks.Run{ID: "run-7", Hook: "init", Point: hooks.PostClaim, Error: "it broke\nin two lines"}}}
	tests := []struct {
		name, args string
		fail       error
		code       int
		want       string
	}{
		{"unknown command", "clame web", nil, exitUsage, "did you mean `hostler claim`?"},
		{"unknown subcommand", "get clams", nil, exitUsage, "did you mean `hostler get claims`?"},
		{"unlike any command", "zzzzzz", nil, exitUsage, `unknown command "zzzzzz" for "hostler"; see`},
		{"unknown command with flags", "create key prom --role metrics", nil, exitUsage, "did you mean `hostler key create NAME`?"},
		{"misspelt command with flags", "clame web --tenant a", nil, exitUsage, "did you mean `hostler claim`?"},
		{"word of another program", "get snapshots", nil, exitUsage, "did you mean `hostler snapshots`?"},
		{"argument of a command without any", "quota list web", nil, exitUsage, `"web" is one argument too many: hostler quota list`},
		{"one argument too many", "drain web now", nil, exitUsage, `"now" is one argument too many`},
		{"missing second argument", "kill claim-alice", nil, exitUsage, "name the COMMAND"},
		{"unknown state", "get claims --state relased", nil, exitUsage, "did you mean released?"},
		{"unlike any state", "get runs --state zzz", nil, exitUsage, "is not one of running, succeeded"},
		{"first and last", "get runs --last 1 --limit 1", nil, exitUsage, "either --limit or --last"},
		{"wait that is too long", "claim web --tenant a --wait 1d", nil, exitUsage, "--wait takes 0 to 5m0s"},
		{"bad age", "events --since 1x", nil, exitUsage, "--since"},
		{"too many last events", "events -n 1001", nil, exitUsage, "1 to 1000"},
		{"unknown type", "events --type clam", nil, exitFailure, "did you mean claim?"},
		{"runs: bad age", "get runs --since 1x", nil, exitUsage, "--since"},
		{"bad lifetime", "extend claim-alice 1y", nil, exitUsage, "1d"},
		{"names of no list", "doctor -o name", nil, exitUsage, "name"},
		{"description of nothing", "describe claim nope", nil, exitNotFound, "no such claim"},
		{"several ids", "get claims claim-", nil, exitUsage, "several claims begin or end with claim-: claim-carl, claim-alice"},
		{"unknown flag", "get pools --nope", nil, exitUsage, "--nope"},
		{"unknown kind", "get potatoes", nil, exitUsage, "potatoes"},
		{"missing argument", "drain", nil, exitUsage, "name the WORKLOAD"},
		{"no tenant", "claim web", nil, exitUsage, "--tenant"},
		{"bad format", "get pools -o xml", nil, exitUsage, "xml"},
		{"bad wait", "claim web --tenant a --wait soon", nil, exitUsage, "soon"},
		{"nothing to scale", "scale web", nil, exitUsage, "--min-idle"},
		{"nothing to release", "release", nil, exitUsage, "--workload"},
		{"incomplete name", "release claim-alice --tenant alice", nil, exitUsage, "either"},
		{"after and since", "events --after 1 --since 1h", nil, exitUsage, "after"},
		{"no file", "apply", nil, exitUsage, "name a FILE"},
		{"bad server", "get pools --server localhost", nil, exitUsage, "http://"},
		{"unknown workload", "claim nope --tenant a", nil, exitNotFound, "get workloads"},
		{"unknown run", "logs nope", nil, exitNotFound, "get runs"},
		{"unknown delivery", "retry delivery nope", nil, exitNotFound, "get deliveries"},
		{"unknown event hook", "hooks replay web --hook nope --from 1", nil, exitNotFound, "nope"},
		{"dry run of no workload", "hooks test nope post_claim", nil, exitNotFound, "nope"},
		{"test of no claim", "hooks test web post_claim --live nope", nil, exitNotFound, "no such claim"},
		{"test in another workload", "hooks test other post_claim --live claim-alice", nil, exitUsage, "is of workload web"},
		{"test with variables", "hooks test web post_claim --live claim-alice --var A=b", nil, exitUsage, "--var"},
		{"variable without a value", "hooks test web post_claim --var A", nil, exitUsage, "NAME=VALUE"},
		{"event of which claim", "event publish agent.x", nil, exitUsage, "--claim"},
		{"event without JSON", "event publish agent.x --claim claim-alice --data {", nil, exitUsage, "--data"},
		{"event of ours", "event publish claim.released --claim claim-alice", nil, exitFailure, "custom.claim.released"},
		{"value of nothing", "memory put plan --claim claim-alice", nil, exitUsage, "--data"},
		{"unknown activity", "activity claim-alice sleeping", nil, exitFailure, "activity"},
		{"neither true nor false", "events --untrusted maybe", nil, exitUsage, "--untrusted"},
		{"no first event", "hooks replay web --hook notify", nil, exitUsage, "--from"},
		{"no such claim", "release --workload web --tenant zoe", nil, exitNotFound, "zoe holds no claim"},
		{"claimed", "delete container box-1", nil, exitFailure, "--force"},
		{"exhausted", "claim web --tenant a", &claim.UnavailableError{Workload: "web", Reason: claim.Exhausted, Detail: "5 of 5 are taken"}, exitUnavailable, "5 of 5 are taken"},
		{"hook", "claim web --tenant a", hook, exitHook, "hostler logs run-7"},
		{"snapshots without workload", "snapshots --tenant a", nil, exitUsage, "--workload"},
		{"no such snapshot", "snapshots restore x --workload web --tenant a", nil, exitNotFound, "hostler snapshots"},
		{"nothing to sync", "sync", nil, exitUsage, "--workload"},
		{"sync of a released claim", "sync claim-carl", nil, exitFailure, "get claims"},
		{"no server", "get pools --server http://127.0.0.1:1", nil, exitUnavailable, "hostler serve"},
		{"no such file", "apply -f /nowhere.yaml", nil, exitFailure, "/nowhere.yaml"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			serveTestBackend(t).Fail("claim", test.fail)
			code, out, errOut := hostler(t, "", strings.Fields(test.args)...)
			require.Equal(t, test.code, code, errOut)
			require.Contains(t, errOut, test.want)
			require.Equal(t, 1, strings.Count(errOut, "\n"), errOut)
			require.Empty(t, out)
		})
	}
}

// Doctor prints each finding with its hint, and exits with 1.
func TestDoctorHints(t *testing.T) {
	b := serveTestBackend(t)
	b.Report = doctor.Report{
		Findings: []doctor.Finding{
			{Severity: doctor.Error, Check: "release_failed", Message: "claim c1 keeps\nits container", Hint: "`hostler release c1`"},
			{Severity: doctor.Warning, Check: "disk", Message: "the disk is nearly full", Hint: "make room"},
		},
		Engine:   doctor.EngineInfo{Reachable: true, Containers: 3, Duration: 12.3},
		Database: doctor.Database{Kind: "SQLite", Version: "3.53.0", Schema: 3, Bytes: 5 << 20},
		Disk:     doctor.Disk{Path: "/data", Total: 1 << 40, Free: 1 << 30},
	}
	code, out, errOut := hostler(t, "", "doctor")
	require.Equal(t, exitFailure, code)
	require.Empty(t, errOut)
	golden(t, filepath.Join("testdata", "doctor-findings.txt"), "$ hostler doctor\n"+out)
	code, out, _ = hostler(t, "", "doctor", "-o", "json")
	require.Equal(t, exitFailure, code)
	require.Contains(t, out, `"check": "disk"`)
}

// Backup does not overwrite a copy, and reports a missing database.
func TestBackup(t *testing.T) {
	data, into := t.TempDir(), filepath.Join(t.TempDir(), "copy.db")
	code, _, errOut := hostler(t, "", "backup", into, "--data", data)
	require.Equal(t, exitFailure, code)
	require.Contains(t, errOut, "--data")
	db, err := store.Open(t.Context(), filepath.Join(data, "hostler.db"))
	require.NoError(t, err)
	defer db.Close()
	code, out, errOut := hostler(t, "", "backup", into, "--data", data)
	require.Equal(t, exitOK, code, errOut)
	require.Contains(t, out, into)
	code, _, errOut = hostler(t, "", "backup", into, "--data", data)
	require.Equal(t, exitFailure, code)
	require.Contains(t, errOut, "name another file")
}

// Validation errors have the format of a compiler's, from validate and from
// apply.
func TestValidationErrors(t *testing.T) {
	serveTestBackend(t)
	file := filepath.Join(t.TempDir(), "w.yaml")
	require.NoError(t, os.WriteFile(file, []byte("id: web\nimage: x\nvolumes: {state: {target: /s, seed: ./none}}\n"), 0o600))
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	require.NoError(t, os.WriteFile(bad, []byte("id: web\nimage: x\nportz: [80]\n"), 0o600))

	code, out, errOut := hostler(t, "", "validate", bad)
	require.Equal(t, exitFailure, code)
	require.Contains(t, out, bad+":3:1: portz: ")
	require.Empty(t, errOut)
	code, out, _ = hostler(t, "", "validate", "-o", "json", bad)
	require.Equal(t, exitFailure, code)
	require.Contains(t, out, `"line": 3`)
	code, out, _ = hostler(t, "", "validate", file)
	require.Equal(t, exitFailure, code)
	require.Contains(t, out, "none of volume state does not exist")
	code, out, _ = hostler(t, "id: web\nimage: x:1\nhealthcheck: {test: [NONE]}\n", "validate", "-")
	require.Equal(t, exitOK, code)
	require.Empty(t, out)
	code, _, errOut = hostler(t, "", "apply", "-f", bad)
	require.Equal(t, exitFailure, code)
	require.Contains(t, errOut, bad+":3:1: portz: ")
	code, out, _ = hostler(t, "", "schema")
	require.Equal(t, exitOK, code)
	require.Contains(t, out, "$schema")
}

// Notes about a valid file are printed by validate and by apply; with --strict
// they are errors.
func TestNotes(t *testing.T) {
	serveTestBackend(t)
	file := filepath.Join(t.TempDir(), "noted.yaml")
	require.NoError(t, os.WriteFile(file, []byte("id: noted\nimage: x\nhooks: {post_claim: 'exit 0'}\n"), 0o600))
	code, out, _ := hostler(t, "", "validate", file)
	require.Equal(t, exitOK, code)
	require.Contains(t, out, file+":3:21: note: hooks.post_claim: ")
	code, out, _ = hostler(t, "", "validate", "--ci", "--verbose", "-o", "json", file)
	require.Equal(t, exitFailure, code)
	require.Contains(t, out, `"severity": "note"`)
	code, out, _ = hostler(t, "", "validate", "--verbose", file)
	require.Equal(t, exitOK, code)
	require.Contains(t, out, "the hooks of post_claim take at most 5s")
	code, _, errOut := hostler(t, "", "apply", "-f", file)
	require.Equal(t, exitOK, code, errOut)
	require.Contains(t, errOut, file+":3:21: note: hooks.post_claim: ")
}

// Following shows the existing events, and exits with 0 when it is interrupted.
func TestEventsFollow(t *testing.T) {
	serveTestBackend(t)
	ctx, interrupt := context.WithCancel(t.Context())
	var out, errOut bytes.Buffer
	seen := writerFunc(func(p []byte) (int, error) {
		out.Write(p)
		if bytes.Contains(p, []byte("hook.failed")) {
			interrupt()
		}
		return len(p), nil
	})
	code := run(ctx, []string{"events", "-f", "--after", "0"}, strings.NewReader(""), seen, &errOut)
	require.Equal(t, exitOK, code, errOut.String())
	require.Contains(t, out.String(), "claim.activated")
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// Completion returns the server's ids.
func TestCompletion(t *testing.T) {
	serveTestBackend(t)
	for args, want := range map[string]string{
		"drain ": "web", "get containers box": "box-1", "release ": "claim-alice", "logs ": "run-1", "get pools -o ": "yaml",
	} {
		_, out, _ := hostler(t, "", append([]string{"__complete"}, strings.Split(args, " ")...)...)
		require.Contains(t, out, want, args)
	}
}

// A key file has the format of the server's.
func TestKeyFile(t *testing.T) {
	for text, want := range map[string]string{
		"# ours\n\nops: 0123456789abcdef\nother\n": "0123456789abcdef", "0123456789abcdef\n": "0123456789abcdef", "": "",
	} {
		require.Equal(t, want, firstKey(text))
	}
}
