package hooks

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
)

// script is a runtime whose commands end as the test says, by the name of
// their first argument.
type script struct {
	mu    sync.Mutex
	ends  map[string][]end // consumed one by one; the last one stays
	calls []runtime.Command
	asked []runtime.Command // for an outcome
	fates []end             // of those that are asked for; consumed one by one
}

// Outcome is the next fate; when there is none left the engine is away.
func (s *script) Outcome(_ context.Context, _ string, c runtime.Command) (runtime.Result, error) {
	s.asked = append(s.asked, c)
	if len(s.fates) == 0 {
		return away.res, away.err
	}
	e := s.fates[0]
	s.fates = s.fates[1:]
	return e.res, e.err
}

type end struct {
	res runtime.Result
	err error
	// begin, when set, is called while the command runs.
	begin func()
}

func (s *script) Exec(_ context.Context, _ string, c runtime.Command) (runtime.Result, error) {
	s.mu.Lock()
	s.calls = append(s.calls, c)
	ends := s.ends[c.Args[0]]
	e := ends[0]
	if len(ends) > 1 {
		s.ends[c.Args[0]] = ends[1:]
	}
	s.mu.Unlock()
	if e.begin != nil {
		e.begin()
	}
	return e.res, e.err
}

// book is a Recorder that keeps everything and can be broken.
type book struct {
	trace   []string
	runs    []Run
	before  []Run // what was recorded earlier
	breaks  map[string]error
	recover int // failures of a broken call before it works again; 0: it never does
}

func (b *book) write(ctx context.Context, call string, r Run) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := b.breaks[call]; err != nil {
		if b.recover--; b.recover == 0 {
			delete(b.breaks, call)
		}
		return err
	}
	b.trace = append(b.trace, fmt.Sprintf("%s %s.%d %s", call, r.Hook, r.Attempt, r.State))
	b.runs = append(b.runs, r)
	return nil
}

func (b *book) RunStarted(ctx context.Context, r Run) error { return b.write(ctx, "start", r) }
func (b *book) RunEnded(ctx context.Context, r Run) error   { return b.write(ctx, "end", r) }
func (b *book) RunSkipped(ctx context.Context, r Run) error { return b.write(ctx, "skip", r) }

func (b *book) Runs(context.Context, RunFilter) ([]Run, error) { return b.before, b.breaks["list"] }

var (
	ok       = end{}
	exit3    = end{res: runtime.Result{ExitCode: 3, Stderr: runtime.Output{Head: "no such table", Total: 13}}}
	timedOut = end{res: runtime.Result{ExitCode: 143, Signal: "SIGTERM", TimedOut: true}}
	noBinary = end{err: &runtime.StartError{Reason: runtime.StartNoBinary, Detail: "no c in PATH"}}
	lost     = end{err: runtime.ErrLost}
	doomed   = end{err: runtime.ErrDoomed}
	away     = end{err: runtime.ErrUnavailable}
)

func hook(name string, policy OnError, retries int) Hook {
	return Hook{Name: name, Action: Exec{Command: []string{name}}, Timeout: time.Second, OnError: policy, Retries: retries}
}

