package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/variables"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/workload"
)

// scriptedRuntime is a runtime whose commands end with scripted results, by their
// first argument.
type scriptedRuntime struct {
	mu          sync.Mutex
	results     map[string][]scriptedResult // consumed one by one; the last one stays
	calls       []runtime.Command
	waitCalls   []runtime.Command // of WaitResult
	waitResults []scriptedResult  // of WaitResult; consumed one by one
}

// WaitResult returns the next result; after the last one the engine is
// unavailable.
func (s *scriptedRuntime) WaitResult(_ context.Context, _ string, c runtime.Command) (runtime.Result, error) {
	s.waitCalls = append(s.waitCalls, c)
	if len(s.waitResults) == 0 {
		return unavailable.res, unavailable.err
	}
	e := s.waitResults[0]
	s.waitResults = s.waitResults[1:]
	return e.res, e.err
}

type scriptedResult struct {
	res runtime.Result
	err error
	// duringExec, when set, is called while the command runs.
	duringExec func()
}

func (s *scriptedRuntime) Exec(_ context.Context, _ string, c runtime.Command) (runtime.Result, error) {
	s.mu.Lock()
	s.calls = append(s.calls, c)
	results := s.results[c.Args[0]]
	e := results[0]
	if len(results) > 1 {
		s.results[c.Args[0]] = results[1:]
	}
	s.mu.Unlock()
	if e.duringExec != nil {
		e.duringExec()
	}
	return e.res, e.err
}

// fakeRecorder is a Recorder that keeps its records in memory and can fail.
type fakeRecorder struct {
	trace        []string
	runs         []hooks.Run
	prior        []hooks.Run // what was recorded earlier
	errs         map[string]error
	read         int // runs that Runs has returned
	commits      int // calls that wrote
	failuresLeft int // failures of a failing call before it succeeds; 0: it never does
}

func (rec *fakeRecorder) write(ctx context.Context, call string, r hooks.Run) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := rec.errs[call]; err != nil {
		if rec.failuresLeft--; rec.failuresLeft == 0 {
			delete(rec.errs, call)
		}
		return err
	}
	rec.trace = append(rec.trace, fmt.Sprintf("%s %s.%d %s", call, r.Hook, r.Attempt, r.State))
	rec.runs = append(rec.runs, r)
	rec.commits++
	return nil
}

func (rec *fakeRecorder) RunStarted(ctx context.Context, r hooks.Run) error {
	return rec.write(ctx, "start", r)
}
func (rec *fakeRecorder) RunEnded(ctx context.Context, r hooks.Run) error {
	return rec.write(ctx, "end", r)
}
func (rec *fakeRecorder) RunFollowed(ctx context.Context, ended, started hooks.Run) error {
	if err := cmp.Or(ctx.Err(), rec.errs["follow"], rec.errs["start"], rec.errs["end"]); err != nil {
		return err
	}
	rec.commits--
	return errors.Join(rec.write(ctx, "end", ended), rec.write(ctx, "start", started))
}
func (rec *fakeRecorder) RunSkipped(ctx context.Context, r hooks.Run) error {
	return rec.write(ctx, "skip", r)
}

// Runs returns the runs on record. Only queries for captured values select some
// of them.
func (rec *fakeRecorder) Runs(_ context.Context, f hooks.RunFilter) ([]hooks.Run, error) {
	runs := slices.DeleteFunc(slices.Clone(rec.prior), func(r hooks.Run) bool {
		return f.Captured && (f.NoClaim && r.Claim != "" || f.Claim != "" && r.Claim != f.Claim)
	})
	rec.read += len(runs)
	return runs, rec.errs["list"]
}

var (
	exit0       = scriptedResult{}
	exit3       = scriptedResult{res: runtime.Result{ExitCode: 3, Stderr: runtime.Output{Head: "no such table", Total: 13}}}
	timedOut    = scriptedResult{res: runtime.Result{ExitCode: 143, Signal: "SIGTERM", TimedOut: true}}
	noBinary    = scriptedResult{err: &runtime.StartError{Reason: runtime.StartBinaryNotFound, Detail: "no c in PATH"}}
	lost        = scriptedResult{err: runtime.ErrContainerExited}
	tainted     = scriptedResult{err: runtime.ErrTainted}
	unavailable = scriptedResult{err: runtime.ErrUnavailable}
)

// testRunner is a Runner of commands only.
type testRunner struct{ *Runner }

func newRunner(rt runtime.Execer, rec hooks.Recorder) testRunner {
	return testRunner{New(nil, rec, Executors{hooks.KindCommand: NewCommandExecutor(rt)}, nil)}
}

// run runs a point whose container is stopped if a reason is given.
func (r testRunner) run(ctx context.Context, p hooks.Point, hs []hooks.Hook, s Subject, stopped ...string) ([]hooks.Run, error) {
	_, prior, err := r.begunWith(ctx, p, &workload.Workload{}, s)
	if err != nil {
		return nil, err
	}
	runs, failed, err := r.Runner.run(ctx, p, hs, s, strings.Join(stopped, ""), prior)
	if err == nil {
		return runs, failed
	}
	return runs, errors.Join(failed, err)
}

