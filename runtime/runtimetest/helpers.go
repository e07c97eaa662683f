package runtimetest

import (
	"context"
	"errors"
	"testing"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
	"github.com/stretchr/testify/require"
)

// Destroy destroys a container when its test has ended, as servers do: it retries
// while the engine cannot confirm the removal.
func Destroy(t testing.TB, rt runtime.Runtime, id string) {
	t.Helper()
	testenv.AwaitTrue(t, "the removal of "+id, func() bool {
		err := rt.Destroy(context.WithoutCancel(t.Context()), id)
		require.True(t, err == nil || errors.Is(err, runtime.ErrUnavailable), "Destroy: %v", err)
		return err == nil
	})
}

// startError returns the reason why a command did not start.
func startError(t *testing.T, err error) runtime.StartReason {
	t.Helper()
	var start *runtime.StartError
	require.ErrorAs(t, err, &start)
	require.NotEmpty(t, start.Detail)
	return start.Reason
}

// isUnsupported reports whether a limitation of the backend excludes a case, and
// logs what is excluded.
func isUnsupported(t *testing.T, limited bool, what string) bool {
	t.Helper()
	if limited {
		t.Logf("not required of this backend: %s", what)
	}
	return limited
}

// state returns the State in a container's Status.
func (s *suite) state(t *testing.T, id string) runtime.State {
	t.Helper()
	status, err := s.rt.Status(t.Context(), id)
	require.NoError(t, err, "Status")
	return status.State
}

// isListed reports whether List has the container.
func (s *suite) isListed(t *testing.T, id string) bool {
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
