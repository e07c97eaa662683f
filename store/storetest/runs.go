package storetest

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/store"
)

// newAttempt returns a run that is about to start.
func newAttempt(id string, n int) hooks.Run {
	return hooks.Run{
		ID: id, Attempt: n, Point: hooks.PostClaim, Hook: "migrate", Index: 1, Kind: hooks.KindCommand,
		Command: []string{"node", "migrate.js"}, Workload: web, Container: "k1", Claim: "c1", Tenant: "ann",
		State: hooks.Running, StartedAt: time.Unix(1700000000, 123456789).UTC(),
	}
}

// endedRun returns the run as it ended.
func endedRun(r hooks.Run, state hooks.RunState, code int) hooks.Run {
	at := r.StartedAt.Add(time.Second)
	r.State, r.ExitCode, r.EndedAt, r.Duration = state, &code, &at, 1000
	return r
}

// Every started attempt has exactly one end, in the records and in the log.
func runLife(t *testing.T, s Store) {
	ctx := t.Context()
	first, second := newAttempt("x", 1), newAttempt("x", 2)
	require.NoError(t, s.RunStarted(ctx, first))
	require.ErrorIs(t, s.RunStarted(ctx, first), store.ErrExists)
	unfinished := runningRuns(t, s)
	require.Equal(t, []hooks.Run{first}, unfinished)

	require.ErrorIs(t, s.RunEnded(ctx, endedRun(second, hooks.Failed, 1)), store.ErrRunNotFound)
	require.Error(t, s.RunEnded(ctx, first), "running is not an end state")
	failed := endedRun(first, hooks.Failed, 3)
	failed.Stderr = runtime.Output{Head: "oops", Total: 4}
	failed.Error = "not \xff UTF-8, and \x00 NUL"
	failed.Values = map[string]string{"REGISTRATION_ID": "r\"1"}
	failed.Warnings = []string{"IMAGE is empty"}
	require.NoError(t, s.RunEnded(ctx, failed))
	failed.Error = "not \uFFFD UTF-8, and  NUL" // as every database can store it
	require.NoError(t, s.RunEnded(ctx, endedRun(first, hooks.Succeeded, 0)), "ending twice changes nothing")
	require.NoError(t, s.RunStarted(ctx, second))
	done := endedRun(second, hooks.Succeeded, 0)
	require.NoError(t, s.RunEnded(ctx, done))

	runs, err := s.Run(ctx, "x")
	require.NoError(t, err)
	require.Equal(t, []hooks.Run{failed, done}, runs)
	captured, err := s.Runs(ctx, hooks.RunFilter{Container: "k1", Captured: true})
	require.NoError(t, err)
	require.Equal(t, []hooks.Run{failed}, captured, "only those that captured something")
	none, err := s.Run(ctx, "y")
	require.NoError(t, err)
	require.Empty(t, none)
	unfinished = runningRuns(t, s)
	require.Empty(t, unfinished)
	require.Equal(t, []activity.Type{
		activity.HookStarted, activity.HookWarning, activity.HookFailed, activity.HookStarted, activity.HookCompleted,
	}, eventTypes(events(t, s, activity.Filter{}, 0)))
	outside := newAttempt("z", 1)
	outside.Claim, outside.Tenant = "", ""
	require.NoError(t, s.RunSkipped(ctx, outside))
	withoutClaim, err := s.Runs(ctx, hooks.RunFilter{Container: "k1", NoClaim: true})
	require.NoError(t, err)
	require.Len(t, withoutClaim, 1)
	require.Equal(t, "z", withoutClaim[0].ID, "only those outside claims")
}