// TestMain makes the delays between attempts exact.
func TestMain(m *testing.M) {
	retryDelay.Rand = func() float64 { return 0.5 }
	os.Exit(m.Run())
}

func newHook(name string, policy hooks.OnError, retries int) hooks.Hook {
	return hooks.Hook{Name: name, Action: hooks.Command{Args: []string{name}}, Timeout: time.Second, OnError: policy, Retries: retries}
}

// Every policy with every outcome: what is recorded, in what order, whether the
// point fails, and that the hooks after a failure are recorded as skipped.
func TestErrorPolicies(t *testing.T) {
	tests := []struct {
		name    string
		hook    hooks.Hook
		results []scriptedResult
		trace   []string
		failed  hooks.RunState // of the hook that failed the point; "" when it did not
		waited  time.Duration
	}{
		{"ok", newHook("a", hooks.Fail, 0), []scriptedResult{exit0}, []string{"start a.1 running", "end a.1 succeeded", "start z.1 running", "end z.1 succeeded"}, "", 0},
		{"fail", newHook("a", hooks.Fail, 0), []scriptedResult{exit3}, []string{"start a.1 running", "end a.1 failed", "skip z.1 skipped"}, hooks.Failed, 0},
		{"fail on timeout", newHook("a", hooks.Fail, 0), []scriptedResult{timedOut}, []string{"start a.1 running", "end a.1 timed_out", "skip z.1 skipped"}, hooks.TimedOut, 0},
		{"fail on no start", newHook("a", hooks.Fail, 0), []scriptedResult{noBinary}, []string{"start a.1 running", "end a.1 start_failed", "skip z.1 skipped"}, hooks.StartFailed, 0},
		{"continue", newHook("a", hooks.Continue, 0), []scriptedResult{exit3}, []string{"start a.1 running", "end a.1 failed", "start z.1 running", "end z.1 succeeded"}, "", 0},
		{"continue on timeout", newHook("a", hooks.Continue, 0), []scriptedResult{timedOut}, []string{"start a.1 running", "end a.1 timed_out", "start z.1 running", "end z.1 succeeded"}, "", 0},
		{"continue never when lost", newHook("a", hooks.Continue, 0), []scriptedResult{lost}, []string{"start a.1 running", "end a.1 lost", "skip z.1 skipped"}, hooks.Lost, 0},
		{"continue never when tainted", newHook("a", hooks.Continue, 0), []scriptedResult{tainted}, []string{"start a.1 running", "end a.1 unknown", "skip z.1 skipped"}, hooks.Unknown, 0},
		{"continue never when unknown", newHook("a", hooks.Continue, 0), []scriptedResult{unavailable}, []string{"start a.1 running", "end a.1 unknown", "skip z.1 skipped"}, hooks.Unknown, 3 * time.Second},
		{"retry until it works", newHook("a", hooks.Retry, 2), []scriptedResult{exit3, timedOut, exit0}, []string{
			"start a.1 running", "end a.1 failed", "start a.2 running", "end a.2 timed_out",
			"start a.3 running", "end a.3 succeeded", "start z.1 running", "end z.1 succeeded",
		}, "", 3 * time.Second},
		{"retry to the end", newHook("a", hooks.Retry, 5), []scriptedResult{exit3}, []string{
			"start a.1 running", "end a.1 failed", "start a.2 running", "end a.2 failed", "start a.3 running", "end a.3 failed",
			"start a.4 running", "end a.4 failed", "start a.5 running", "end a.5 failed", "start a.6 running", "end a.6 failed",
			"skip z.1 skipped",
		}, hooks.Failed, 31 * time.Second},
		{"retry never what cannot start", newHook("a", hooks.Retry, 5), []scriptedResult{noBinary}, []string{"start a.1 running", "end a.1 start_failed", "skip z.1 skipped"}, hooks.StartFailed, 0},
		{"retry never when tainted", newHook("a", hooks.Retry, 5), []scriptedResult{tainted}, []string{"start a.1 running", "end a.1 unknown", "skip z.1 skipped"}, hooks.Unknown, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scriptedRuntime{results: map[string][]scriptedResult{"a": tt.results, "z": {exit0}}}
				rec := &fakeRecorder{}
				start := time.Now()
				runs, err := newRunner(s, rec).run(t.Context(), hooks.PostClaim, []hooks.Hook{tt.hook, newHook("z", hooks.Fail, 0)}, Subject{})
				require.Equal(t, tt.trace, rec.trace)
				require.Equal(t, tt.waited, time.Since(start), "backoff is 1 s, 2 s, 4 s, ...")
				if tt.failed == "" {
					require.NoError(t, err)
					return
				}
				failed, isHook := errors.AsType[*hooks.Error](err)
				require.True(t, isHook, "%v", err)
				require.Equal(t, tt.failed, failed.Run.State)
				require.Equal(t, errors.Is(tt.results[0].err, runtime.ErrTainted), errors.Is(err, runtime.ErrTainted))
				require.Equal(t, hooks.Skipped, runs[len(runs)-1].State)
			})
		})
	}
}