// Every policy at every way to end: what is recorded, in what order, whether
// the point fails, and that what follows a failure is skipped and says so.
func TestPolicies(t *testing.T) {
	tests := []struct {
		name   string
		hook   Hook
		ends   []end
		trace  []string
		failed RunState // of the hook that failed the point; "" when it did not
		waited time.Duration
	}{
		{"ok", hook("a", Fail, 0), []end{ok}, []string{"start a.1 running", "end a.1 succeeded", "start z.1 running", "end z.1 succeeded"}, "", 0},
		{"fail", hook("a", Fail, 0), []end{exit3}, []string{"start a.1 running", "end a.1 failed", "skip z.1 skipped"}, Failed, 0},
		{"fail on timeout", hook("a", Fail, 0), []end{timedOut}, []string{"start a.1 running", "end a.1 timed_out", "skip z.1 skipped"}, TimedOut, 0},
		{"fail on no start", hook("a", Fail, 0), []end{noBinary}, []string{"start a.1 running", "end a.1 start_failed", "skip z.1 skipped"}, NotBegun, 0},
		{"continue", hook("a", Continue, 0), []end{exit3}, []string{"start a.1 running", "end a.1 failed", "start z.1 running", "end z.1 succeeded"}, "", 0},
		{"continue on timeout", hook("a", Continue, 0), []end{timedOut}, []string{"start a.1 running", "end a.1 timed_out", "start z.1 running", "end z.1 succeeded"}, "", 0},
		{"continue never when lost", hook("a", Continue, 0), []end{lost}, []string{"start a.1 running", "end a.1 lost", "skip z.1 skipped"}, Lost, 0},
		{"continue never when doomed", hook("a", Continue, 0), []end{doomed}, []string{"start a.1 running", "end a.1 unknown", "skip z.1 skipped"}, Unknown, 0},
		{"continue never when nobody knows", hook("a", Continue, 0), []end{away}, []string{"start a.1 running", "end a.1 unknown", "skip z.1 skipped"}, Unknown, 3 * time.Second},
		{"retry until it works", hook("a", Retry, 2), []end{exit3, timedOut, ok}, []string{
			"start a.1 running", "end a.1 failed", "start a.2 running", "end a.2 timed_out",
			"start a.3 running", "end a.3 succeeded", "start z.1 running", "end z.1 succeeded",
		}, "", 3 * time.Second},
		{"retry to the end", hook("a", Retry, 5), []end{exit3}, []string{
			"start a.1 running", "end a.1 failed", "start a.2 running", "end a.2 failed", "start a.3 running", "end a.3 failed",
			"start a.4 running", "end a.4 failed", "start a.5 running", "end a.5 failed", "start a.6 running", "end a.6 failed",
			"skip z.1 skipped",
		}, Failed, 31 * time.Second},
		{"retry never what cannot start", hook("a", Retry, 5), []end{noBinary}, []string{"start a.1 running", "end a.1 start_failed", "skip z.1 skipped"}, NotBegun, 0},
		{"retry never when doomed", hook("a", Retry, 5), []end{doomed}, []string{"start a.1 running", "end a.1 unknown", "skip z.1 skipped"}, Unknown, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{ends: map[string][]end{"a": tt.ends, "z": {ok}}}
				b := &book{}
				begin := time.Now()
				runs, err := NewRunner(s, b).Run(t.Context(), PostClaim, []Hook{tt.hook, hook("z", Fail, 0)}, Subject{})
				require.Equal(t, tt.trace, b.trace)
				require.Equal(t, tt.waited, time.Since(begin), "backoff is 1 s, 2 s, 4 s, ...")
				if tt.failed == "" {
					require.NoError(t, err)
					return
				}
				failed, isHook := errors.AsType[*Error](err)
				require.True(t, isHook, "%v", err)
				require.Equal(t, tt.failed, failed.Run.State)
				require.Equal(t, errors.Is(tt.ends[0].err, runtime.ErrDoomed), errors.Is(err, runtime.ErrDoomed))
				require.Equal(t, Skipped, runs[len(runs)-1].State)
			})
		})
	}
}

// Every started attempt has exactly one end, its id is the same for every
// attempt, its key is not, and the hook is told all about itself.
func TestAttemptsAndEnvironment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{ends: map[string][]end{"a": {exit3, ok}}}
		b := &book{}
		h := hook("a", Retry, 1)
		h.Action = Exec{Command: []string{"a"}, Environment: map[string]string{"MODE": "fast"}, User: "app", Workdir: "/srv"}
		runs, err := NewRunner(s, b).Run(t.Context(), PostClaim, []Hook{h}, Subject{
			Workload: "w", Container: "c", Claim: "k", Tenant: "t", Source: "fresh",
		})
		require.NoError(t, err)
		require.Len(t, runs, 2)
		require.Equal(t, runs[0].ID, runs[1].ID)
		require.Equal(t, 3, *runs[0].ExitCode)
		require.Equal(t, 0, *runs[1].ExitCode)
		require.NotEqual(t, s.calls[0].Key, s.calls[1].Key)
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

