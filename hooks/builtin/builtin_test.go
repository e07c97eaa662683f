package builtin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/runner"
)

func attempt(name string, with map[string]any) runner.Attempt {
	return runner.Attempt{
		Action: hooks.Builtin{Name: name, With: with}, Timeout: time.Second,
		Context:  runner.Context{Run: "run-1", Hook: "audit", Point: hooks.PostClaim, Workload: "w", Container: "c-1", Claim: "claim-1", Tenant: "t"},
		Envelope: []byte(`{"type": "claim.activated", "seq": 7, "message": "text\nof a tenant"}`),
	}
}

// Every name and alias has a function, once; another name has none.
func TestNames(t *testing.T) {
	names := Names()
	require.True(t, slices.IsSorted(names))
	require.Len(t, slices.Compact(slices.Clone(names)), len(names))
	for _, name := range names {
		require.True(t, IsValid(name), name)
		f, ok := Find(name)
		require.True(t, ok)
		require.NotEmpty(t, f.Doc)
	}
	for _, name := range []string{
		"log", "persist_message", "persist_session_start", "persist_session_end", "persist_branch_provenance",
		"log_api_metrics", "log_tool_call", "log_tool_use",
	} {
		f, ok := Find(name)
		require.True(t, ok, name)
		require.Equal(t, "log", f.Name)
		require.Equal(t, name == "log_tool_use", IsDeprecated(name), name)
	}
	for _, name := range []string{"", "LOG", "log ", "guard_Paths", "other"} {
		require.False(t, IsValid(name), name)
		require.False(t, IsDeprecated(name))
		require.Error(t, Check(name, nil))
	}
	Functions()[0].Name = "changed"
	require.True(t, IsValid("log"))
}

// Options are checked when a file is loaded.
func TestOptions(t *testing.T) {
	for _, with := range []map[string]any{nil, {"level": "debug"}, {"level": "WARN", "message": "m"}} {
		require.NoError(t, Check("log", with))
	}
	for _, with := range []map[string]any{{"level": "loud"}, {"level": 1}, {"other": "x"}, {"message": []any{"x"}}} {
		require.Error(t, Check("log", with), "%v", with)
		require.Equal(t, hooks.Failed, NewExecutor(slog.New(slog.DiscardHandler)).Execute(t.Context(), attempt("log", with)).State)
	}
}

// log writes one record, in which a tenant's text stays one value.
func TestLog(t *testing.T) {
	var out bytes.Buffer
	x := NewExecutor(slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelInfo})))
	res := x.Execute(t.Context(), attempt("persist_message", map[string]any{"level": "warn", "message": "audited"}))
	require.NoError(t, res.Err)
	require.Equal(t, hooks.Succeeded, res.State)
	var got map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &got))
	delete(got, "time")
	require.Equal(t, map[string]any{
		"level": "WARN", "msg": "audited", "hook": "audit", "run": "run-1", "point": "post_claim", "workload": "w",
		"container": "c-1", "claim": "claim-1", "tenant": "t", "event": "claim.activated", "seq": 7.0, "text": "text\nof a tenant",
	}, got)

	out.Reset()
	require.NoError(t, x.Execute(t.Context(), attempt("log", map[string]any{"level": "debug"})).Err)
	require.Empty(t, out.String())
	a := attempt("log", nil)
	a.Envelope = []byte(`{"message": "` + strings.Repeat("x", 1<<20) + `"}`)
	require.NoError(t, x.Execute(t.Context(), a).Err)
	require.Less(t, out.Len(), 2<<10)
	a.Envelope = nil
	require.NoError(t, x.Execute(t.Context(), a).Err)
}

// A function ends the point, fails, panics or exceeds its timeout; the server
// stays.
func TestExecute(t *testing.T) {
	var out bytes.Buffer
	run := func(ctx context.Context, timeout time.Duration, call func(context.Context) (Result, error)) runner.Result {
		x := NewExecutor(slog.New(slog.NewTextHandler(&out, nil)))
		x.functions = func(name string) (Function, bool) {
			return Function{Name: name, call: func(ctx context.Context, _ *slog.Logger, _ Call) (Result, error) { return call(ctx) }}, name == "test"
		}
		a := attempt("test", nil)
		a.Timeout = timeout
		return x.Execute(ctx, a)
	}
	wait := func(ctx context.Context) (Result, error) { <-ctx.Done(); return Result{}, ctx.Err() }
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for name, test := range map[string]struct {
		ended bool
		call  func(context.Context) (Result, error)
		state hooks.RunState
		stop  bool
		err   string
	}{
		"success":   {false, func(context.Context) (Result, error) { return Result{}, nil }, hooks.Succeeded, false, ""},
		"stop":      {false, func(context.Context) (Result, error) { return Result{Stop: true}, nil }, hooks.Succeeded, true, ""},
		"error":     {false, func(context.Context) (Result, error) { return Result{Stop: true}, errors.New("why") }, hooks.Failed, false, "test: why"},
		"panic":     {false, func(context.Context) (Result, error) { panic("canary") }, hooks.Failed, false, "test: panic"},
		"timeout":   {false, wait, hooks.TimedOut, false, "test: context deadline exceeded"},
		"cancelled": {true, wait, hooks.Cancelled, false, "test: context canceled"},
	} {
		t.Run(name, func(t *testing.T) {
			timeout := time.Minute
			if test.state == hooks.TimedOut {
				timeout = 50 * time.Millisecond
			}
			res := run(map[bool]context.Context{false: t.Context(), true: stopped}[test.ended], timeout, test.call)
			require.Equal(t, test.state, res.State)
			require.Equal(t, test.stop, res.Stop)
			require.True(t, res.Gone)
			if test.err != "" {
				require.EqualError(t, res.Err, test.err)
			}
			ending := Executor{}.Ending(hooks.Run{State: res.State})
			require.False(t, ending.MayRetry)
			require.True(t, ending.MayContinue)
			require.True(t, ending.Harmless)
		})
	}
	require.Contains(t, out.String(), "canary", "the log has the panic")
	require.Contains(t, out.String(), "builtin_test.go", "the log has the stack")

	res := NewExecutor(slog.New(slog.DiscardHandler)).Execute(t.Context(), attempt("unknown", nil))
	require.Equal(t, hooks.StartFailed, res.State)
	require.Equal(t, hooks.Unknown, Executor{}.WaitResult(t.Context(), attempt("log", nil)).State)
}