// The end of an attempt and the start of the next are recorded both or neither.
func runFollowed(t *testing.T, s Store) {
	ctx := t.Context()
	first, second, third := newAttempt("x", 1), newAttempt("y", 1), newAttempt("z", 1)
	done := endedRun(first, hooks.Succeeded, 0)
	require.ErrorIs(t, s.RunFollowed(ctx, done, second), store.ErrRunNotFound)
	require.NoError(t, s.RunStarted(ctx, first))
	require.NoError(t, s.RunFollowed(ctx, done, second))
	require.ErrorIs(t, s.RunFollowed(ctx, endedRun(second, hooks.Succeeded, 0), first), store.ErrExists)
	require.Error(t, s.RunFollowed(ctx, second, third), "running is not an end state")
	require.Equal(t, []hooks.Run{second}, runningRuns(t, s), "nothing of what was refused")
	require.NoError(t, s.RunFollowed(ctx, endedRun(first, hooks.Failed, 3), third), "ending twice changes nothing")
	runs, err := s.Run(ctx, "x")
	require.NoError(t, err)
	require.Equal(t, []hooks.Run{done}, runs)
	require.Equal(t, []hooks.Run{second, third}, runningRuns(t, s))
	require.Equal(t, []activity.Type{
		activity.HookStarted, activity.HookCompleted, activity.HookStarted, activity.HookStarted,
	}, eventTypes(events(t, s, activity.Filter{}, 0)))
}

// The event of an end has all that a reader needs to understand it, and
// excerpts of the output that are small enough for the log.
func runEventData(t *testing.T, s Store) {
	ctx := t.Context()
	r := newAttempt("x", 2)
	require.NoError(t, s.RunStarted(ctx, r))
	r = endedRun(r, hooks.TimedOut, 137)
	r.Signal, r.TimedOut, r.Killed, r.Leaked = "SIGKILL", true, true, 2
	r.Stdout = runtime.Output{Head: strings.Repeat("a", 4096), Tail: strings.Repeat("b", 8192), Total: 1 << 20, Truncated: true}
	r.Stderr = runtime.Output{Head: "short", Total: 5}
	require.NoError(t, s.RunEnded(ctx, r))

	all := events(t, s, activity.Filter{Types: []activity.Type{activity.HookFailed}}, 0)
	require.Len(t, all, 1)
	e := all[0]
	require.Equal(t, []string{web, "k1", "ann", "c1", "x", "post_claim"},
		[]string{e.Workload, e.Container, e.Tenant, e.Claim, e.Run, e.Point})
	require.Contains(t, e.Message, `post_claim hook "migrate" (attempt 2) timed out`)
	var data map[string]any
	require.NoError(t, json.Unmarshal(e.Data, &data))
	require.Equal(t, map[string]any{
		"point": "post_claim", "hook": "migrate", "index": 1.0, "attempt": 2.0, "action": "command",
		"command": []any{"node", "migrate.js"}, "state": "timed_out", "exit_code": 137.0, "signal": "SIGKILL",
		"timed_out": true, "killed": true, "leaked_processes": 2.0, "duration_ms": 1000.0,
		"stdout": map[string]any{"excerpt": strings.Repeat("b", hooks.ExcerptBytes), "total": float64(1 << 20), "truncated": true},
		"stderr": map[string]any{"excerpt": "short", "total": 5.0, "truncated": false},
	}, data)
	started := events(t, s, activity.Filter{Types: []activity.Type{activity.HookStarted}}, 0)
	require.Equal(t, `post_claim hook "migrate" (attempt 2) started`, started[0].Message)
	runs, err := s.Run(ctx, "x")
	require.NoError(t, err)
	require.Equal(t, []hooks.Run{r}, runs, "the record has the whole output")
}

// Every way to end has its event.
func runSkipped(t *testing.T, s Store) {
	ctx := t.Context()
	r := newAttempt("x", 1)
	r.State, r.Error = hooks.Skipped, "an earlier hook failed"
	at := r.StartedAt
	r.EndedAt = &at
	require.NoError(t, s.RunSkipped(ctx, r))
	runs, err := s.Run(ctx, "x")
	require.NoError(t, err)
	require.Equal(t, []hooks.Run{r}, runs)
	require.NoError(t, s.RunEnded(ctx, endedRun(r, hooks.Failed, 1)), "it has ended: nothing changes")
	all := events(t, s, activity.Filter{}, 0)
	require.Equal(t, []activity.Type{activity.HookSkipped}, eventTypes(all))
	require.Contains(t, all[0].Message, "an earlier hook failed")

	for _, state := range hooks.RunStates() {
		if state == hooks.Running || state == hooks.Skipped {
			continue
		}
		r := newAttempt(string(state), 1)
		require.NoError(t, s.RunStarted(ctx, r))
		from := lastSeq(t, s)
		require.NoError(t, s.RunEnded(ctx, endedRun(r, state, 1)))
		want := activity.HookFailed
		if state == hooks.Succeeded {
			want = activity.HookCompleted
		}
		require.Equal(t, []activity.Type{want}, eventTypes(events(t, s, activity.Filter{}, from)), state)
	}
}

