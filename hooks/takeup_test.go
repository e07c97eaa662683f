package hooks

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
)

// What an earlier server has begun is gone on with: what has ended is not run
// again, what was running is asked for, what never began is run.
func TestTakeUp(t *testing.T) {
	var none = end{err: runtime.ErrNoRun}
	was := func(name string, index, attempt int, state RunState) Run {
		return Run{ID: "id-" + name, Hook: name, Index: index, Attempt: attempt, State: state, StartedAt: time.Now()}
	}
	a, z := hook("a", Fail, 0), hook("z", Fail, 0)
	again := hook("a", Retry, 1)
	harmless := hook("a", Fail, 0)
	harmless.Idempotent = true
	tests := []struct {
		name   string
		first  Hook
		before []Run
		fates  []end
		trace  []string
		failed RunState
	}{
		{"ended well", a, []Run{was("a", 0, 1, Succeeded)}, nil,
			[]string{"start z.1 running", "end z.1 succeeded"}, ""},
		{"all ended well", a, []Run{was("a", 0, 1, Succeeded), was("z", 1, 1, Succeeded)}, nil, nil, ""},
		{"ended badly", a, []Run{was("a", 0, 1, Failed)}, nil, []string{"skip z.1 skipped"}, Failed},
		{"ended badly, the rest skipped", a, []Run{was("a", 0, 1, Failed), was("z", 1, 1, Skipped)}, nil, nil, Failed},
		{"ended badly and does not matter", hook("a", Continue, 0), []Run{was("a", 0, 1, Failed)}, nil,
			[]string{"start z.1 running", "end z.1 succeeded"}, ""},
		{"was running and went well", a, []Run{was("a", 0, 1, Running)}, []end{ok},
			[]string{"end a.1 succeeded", "start z.1 running", "end z.1 succeeded"}, ""},
		{"was running and failed", a, []Run{was("a", 0, 1, Running)}, []end{exit3},
			[]string{"end a.1 failed", "skip z.1 skipped"}, Failed},
		{"was running and is unknown", a, []Run{was("a", 0, 1, Running)}, []end{none},
			[]string{"end a.1 unknown", "skip z.1 skipped"}, Unknown},
		{"is unknown and may run twice", harmless, []Run{was("a", 0, 1, Running)}, []end{none},
			[]string{"end a.1 unknown", "start a.2 running", "end a.2 succeeded", "start z.1 running", "end z.1 succeeded"}, ""},
		{"was unknown before and may run twice", harmless, []Run{was("a", 0, 1, Unknown)}, []end{none},
			[]string{"start a.2 running", "end a.2 succeeded", "start z.1 running", "end z.1 succeeded"}, ""},
		{"was unknown before, is over and may run twice", harmless, []Run{was("a", 0, 1, Unknown)}, []end{away, exit3},
			[]string{"start a.2 running", "end a.2 succeeded", "start z.1 running", "end z.1 succeeded"}, ""},
		{"was unknown before and may not run twice", a, []Run{was("a", 0, 1, Unknown)}, nil,
			[]string{"skip z.1 skipped"}, Unknown},
		{"was unknown before, may run twice and still does", harmless, []Run{was("a", 0, 1, Unknown)}, []end{doomed},
			[]string{"skip z.1 skipped"}, Unknown},
		{"was unknown before and nobody answers", harmless, []Run{was("a", 0, 1, Unknown)}, nil,
			[]string{"skip z.1 skipped"}, Unknown},
		{"was running, may run twice and still does", harmless, []Run{was("a", 0, 1, Running)}, []end{doomed},
			[]string{"end a.1 unknown", "skip z.1 skipped"}, Unknown},
		{"was running, may run twice and nobody answers", harmless, []Run{was("a", 0, 1, Running)}, nil,
			[]string{"end a.1 unknown", "skip z.1 skipped"}, Unknown},
		{"its second attempt was unknown and may be followed", harmless, []Run{was("a", 0, 1, Unknown), was("a", 0, 2, Unknown)}, []end{none},
			[]string{"start a.3 running", "end a.3 succeeded", "start z.1 running", "end z.1 succeeded"}, ""},
		{"its container has ended", a, []Run{was("a", 0, 1, Running)}, []end{lost},
			[]string{"end a.1 lost", "skip z.1 skipped"}, Lost},
		{"the engine answers late", a, []Run{was("a", 0, 1, Running)}, []end{away, away, ok},
			[]string{"end a.1 succeeded", "start z.1 running", "end z.1 succeeded"}, ""},
		{"its second attempt was running", again, []Run{was("a", 0, 1, Failed), was("a", 0, 2, Running)}, []end{ok},
			[]string{"end a.2 succeeded", "start z.1 running", "end z.1 succeeded"}, ""},
		{"its first attempt has failed", again, []Run{was("a", 0, 1, Failed)}, nil,
			[]string{"start a.2 running", "end a.2 succeeded", "start z.1 running", "end z.1 succeeded"}, ""},
		{"its last attempt has failed", again, []Run{was("a", 0, 1, Failed), was("a", 0, 2, TimedOut)}, nil,
			[]string{"skip z.1 skipped"}, TimedOut},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{ends: map[string][]end{"a": {ok}, "z": {ok}}, fates: tt.fates}
				b := &book{before: tt.before}
				runs, err := NewRunner(s, b).Run(t.Context(), PostClaim, []Hook{tt.first, z}, Subject{Claim: "k"})
				require.Equal(t, tt.trace, b.trace)
				require.Empty(t, s.fates, "asked until there is an answer, and no more")
				require.Equal(t, Skipped == runs[len(runs)-1].State, tt.failed != "", "the records end with the skipped ones")
				for _, r := range runs {
					require.NotEqual(t, Running, r.State)
					if r.Hook == "a" && len(tt.before) > 0 {
						require.Equal(t, "id-a", r.ID, "the same for all attempts")
					}
				}
				if tt.failed == "" {
					require.NoError(t, err)
					return
				}
				failed, isHook := errors.AsType[*Error](err)
				require.True(t, isHook, "%v", err)
				require.Equal(t, tt.failed, failed.Run.State)
				if n := len(tt.fates); n > 0 {
					require.Equal(t, errors.Is(tt.fates[n-1].err, runtime.ErrDoomed), errors.Is(err, runtime.ErrDoomed))
				}
			})
		})
	}
}

