package runtimetest

import (
	"context"
	"testing"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/stretchr/testify/require"
)

// cleanupContext outlives the test's own, which is over when cleanups run.
func cleanupContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// startError is the reason for which a command did not start.
func startError(t *testing.T, err error) runtime.StartReason {
	t.Helper()
	var start *runtime.StartError
	require.ErrorAs(t, err, &start)
	require.NotEmpty(t, start.Detail)
	return start.Reason
}

// unable logs what a backend's facts keep the suite from asking, and says so
// to the caller.
func unable(t *testing.T, fact bool, what string) bool {
	t.Helper()
	if fact {
		t.Logf("not asked of this backend: %s", what)
	}
	return fact
}

// eventually asks until it is told yes: for what the contract promises to come
// soon, not at once. The pause is the engine's time, not an order of events.
func eventually(t *testing.T, what string, yes func() bool) {
	t.Helper()
	require.Eventually(t, yes, patience, 5*time.Millisecond, what)
}

// state is what Status says of a container.
func (s *suite) state(t *testing.T, id string) runtime.State {
	t.Helper()
	status, err := s.rt.Status(t.Context(), id)
	require.NoError(t, err, "Status")
	return status.State
}

// listed says whether List names the container.
func (s *suite) listed(t *testing.T, id string) bool {
	t.Helper()
	all, err := s.rt.List(t.Context())
	require.NoError(t, err, "List")
	for _, status := range all {
		if status.ID == id {
			return true
		}
	}
	return false
}
