package publish

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
)

// A change has an event, a repetition has none; thinking, executing and a change
// show that the claim is in use, and a repeated idle does not.
func TestSetActivity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory("ann-1")
		s := m.service(nil)
		for _, step := range []struct {
			activity, tool   string
			changes, touches bool
		}{
			{"idle", "", true, true},
			{"idle", "", false, false},
			{"thinking", "", true, true},
			{"thinking", "", false, true},
			{"executing", "grep", true, true},
			{"executing", "grep", false, true},
			{"executing", "sed", true, true},
			{"blocked", "", true, true},
			{"blocked", "", false, false},
			{"blocked", "x", true, false},
			{"offline", "", true, true},
			{"offline", "", false, false},
		} {
			<-time.After(2 * time.Second)
			before, events := m.claims["ann-1"], len(m.events)
			r, err := s.SetActivity(t.Context(), "ann-1", ActivityRequest{Activity: step.activity, Tool: step.tool, Task: "t"})
			require.NoError(t, err)
			after := m.claims["ann-1"]
			require.Equal(t, ActivityResponse{Activity: step.activity, Tool: step.tool, Since: *after.ActivityAt, Changed: step.changes}, r, "%+v", step)
			require.Equal(t, step.touches, after.TouchedAt != nil && after.TouchedAt.Equal(time.Now()), "%+v", step)
			require.Equal(t, step.changes, len(m.events) > events, "%+v", step)
			require.Equal(t, step.changes, after.ActivityAt.Equal(time.Now()), "%+v", step)
			if step.changes {
				e := m.events[events]
				require.Equal(t, activity.AgentActivityChanged, e.Type)
				require.True(t, e.Untrusted)
				require.JSONEq(t, string(activity.Data(activity.AgentActivityChangedData{
					Activity: step.activity, PreviousActivity: before.Activity, ToolName: step.tool, Task: "t",
				})), string(e.Data))
			}
		}
	})
}

// A program that reports all the time costs one record a second, and one that
// changes all the time is limited like events are.
func TestActivityFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory("ann-1")
		s := m.service(nil)
		touches := 0
		s.o.Touch = func(_ context.Context, id string) (claim.Claim, error) { touches++; return m.touch(t.Context(), id) }
		for range 1000 {
			_, err := s.SetActivity(t.Context(), "ann-1", ActivityRequest{Activity: "thinking"})
			require.NoError(t, err)
			<-time.After(10 * time.Millisecond)
		}
		require.LessOrEqual(t, touches, 10)
		require.Len(t, m.events, 1)
		refused := 0
		for i := range 1000 {
			_, err := s.SetActivity(t.Context(), "ann-1", ActivityRequest{Activity: []string{"idle", "thinking"}[i%2]})
			if isLimit(err) {
				refused++
			}
		}
		require.LessOrEqual(t, len(m.events), 51)
		require.Positive(t, refused)
	})
}

// A report that cannot be recorded does not make the tenant idle.
func TestActivityNotRecorded(t *testing.T) {
	m := newMemory("ann-1")
	s := m.service(nil)
	touched := false
	s.o.Touch = func(context.Context, string) (claim.Claim, error) { touched = true; return claim.Claim{}, nil }
	m.err = errors.New("unavailable")
	_, err := s.SetActivity(t.Context(), "ann-1", ActivityRequest{Activity: "thinking"})
	require.ErrorIs(t, err, m.err)
	require.True(t, touched)
}

// An activity and a tool are short, known or harmless, and anything else is an
// error that is short as well.
func TestActivityIsChecked(t *testing.T) {
	s := newMemory("ann-1").service(nil)
	for _, r := range []ActivityRequest{
		{}, {Activity: "Idle"}, {Activity: "sleeping"}, {Activity: "idle\x1b"}, {Activity: strings.Repeat("x", 1<<20)},
		{Activity: "idle", Tool: "a\x1b[2J"}, {Activity: "idle", Tool: "a\u202e"}, {Activity: "idle", Tool: "a\nb"}, {Activity: "idle", Tool: "\xff"},
		{Activity: "idle", Tool: strings.Repeat("x", 201)}, {Activity: "idle", Task: strings.Repeat("x", 1025)}, {Activity: "idle", Task: "\u009b"},
	} {
		_, err := s.SetActivity(t.Context(), "ann-1", r)
		require.ErrorIs(t, err, ErrInvalid)
		require.Less(t, len(err.Error()), 500)
		require.NotContains(t, err.Error(), "\x1b")
	}
	_, err := s.SetActivity(t.Context(), "none", ActivityRequest{Activity: "idle"})
	require.ErrorIs(t, err, claim.ErrClaimNotFound)
	all := []string{"idle", "thinking", "executing", "waiting_for_input", "blocked", "completed", "limits_exceeded", "stalled", "offline"}
	require.ElementsMatch(t, all, Activities())
	for _, a := range all {
		_, err := s.SetActivity(t.Context(), "ann-1", ActivityRequest{Activity: a, Tool: "grep <é>"})
		require.NoError(t, err)
	}
}
