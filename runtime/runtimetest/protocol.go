package runtimetest

import (
	"bytes"
	"strconv"
	"testing"

	"github.com/hostler/hostler/runtime"
	"github.com/stretchr/testify/require"
)

// protocolCases tests the protocol version in the engine's record of a container.
func protocolCases(t *testing.T, s *suite) {
	t.Run("record", func(t *testing.T) {
		t.Parallel()
		spoken := s.rt.Protocols()
		require.Positive(t, spoken.Current)
		require.Equal(t, spoken.Current-1, spoken.Oldest)
		c := s.start(t)
		require.Equal(t, spoken.Current, s.recordedProtocol(t, c.id), "Status")
		all, err := s.rt.List(t.Context())
		require.NoError(t, err)
		for _, status := range all {
			if status.ID == c.id {
				require.Equal(t, spoken.Current, status.Protocol, "List")
			}
		}
	})
	if isUnsupported(t, s.Tamper == nil, "changed records") {
		return
	}
	newer := strconv.Itoa(s.rt.Protocols().Current + 1)
	for name, record := range map[string]string{"missing": "", "nonsense": "two", "zero": "0"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := s.tampered(t, record)
			c.requireErrors(t, runtime.ErrTainted)
			c.requireFileErrors(t, runtime.ErrTainted)
			require.Zero(t, c.recordedProtocol(t, c.id))
			require.NoError(t, c.rt.Destroy(t.Context(), c.id), "it can be destroyed")
		})
	}
	t.Run("lowered", func(t *testing.T) { // the program has another version than the record
		t.Parallel()
		c := s.tampered(t, strconv.Itoa(s.rt.Protocols().Oldest))
		c.requireErrors(t, runtime.ErrTainted)
		require.NoError(t, c.rt.Destroy(t.Context(), c.id), "it can be destroyed")
	})
	t.Run("newer", func(t *testing.T) {
		t.Parallel()
		c := s.tampered(t, newer)
		c.requireErrors(t, runtime.ErrNewer)
		c.requireFileErrors(t, runtime.ErrNewer)
		require.ErrorIs(t, c.rt.Start(t.Context(), c.id, 1), runtime.ErrNewer)
		require.ErrorIs(t, c.rt.Destroy(t.Context(), c.id), runtime.ErrNewer)
		require.Equal(t, newer, strconv.Itoa(c.recordedProtocol(t, c.id)))
		require.Equal(t, runtime.Running, c.state(t, c.id), "it is unchanged")
		require.True(t, c.isListed(t, c.id))
	})
}

// tampered creates a running container whose record was changed, as a server that
// is started then sees it.
func (s *suite) tampered(t *testing.T, record string) *container {
	t.Helper()
	spec := s.Spec(t)
	s.Tamper(t, s.rt, spec, record)
	reopened := *s
	if s.Reopen != nil {
		reopened.rt = s.Reopen(t)
	}
	return &container{suite: &reopened, id: spec.ID, testprog: spec.Command[0]}
}

// recordedProtocol returns the version in a container's Status.
func (s *suite) recordedProtocol(t *testing.T, id string) int {
	t.Helper()
	status, err := s.rt.Status(t.Context(), id)
	require.NoError(t, err)
	return status.Protocol
}

// requireErrors makes every call that needs a session.
func (c *container) requireErrors(t *testing.T, cause error) {
	t.Helper()
	ctx := t.Context()
	command := runtime.Command{RunID: "k", Args: []string{c.testprog, "echo", "hello"}, Timeout: longGrace}
	_, exec := c.rt.Exec(ctx, c.id, command)
	_, result := c.rt.WaitResult(ctx, c.id, command)
	_, changed := c.rt.LastModified(ctx, c.id, []string{"/data"})
	for name, err := range map[string]error{
		"Exec": exec, "WaitResult": result, "LastModified": changed,
		"Stop":           c.rt.Stop(ctx, c.id, 1),
		"Restart":        c.rt.Restart(ctx, c.id, 1),
		"RestartWith":    c.rt.RestartWith(ctx, c.id, 1, map[string]string{"A": "b"}),
		"RecordBaseline": c.rt.RecordBaseline(ctx, c.id, 1),
		"Wipe":           c.rt.Wipe(ctx, c.id, 1),
	} {
		require.ErrorIs(t, err, cause, name)
		require.ErrorContains(t, err, "version", name)
	}
}

// requireFileErrors makes the calls that copy files.
func (c *container) requireFileErrors(t *testing.T, cause error) {
	t.Helper()
	_, err := c.rt.CopyOut(t.Context(), c.id, "/data")
	require.ErrorIs(t, err, cause, "CopyOut")
	require.ErrorIs(t, c.rt.CopyIn(t.Context(), c.id, "/data", 0, bytes.NewReader(nil)), cause, "CopyIn")
}