// No hooks cost nothing: no record, no call.
func TestNoHooks(t *testing.T) {
	b := &book{breaks: map[string]error{"start": errors.New("used")}}
	runs, err := NewRunner(nil, b).Run(t.Context(), PostClaim, nil, Subject{})
	require.NoError(t, err)
	require.Empty(t, runs)
}

// An attempt whose start cannot be recorded does not start; an outcome that
// cannot be recorded at first is kept and written later.
func TestBrokenRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := errors.New("disk full")
		s := &script{ends: map[string][]end{"a": {ok}}}
		b := &book{breaks: map[string]error{"start": full}}
		_, err := NewRunner(s, b).Run(t.Context(), PostClaim, []Hook{hook("a", Continue, 0)}, Subject{})
		require.ErrorIs(t, err, full)
		require.Empty(t, s.calls)

		b = &book{breaks: map[string]error{"end": full}, recover: 2}
		runs, err := NewRunner(s, b).Run(t.Context(), PostClaim, []Hook{hook("a", Fail, 0)}, Subject{})
		require.NoError(t, err)
		require.Len(t, runs, 1)
		require.Equal(t, []string{"start a.1 running", "end a.1 succeeded"}, b.trace)

		b = &book{breaks: map[string]error{"end": full}}
		_, err = NewRunner(s, b).Run(t.Context(), PostClaim, []Hook{hook("a", Fail, 0)}, Subject{})
		require.ErrorIs(t, err, full)
	})
}

// A flow that is stopped while a hook runs, or waits to be tried again, ends
// at once and records the end.
func TestCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := errors.New("the server stops")
		ctx, cancel := context.WithCancelCause(t.Context())
		s := &script{ends: map[string][]end{"a": {{err: stop, begin: func() { cancel(stop) }}}}}
		b := &book{}
		_, err := NewRunner(s, b).Run(ctx, PostClaim, []Hook{hook("a", Retry, 5)}, Subject{})
		failed, isHook := errors.AsType[*Error](err)
		require.True(t, isHook)
		require.Equal(t, Cancelled, failed.Run.State)

		ctx, cancel = context.WithCancelCause(t.Context())
		time.AfterFunc(time.Millisecond, func() { cancel(stop) })
		s = &script{ends: map[string][]end{"a": {exit3}}}
		b = &book{}
		begin := time.Now()
		_, err = NewRunner(s, b).Run(ctx, PostClaim, []Hook{hook("a", Retry, 5)}, Subject{})
		require.ErrorIs(t, err, stop)
		require.Equal(t, time.Millisecond, time.Since(begin))
		require.Equal(t, []string{"start a.1 running", "end a.1 failed"}, b.trace)
	})
}

// The error of a point says which hook, why, and the tail of its stderr.
func TestErrorText(t *testing.T) {
	code := 3
	tests := []struct {
		run  Run
		want string
	}{
		{Run{Point: PostClaim, Hook: "a", Attempt: 1, State: Failed, ExitCode: &code, Stderr: runtime.Output{Head: "no table"}}, `post_claim hook "a" exited with code 3: no table`},
		{Run{Point: PostClaim, Hook: "a", Attempt: 2, State: TimedOut, TimedOut: true}, `post_claim hook "a" (attempt 2) ran longer than its timeout and was ended`},
		{Run{Point: PreDestroy, Hook: "a", Attempt: 1, State: Lost, Error: "gone"}, `pre_destroy hook "a": gone`},
		{Run{Point: PreDestroy, Hook: "a", Attempt: 1, State: Failed, Signal: "SIGKILL"}, `pre_destroy hook "a" was ended by SIGKILL`},
	}
	for _, tt := range tests {
		require.Equal(t, tt.want, (&Error{Run: tt.run}).Error())
	}
}

// The table of points is what the documentation says: closed, in order.
func TestPoints(t *testing.T) {
	require.Len(t, Points(), 4)
	for _, r := range Points() {
		require.True(t, r.Point.Known())
		require.NotEmpty(t, r.Doc)
	}
	require.False(t, Point("post_clam").Known())
}
