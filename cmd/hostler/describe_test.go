package main

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/api/apitest"
	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/doctor"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
)

// A description has what doctor reports about the object, and what to do first.
func TestDescribeFindings(t *testing.T) {
	b := serveTestBackend(t)
	b.Report = doctor.Report{Findings: []doctor.Finding{
		{Severity: doctor.Error, Check: "x", Claim: "claim-carl", Message: "carl's\nbucket is gone", Hint: "make the bucket"},
		{Severity: doctor.Error, Check: "x", Claim: "claim-alice", Message: "of another one", Hint: "nothing"},
	}}
	code, out, errOut := hostler(t, "", "describe", "claim", "claim-carl", "-o", "json")
	require.Equal(t, exitOK, code, errOut)
	var got description
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.Len(t, got.Findings, 1)
	require.Equal(t, "make the bucket", got.Next[0])
	require.Contains(t, got.Next[1], "hostler release claim-carl")
	require.Contains(t, strings.Join(got.Missing, "\n"), "its container: ", "box-9 is not on record")
	code, out, _ = hostler(t, "", "describe", "claim", "claim-carl")
	require.Equal(t, exitOK, code)
	require.Contains(t, out, "  error: carl's bucket is gone\n")
	require.NotContains(t, out, "of another one")
}

// A description shows what can be read, and names what cannot.
func TestDescribeWithoutDoctor(t *testing.T) {
	b := serveTestBackend(t)
	b.Fail("logs", runtime.ErrNotFound)
	b.Fail("events", runtime.ErrUnavailable)
	code, out, errOut := hostler(t, "", "describe", "container", "box-1")
	require.Equal(t, exitOK, code, errOut)
	_, missing, _ := strings.Cut(out, "Not shown\n")
	require.Contains(t, missing, "what its main process printed: ")
	require.Contains(t, missing, "its events: ")
	require.NotContains(t, out, "listening")
}

// A failing pool shows the newest container that is gone.
func TestDescribeFailingPool(t *testing.T) {
	b := serveTestBackend(t)
	b.Pools["web"] = pool.Status{Workload: "web", Fill: pool.FillStatus{State: pool.FillFailing, Failures: 5, LastError: "it exited with code 3"}}
	b.Containers = append(b.Containers, pool.Container{ID: "box-3", Workload: "web", State: pool.Destroyed, CreatedAt: apitest.Time})
	b.Output = "no config found\n"
	code, out, errOut := hostler(t, "", "describe", "pool", "web")
	require.Equal(t, exitOK, code, errOut)
	require.Contains(t, out, "it exited with code 3")
	require.Contains(t, out, "  no config found\n")
	require.Contains(t, out, "hostler describe container box-3")
	require.NotContains(t, out, "%!")
	require.NotContains(t, out, "{id}")
}

// Nothing in a description controls the terminal or looks like another line.
func TestDescribeSanitizes(t *testing.T) {
	const evil = "x\x1b]0;y\a\nError: z"
	d := description{
		Kind: "claim", Claim: &client.Claim{ID: evil, Reason: evil, Labels: map[string]string{evil: evil}, Warnings: []string{evil}, Timings: map[string]float64{evil: 1}},
		Runs: []client.Run{{Hook: evil, Error: evil, ID: evil, Stdout: client.Output{Head: evil}}}, Log: evil,
		Events:   []client.Event{{Type: evil, Message: evil, Untrusted: true, Data: []byte(evil)}},
		Findings: []client.Finding{{Message: evil, Severity: evil}}, Next: []string{evil}, Missing: []string{evil},
		Container:  &client.Container{Health: evil, Node: evil},
		Containers: []client.Container{{ID: evil, State: evil, Reason: evil}}, Claims: []client.Claim{{ID: evil, Tenant: evil}},
	}
	var out strings.Builder
	require.NoError(t, printDescription(&out, d))
	require.NotContains(t, out.String(), "\x1b")
	for line := range strings.Lines(out.String()) {
		require.False(t, strings.HasPrefix(line, "Error:"), line)
	}
	for _, print := range []func(description) error{
		func(d description) error {
			d.Kind, d.Pool = "pool", &client.Pool{Workload: evil, Fill: client.Fill{LastError: evil}}
			return printDescription(&out, d)
		},
		func(d description) error {
			d.Kind = "container"
			d.Container.ID, d.Container.Reason = evil, evil
			return printDescription(&out, d)
		},
	} {
		out.Reset()
		require.NoError(t, print(d))
		require.NotContains(t, out.String(), "\x1b")
		require.NotContains(t, out.String(), "\nError:")
	}
}