// The outcome is asked for by the key under which the attempt was begun.
func TestTakeUpKey(t *testing.T) {
	s := &script{ends: map[string][]end{"a": {exit3}}}
	b := &book{}
	runs, err := NewRunner(s, b).Run(t.Context(), PostClaim, []Hook{hook("a", Fail, 0)}, Subject{})
	require.Error(t, err)
	runs[0].State = Running
	s.fates, b.before = []end{ok}, runs
	_, err = NewRunner(s, b).Run(t.Context(), PostClaim, []Hook{hook("a", Fail, 0)}, Subject{})
	require.NoError(t, err)
	require.Equal(t, s.calls[0].Key, s.asked[0].Key)
	require.NotEmpty(t, s.asked[0].Key)
}

// Hooks that cannot be run any more are skipped, but what has begun has an end
// of its own.
func TestSkipTakesUp(t *testing.T) {
	s := &script{fates: []end{lost}}
	b := &book{before: []Run{{ID: "r", Hook: "a", Attempt: 1, State: Running}}}
	runs, err := NewRunner(s, b).Skip(t.Context(), PreRelease, []Hook{hook("a", Fail, 0), hook("z", Fail, 0)}, Subject{}, "it is dead")
	require.NoError(t, err)
	require.Equal(t, []string{"end a.1 lost", "skip z.1 skipped"}, b.trace)
	require.Len(t, runs, 2)
}

// An engine that is away for minutes while hooks are skipped costs neither the
// outcome of what had begun nor the records of what had not.
func TestSkipTakesUpLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{fates: []end{away, away, away, away, away, away, away, away, lost}}
		b := &book{before: []Run{{ID: "r", Hook: "a", Attempt: 1, State: Running}}}
		begin := time.Now()
		_, err := NewRunner(s, b).Skip(t.Context(), PreRelease, []Hook{hook("a", Fail, 0), hook("z", Fail, 0)}, Subject{}, "it is dead")
		require.NoError(t, err)
		require.Greater(t, time.Since(begin), recording)
		require.Equal(t, []string{"end a.1 lost", "skip z.1 skipped"}, b.trace)
	})
}

// A flow that is stopped still says which hooks it has not run.
func TestSkipOfAStoppedFlow(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b := &book{}
	_, err := NewRunner(&script{}, b).Skip(ctx, PreRelease, []Hook{hook("a", Fail, 0)}, Subject{}, "it is dead")
	require.NoError(t, err)
	require.Equal(t, []string{"skip a.1 skipped"}, b.trace)
}

// Without its records nothing of a point is run: what has run could run again.
func TestNoRecordsNoHooks(t *testing.T) {
	full := errors.New("disk full")
	s := &script{}
	_, err := NewRunner(s, &book{breaks: map[string]error{"list": full}}).Run(
		t.Context(), PostClaim, []Hook{hook("a", Fail, 0)}, Subject{})
	require.ErrorIs(t, err, full)
	require.Empty(t, s.calls)
}

// A flow that has just been begun looks nothing up, and records all that it
// does.
func TestNewFlow(t *testing.T) {
	b := &book{breaks: map[string]error{"list": errors.New("asked")}}
	s := &script{ends: map[string][]end{"a": {ok}}}
	_, err := NewRunner(s, b).Run(t.Context(), PostClaim, []Hook{hook("a", Fail, 0)}, Subject{New: true})
	require.NoError(t, err)
	require.Equal(t, []string{"start a.1 running", "end a.1 succeeded"}, b.trace)
}

// What nobody goes on with is ended once, as unknown; the rest is left alone.
func TestAbandon(t *testing.T) {
	b := &book{before: []Run{
		{ID: "r", Hook: "a", Attempt: 2, State: Running, StartedAt: time.Now()},
		{ID: "s", Hook: "b", Attempt: 1, State: Running, StartedAt: time.Now()},
		{ID: "t", Hook: "c", Attempt: 1, State: Running, StartedAt: time.Now()},
	}}
	ids := []string{"r", "s"} // the third is another server's
	err := NewRunner(nil, b).Abandon(t.Context(), ids, func(_ context.Context, r Run) (bool, error) { return r.ID == "s", nil })
	require.NoError(t, err)
	require.Equal(t, []string{"end a.2 unknown"}, b.trace)
	require.NotNil(t, b.runs[0].EndedAt)
	require.Nil(t, b.runs[0].ExitCode)
	broken := errors.New("no answer")
	require.ErrorIs(t, NewRunner(nil, b).Abandon(t.Context(), ids, func(context.Context, Run) (bool, error) { return false, broken }), broken)
}
