package runtimetest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
)

// environmentCases are about the environment of a claim.
func environmentCases(t *testing.T, s *suite) {
	for _, k := range []struct {
		name string
		run  func(t *testing.T, s *suite)
	}{
		{"main process", environmentOfMain}, {"end", environmentEnds}, {"commands", environmentOfCommands},
		{"refused", environmentRefused}, {"exited", environmentOfExited},
	} {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			k.run(t, s)
		})
	}
}

// writesEnvironment has a container whose main process writes its environment to a
// file.
func writesEnvironment(spec *runtime.Spec) {
	spec.Command = []string{spec.Command[0], "env-idle", "environment"}
	spec.Environment = map[string]string{"OF_SPEC": "spec", "OF_BOTH": "spec"}
}

// mainEnvironment returns what the main process has written, and removes it for
// the next one.
func (c *container) mainEnvironment(t *testing.T) (text string) {
	t.Helper()
	testenv.AwaitTrue(t, "the main process writes its environment", func() bool {
		result, err := c.exec(t, c.command("read", "environment"))
		text = result.Stdout.String()
		return err == nil && result.OK() && text != ""
	})
	c.mustExec(t, "remove", "environment")
	return text
}

// The environment is that of the main process, over the container's. It lasts when
// the server is another one, and no command of Exec has it. It is in the process's
// own environment, and nowhere else in the container.
func environmentOfMain(t *testing.T, s *suite) {
	c := s.start(t, writesEnvironment)
	require.NotContains(t, c.mainEnvironment(t), "TOKEN=")
	marker := newMarker()
	given := map[string]string{"TOKEN": marker, "OF_BOTH": "claim", "EMPTY": "", "LINES": "a\nb=c"}
	require.NoError(t, s.rt.RestartWith(t.Context(), c.id, 2, given))
	text := c.mainEnvironment(t)
	for _, want := range []string{"TOKEN=" + marker, "OF_SPEC=spec", "OF_BOTH=claim", "EMPTY=\n", "LINES=a\nb=c"} {
		require.Contains(t, text, want)
	}
	adopted := *c
	if s.Reopen != nil {
		reopened := *c.suite
		reopened.rt = s.Reopen(t)
		adopted.suite = &reopened
	}
	for _, c := range []*container{c, &adopted} {
		for _, args := range [][]string{{"env"}, {"ps", ""}} {
			require.NotContains(t, c.mustExec(t, args...), marker, "%q", args)
		}
		require.Contains(t, c.mustExec(t, "env"), "OF_BOTH=spec")
		status, err := c.rt.Status(t.Context(), c.id)
		require.NoError(t, err)
		require.NotContains(t, fmt.Sprintf("%+v", status), marker)
		for name, entry := range c.copyOut(t, "/data") {
			require.NotContains(t, name+entry.body, marker)
		}
	}
	require.ErrorIs(t, s.rt.RestartWith(t.Context(), c.id, 1, given), runtime.ErrStaleFence)
}

// The environment ends with the main process, whichever call ends it.
func environmentEnds(t *testing.T, s *suite) {
	c := s.start(t, writesEnvironment)
	c.mainEnvironment(t)
	marker := newMarker()
	ctx := t.Context()
	fence := int64(2)
	for name, end := range map[string]func(fence int64) error{
		"Restart":        func(fence int64) error { return s.rt.Restart(ctx, c.id, fence) },
		"Start":          func(fence int64) error { return s.rt.Start(ctx, c.id, fence) },
		"RecordBaseline": func(fence int64) error { return s.rt.RecordBaseline(ctx, c.id, fence) },
		"Stop": func(fence int64) error {
			if err := s.rt.Stop(ctx, c.id, fence); err != nil {
				return err
			}
			return s.rt.Start(ctx, c.id, fence)
		},
	} {
		require.NoError(t, s.rt.RestartWith(ctx, c.id, fence, map[string]string{"TOKEN": marker}), name)
		require.Contains(t, c.mainEnvironment(t), marker, name)
		require.NoError(t, end(fence+1), name)
		require.NotContains(t, c.mainEnvironment(t), marker, name)
		fence++
	}
	if isUnsupported(t, s.Limitations.WipeUnverifiable, "a wipe") {
		return
	}
	fresh := s.start(t, writesEnvironment)
	fresh.mainEnvironment(t)
	require.NoError(t, s.rt.RecordBaseline(ctx, fresh.id, 1))
	require.NoError(t, s.rt.RestartWith(ctx, fresh.id, 2, map[string]string{"TOKEN": marker}))
	require.NoError(t, s.rt.Wipe(ctx, fresh.id, 2))
	require.NoError(t, s.rt.Restart(ctx, fresh.id, 2))
	require.NotContains(t, fresh.mainEnvironment(t), marker)
}

// A command of the tenant has the environment of the main process, under its own.
func environmentOfCommands(t *testing.T, s *suite) {
	if isUnsupported(t, s.Limitations.NoCommands, "commands of tenants") {
		return
	}
	c := s.start(t)
	require.NoError(t, s.rt.RestartWith(t.Context(), c.id, commandFence, map[string]string{"TOKEN": "claim", "OTHER": "claim"}))
	cmd := c.tenantCommand("env")
	cmd.Environment = map[string]string{"OTHER": "command"}
	output, result := follow(t, c.open(t, cmd))
	require.True(t, result.OK())
	require.Contains(t, output.stdout.String(), "TOKEN=claim\n")
	require.Contains(t, output.stdout.String(), "OTHER=command\n")
	cmd = c.tenantCommand("env")
	cmd.Internal = true
	output, _ = follow(t, c.open(t, cmd))
	require.NotContains(t, output.stdout.String(), "TOKEN=", "of the server's own")
	require.NoError(t, s.rt.Restart(t.Context(), c.id, commandFence))
	output, _ = c.run(t, "env")
	require.NotContains(t, output.stdout.String(), "TOKEN=")
}

// An invalid environment has no effect.
func environmentRefused(t *testing.T, s *suite) {
	c := s.start(t)
	c.mustExec(t, "write", "kept", "x")
	for _, name := range []string{"HOSTLER_X", "PATH", "LD_PRELOAD", "A=B", ""} {
		err := s.rt.RestartWith(t.Context(), c.id, 9, map[string]string{name: "a value"})
		require.ErrorIs(t, err, runtime.ErrBadEnvironment, name)
		require.NotContains(t, err.Error(), "a value")
	}
	require.NoError(t, s.rt.Restart(t.Context(), c.id, 1), "the fence is as before")
	large := map[string]string{}
	for i := range 8 {
		large[fmt.Sprintf("NAME_%d", i)] = strings.Repeat("\x01", runtime.MaxEnvironmentValue-8)
	}
	require.NoError(t, s.rt.RestartWith(t.Context(), c.id, 1, large), "the largest one")
}

// A container that has exited is started with the environment, and one that exits
// loses it.
func environmentOfExited(t *testing.T, s *suite) {
	c := s.start(t, writesEnvironment)
	marker := newMarker()
	c.mainEnvironment(t)
	c.endMain(t)
	require.NoError(t, s.rt.RestartWith(t.Context(), c.id, 2, map[string]string{"TOKEN": marker}))
	require.Contains(t, c.mainEnvironment(t), marker)
	c.endMain(t)
	require.NoError(t, s.rt.Start(t.Context(), c.id, 2))
	require.NotContains(t, c.mainEnvironment(t), marker)
}