// Every started attempt has exactly one end. The run id is the same for every
// attempt, the attempt id is not, and the hook has all HOSTLER_ variables.
func TestAttemptsAndEnvironment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedRuntime{results: map[string][]scriptedResult{"a": {exit3, exit0}}}
		rec := &fakeRecorder{}
		h := newHook("a", hooks.Retry, 1)
		h.Action = hooks.Command{Args: []string{"a"}, Process: hooks.Process{Environment: map[string]variables.Template{"MODE": variables.Literal("fast")}, User: "app", Workdir: "/srv"}}
		runs, err := newRunner(s, rec).run(t.Context(), hooks.PostClaim, []hooks.Hook{h}, Subject{
			Workload: "w", Container: "c", Claim: "k", Tenant: "t", Source: "fresh",
		})
		require.NoError(t, err)
		require.Len(t, runs, 2)
		require.Equal(t, runs[0].ID, runs[1].ID)
		require.Equal(t, 3, *runs[0].ExitCode)
		require.Equal(t, 0, *runs[1].ExitCode)
		require.NotEqual(t, s.calls[0].RunID, s.calls[1].RunID)
		require.Equal(t, map[string]string{
			"MODE": "fast", "HOSTLER_HOOK": "a", "HOSTLER_POINT": "post_claim", "HOSTLER_RUN_ID": runs[0].ID,
			"HOSTLER_ATTEMPT": "2", "HOSTLER_WORKLOAD": "w", "HOSTLER_CONTAINER": "c", "HOSTLER_CLAIM": "k",
			"HOSTLER_TENANT": "t", "HOSTLER_CLAIM_SOURCE": "fresh",
		}, s.calls[1].Environment)
		require.Equal(t, "app", s.calls[1].User)
		require.Equal(t, "/srv", s.calls[1].Workdir)
		require.Equal(t, time.Second, s.calls[1].Timeout)
	})
}

// Without hooks there is no record and no call.
func TestNoHooks(t *testing.T) {
	rec := &fakeRecorder{errs: map[string]error{"start": errors.New("used")}}
	runs, err := newRunner(nil, rec).run(t.Context(), hooks.PostClaim, nil, Subject{})
	require.NoError(t, err)
	require.Empty(t, runs)
}

// An attempt whose start cannot be recorded does not start. Recording an outcome
// is retried.
func TestRecorderErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := errors.New("disk full")
		s := &scriptedRuntime{results: map[string][]scriptedResult{"a": {exit0}}}
		rec := &fakeRecorder{errs: map[string]error{"start": full}}
		_, err := newRunner(s, rec).run(t.Context(), hooks.PostClaim, []hooks.Hook{newHook("a", hooks.Continue, 0)}, Subject{})
		require.ErrorIs(t, err, full)
		require.Empty(t, s.calls)

		rec = &fakeRecorder{errs: map[string]error{"end": full}, failuresLeft: 2}
		runs, err := newRunner(s, rec).run(t.Context(), hooks.PostClaim, []hooks.Hook{newHook("a", hooks.Fail, 0)}, Subject{})
		require.NoError(t, err)
		require.Len(t, runs, 1)
		require.Equal(t, []string{"start a.1 running", "end a.1 succeeded"}, rec.trace)

		rec = &fakeRecorder{errs: map[string]error{"end": full}}
		_, err = newRunner(s, rec).run(t.Context(), hooks.PostClaim, []hooks.Hook{newHook("a", hooks.Fail, 0)}, Subject{})
		require.ErrorIs(t, err, full)
	})
}

// A flow that is canceled while a hook runs, or during the backoff, ends
// immediately and records the end.
func TestCancelDuringHookAndBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := errors.New("the server stops")
		ctx, cancel := context.WithCancelCause(t.Context())
		s := &scriptedRuntime{results: map[string][]scriptedResult{"a": {{err: stop, duringExec: func() { cancel(stop) }}}}}
		rec := &fakeRecorder{}
		_, err := newRunner(s, rec).run(ctx, hooks.PostClaim, []hooks.Hook{newHook("a", hooks.Retry, 5)}, Subject{})
		failed, isHook := errors.AsType[*hooks.Error](err)
		require.True(t, isHook)
		require.Equal(t, hooks.Cancelled, failed.Run.State)

		ctx, cancel = context.WithCancelCause(t.Context())
		time.AfterFunc(time.Millisecond, func() { cancel(stop) })
		s = &scriptedRuntime{results: map[string][]scriptedResult{"a": {exit3}}}
		rec = &fakeRecorder{}
		start := time.Now()
		_, err = newRunner(s, rec).run(ctx, hooks.PostClaim, []hooks.Hook{newHook("a", hooks.Retry, 5)}, Subject{})
		require.ErrorIs(t, err, stop)
		require.Equal(t, time.Millisecond, time.Since(start))
		require.Equal(t, []string{"start a.1 running", "end a.1 failed"}, rec.trace)
	})
}
