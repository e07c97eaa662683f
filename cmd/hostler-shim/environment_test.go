package main

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

// environmentOfMain returns what the environment of the main process has of a
// claim.
func environmentOfMain(t *testing.T, s *shim.Session) string {
	t.Helper()
	result, err := s.Exec(t.Context(), runtime.Command{Args: []string{"sh", "-c", `tr "\0" "\n" <"/proc/$HOSTLER_MAIN_PID/environ" | sed -n /of-the-claim/p`}})
	require.NoError(t, err)
	require.True(t, result.OK(), "%+v", result)
	return result.Stdout.String()
}

// environmentOfCommand returns the environment of a command with streams.
func environmentOfCommand(t *testing.T, s *shim.Session, cmd runtime.TenantCommand) string {
	t.Helper()
	cmd.Args = []string{"env"}
	stream, err := s.OpenCommand(t.Context(), cmd)
	require.NoError(t, err)
	defer stream.Close()
	var text bytes.Buffer
	for {
		out, err := stream.Next()
		if errors.Is(err, io.EOF) {
			return text.String()
		}
		require.NoError(t, err)
		text.Write(out.Data)
	}
}

// The environment of a request is that of the main process and of the tenant's
// commands, under their own. Nothing else has it, and it ends with the main
// process.
func TestEnvironmentOfMainProcess(t *testing.T) {
	t.Parallel()
	s, _ := startInit(t, "")
	ctx := t.Context()
	given := map[string]string{"TOKEN": "of-the-claim", "OTHER": "of-the-claim"}
	ends := []func() error{
		func() error { return s.Restart(ctx, 5) },
		func() error { return s.RecordBaseline(ctx, 5) },
		func() error { return errors.Join(s.Stop(ctx, 5), s.StartMain(ctx, 5)) },
		func() error { return s.StartMainWith(ctx, 5, map[string]string{"A": "b"}) },
	}
	for i, end := range ends {
		require.NoError(t, s.RestartWith(ctx, 5, given))
		require.Contains(t, environmentOfMain(t, s), "TOKEN=of-the-claim\n")
		result, err := s.Exec(ctx, runtime.Command{Args: []string{"env"}})
		require.NoError(t, err)
		require.NotContains(t, result.Stdout.String(), "of-the-claim")
		id := strings.Repeat("x", i+1)
		text := environmentOfCommand(t, s, runtime.TenantCommand{ID: id, Fence: 5, Environment: map[string]string{"OTHER": "own"}})
		require.Contains(t, text, "TOKEN=of-the-claim\n")
		require.Contains(t, text, "OTHER=own\n")
		text = environmentOfCommand(t, s, runtime.TenantCommand{ID: id + "-internal", Fence: 5, Internal: true})
		require.NotContains(t, text, "of-the-claim")
		require.NoError(t, end())
		require.NotContains(t, environmentOfMain(t, s), "of-the-claim", "%d", i)
		text = environmentOfCommand(t, s, runtime.TenantCommand{ID: id + "-after", Fence: 5})
		require.NotContains(t, text, "of-the-claim", "%d", i)
	}
}

// A repeated request to start with the same environment ends nothing.
func TestRepeatedStartMainWithEnvironment(t *testing.T) {
	t.Parallel()
	s, _ := startInit(t, "5")
	given := map[string]string{"TOKEN": "of-the-claim"}
	pid := func() string {
		result, err := s.Exec(t.Context(), runtime.Command{Args: []string{"sh", "-c", "echo $HOSTLER_MAIN_PID"}})
		require.NoError(t, err)
		return result.Stdout.String()
	}
	require.NoError(t, s.StartMainWith(t.Context(), 5, given))
	first := pid()
	require.Contains(t, environmentOfMain(t, s), "TOKEN=of-the-claim\n")
	require.NoError(t, s.StartMainWith(t.Context(), 5, given))
	require.Equal(t, first, pid())
	require.NoError(t, s.StartMainWith(t.Context(), 5, map[string]string{"TOKEN": "another-of-the-claim"}))
	require.NotEqual(t, first, pid())
	require.Contains(t, environmentOfMain(t, s), "TOKEN=another-of-the-claim\n")
}