func runLists(t *testing.T, s Store) {
	ctx := t.Context()
	a1, a2, b, c := newAttempt("a", 1), newAttempt("a", 2), newAttempt("b", 1), newAttempt("c", 1)
	b.Container, b.Claim, b.Tenant, b.Point = "k2", "", "", hooks.PostCreate
	c.Workload, c.StartedAt = "other", a1.StartedAt.Add(time.Minute)
	for _, r := range []hooks.Run{a1, a2, b, c} {
		require.NoError(t, s.RunStarted(ctx, r))
	}
	require.NoError(t, s.RunEnded(ctx, endedRun(a1, hooks.Failed, 1)))
	running := []hooks.RunState{hooks.Running}
	for name, c := range map[string]struct {
		f    hooks.RunFilter
		want string
	}{
		"all":        {hooks.RunFilter{}, "a1 a2 b1 c1"},
		"workload":   {hooks.RunFilter{Workload: web}, "a1 a2 b1"},
		"container":  {hooks.RunFilter{Container: "k2"}, "b1"},
		"claim":      {hooks.RunFilter{Claim: "c1"}, "a1 a2 c1"},
		"tenant":     {hooks.RunFilter{Tenant: "ann", Workload: web}, "a1 a2"},
		"point":      {hooks.RunFilter{Point: hooks.PostCreate}, "b1"},
		"running":    {hooks.RunFilter{States: running}, "a2 b1 c1"},
		"states":     {hooks.RunFilter{States: []hooks.RunState{hooks.Failed, hooks.Lost}}, "a1"},
		"first page": {hooks.RunFilter{Limit: 3}, "a1 a2 b1"},
		"next page":  {hooks.RunFilter{Limit: 3, After: "b"}, "c1"},
		"newest":     {hooks.RunFilter{Newest: true, Limit: 3}, "c1 b1 a2"},
		"older page": {hooks.RunFilter{Newest: true, After: "b"}, "a2 a1"},
		"part of id": {hooks.RunFilter{IDPart: "b"}, "b1"},
		"since":      {hooks.RunFilter{Since: c.StartedAt}, "c1"},
		"since then": {hooks.RunFilter{Since: a1.StartedAt, Newest: true}, "c1 b1 a2 a1"},
	} {
		runs, err := s.Runs(ctx, c.f)
		require.NoError(t, err, name)
		var got []string
		for _, r := range runs {
			got = append(got, r.ID+string(rune('0'+r.Attempt)))
		}
		require.Equal(t, c.want, strings.Join(got, " "), name)
	}
}

// runningRuns lists the attempts that have started and not ended.
func runningRuns(t *testing.T, s Store) []hooks.Run {
	t.Helper()
	runs, err := s.Runs(t.Context(), hooks.RunFilter{States: []hooks.RunState{hooks.Running}})
	require.NoError(t, err)
	return runs
}

// A refusal of a gate is one record that has ended, with its event. It is none of the
// runs that a flow waits for.
func runRefused(t *testing.T, s Store) {
	ctx := t.Context()
	r := newAttempt("refused", 1)
	r.Point, r.Kind, r.Command = hooks.Point(hooks.ExecBefore), hooks.KindBuiltin, []string{hooks.GuardDestructive}
	require.Error(t, s.RunRefused(ctx, r), "it has not ended")
	at := r.StartedAt.Add(time.Second)
	r.State, r.EndedAt, r.Decision, r.Error = hooks.Failed, &at, hooks.Deny, "rm -rf"
	require.NoError(t, s.RunRefused(ctx, r))
	require.ErrorIs(t, s.RunRefused(ctx, r), store.ErrExists)
	require.Empty(t, runningRuns(t, s))
	runs, err := s.Runs(ctx, hooks.RunFilter{Point: hooks.Point(hooks.ExecBefore)})
	require.NoError(t, err)
	require.Equal(t, []hooks.Run{r}, runs)
}