// The last line of a log counts without a line break.
func TestLastLines(t *testing.T) {
	for text, want := range map[string]string{"": "", "a": "a", "a\nb\nc\n": "b\nc\n", "a\nb\nc": "b\nc", "\n\n\n": "\n\n"} {
		require.Equal(t, want, lastLines(text, 2))
	}
}

// With -o json and yaml an error is an object on the standard error, wherever the
// flag is, and the exit status is the same.
func TestProblems(t *testing.T) {
	serveTestBackend(t)
	for args, want := range map[string]commandProblem{
		"claim nope --tenant x -o json":                 {ExitStatus: exitNotFound, Hint: "see `hostler get workloads`"},
		"claim nope --tenant x -ojson":                  {ExitStatus: exitNotFound, Hint: "see `hostler get workloads`"},
		"get claims --nope -o json":                     {ExitStatus: exitUsage},
		"get claims --nope --output=json":               {ExitStatus: exitUsage},
		"get pools -o json --server http://127.0.0.1:1": {ExitStatus: exitUnavailable, Hint: "is `hostler serve` running there? name another server with --server"},
	} {
		code, out, errOut := hostler(t, "", strings.Fields(args)...)
		require.Empty(t, out, args)
		var got commandProblem
		require.NoError(t, json.Unmarshal([]byte(errOut), &got), "%s: %s", args, errOut)
		require.Equal(t, want.ExitStatus, code, args)
		require.Equal(t, code, got.ExitStatus)
		require.Equal(t, want.Hint, got.Hint)
		require.NotEmpty(t, got.Error)
		if code == exitNotFound {
			require.Equal(t, client.CodeWorkloadNotFound, got.Problem.Code)
			require.Equal(t, http.StatusNotFound, got.Problem.Status)
		}
	}
	code, _, errOut := hostler(t, "", "claim", "nope", "--tenant", "x", "-o", "yaml")
	require.Equal(t, exitNotFound, code)
	require.Contains(t, errOut, "exit_status: 3\n")
	code, _, errOut = hostler(t, "id: web\nimage: x\nportz: [80]\n", "apply", "-o", "json", "-")
	require.Equal(t, exitFailure, code)
	var got commandProblem
	require.NoError(t, json.Unmarshal([]byte(errOut), &got), errOut)
	require.Equal(t, 3, got.Problem.ValidationErrors[0].Line)
	code, out, errOut := hostler(t, "", "doctor", "-o", "json") // it prints its findings itself
	require.Equal(t, exitOK, code, errOut+out)
}

// The last events are shown in the order of the log, and followed from there.
func TestEventsLast(t *testing.T) {
	b := serveTestBackend(t)
	shown := 0
	ctx, stop := newInterrupt(t)
	seen := writerFunc(func(p []byte) (int, error) {
		shown++
		switch shown {
		case 1:
			require.Contains(t, string(p), "custom.x")
			b.Append(activity.Event{Type: activity.ClaimReleased, Workload: "web", Message: "gone"})
		case 2:
			require.Contains(t, string(p), "claim.released")
			stop()
		}
		return len(p), nil
	})
	require.Equal(t, exitOK, run(ctx, []string{"events", "-n", "1", "-f"}, strings.NewReader(""), seen, seen))
	require.Equal(t, 2, shown)
}

// Watching prints what is there, what changes, and what is gone as it is at last.
func TestWatch(t *testing.T) {
	for _, format := range []string{"table", "json", "yaml"} {
		b := serveTestBackend(t)
		var out strings.Builder
		ctx, stop := newInterrupt(t)
		rows := 0
		seen := writerFunc(func(p []byte) (int, error) {
			out.Write(p)
			rows += strings.Count(string(p), "box-2")
			b.Locked(func() {
				switch rows {
				case 1:
					b.Containers[1].Health = pool.Unhealthy
				case 2:
					b.Containers[1].State = pool.Destroyed
				case 3:
					stop()
				}
			})
			return len(p), nil
		})
		code := run(ctx, []string{"get", "containers", "-w", "--interval", "100ms", "-o", format}, strings.NewReader(""), seen, seen)
		require.Equal(t, exitOK, code, out.String())
		require.Equal(t, 1, strings.Count(out.String(), "box-1"), "it has not changed: %s", out.String())
		require.Contains(t, out.String(), "unhealthy")
		require.Contains(t, out.String(), "destroyed")
	}
}

// newInterrupt returns the context of a command that a test interrupts.
func newInterrupt(t *testing.T) (context.Context, func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	return ctx, cancel
}

var localUTC = sync.OnceFunc(func() { time.Local = time.UTC })
