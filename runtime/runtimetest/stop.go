package runtimetest

import (
	"context"
	"testing"
	"time"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
	"github.com/stretchr/testify/require"
)

// gracePeriodCases tests what Destroy does before it removes the container.
func gracePeriodCases(t *testing.T, s *suite) {
	cases := []testCase{
		{"the main process is asked to exit", stopAsks("", "TERM")},
		{"by the signal of the spec", stopAsks("SIGUSR1", "USR1")},
		{"its exit ends the wait", stopEnds},
		{"after the grace period it is killed", stopKills},
		{"without a grace period it is killed", stopAtOnce},
		{"a wiped container has nothing to stop", stopWiped},
		{"an exited container has nothing to stop", stopEnded},
		{"one that never ran has nothing to stop", stopCreated},
		{"one stop after another", stopResumed},
		{"several concurrently", stopSeveral},
		{"a command signals the main process", signalMain},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t, s)
		})
	}
}

// longGrace is far above the waits of a case, so that a case which passes did not
// wait for its end.
const longGrace = 9 * time.Minute

// withMain sets the main process and its grace period.
func withMain(grace time.Duration, args ...string) func(*runtime.Spec) {
	return func(spec *runtime.Spec) {
		spec.Command = append(spec.Command[:1:1], args...)
		spec.StopGracePeriod = grace
	}
}

// destroy destroys the container.
func (c *container) destroy(t *testing.T) {
	t.Helper()
	require.NoError(t, c.rt.Destroy(t.Context(), c.id), "Destroy")
	require.False(t, c.isListed(t, c.id))
}

// startDestroy begins to destroy the container, and returns the channel on which
// the result arrives.
func (c *container) startDestroy(t *testing.T) <-chan error {
	t.Helper()
	answer := make(chan error, 1)
	go func() { answer <- c.rt.Destroy(context.WithoutCancel(t.Context()), c.id) }() // ends with the main process
	return answer
}

// awaitOutput waits until the main process has printed something, which it does
// when it handles signals.
func (c *container) awaitOutput(t *testing.T) {
	t.Helper()
	testenv.AwaitTrue(t, "the main process handles signals", func() bool { return c.log(t, 1<<10) != "" })
}

// killMain ends the main process by force.
func (c *container) killMain(t *testing.T) {
	t.Helper()
	// The response may be lost with the container.
	_, _ = c.exec(t, c.command("kill", "main", "KILL"))
}

// The main process gets the signal and its grace period: it exits only when the
// case ends it, and a concurrent command sees what it did.
func stopAsks(signal, name string) func(*testing.T, *suite) {
	return func(t *testing.T, s *suite) {
		c := s.start(t, withMain(longGrace, "noted", "signals"), func(spec *runtime.Spec) { spec.StopSignal = signal })
		c.awaitOutput(t)
		answer := c.startDestroy(t)
		require.Equal(t, name, c.mustExec(t, "await", "signals"))
		c.killMain(t)
		require.NoError(t, <-answer)
		require.False(t, s.isListed(t, c.id))
	}
}

func stopEnds(t *testing.T, s *suite) {
	c := s.start(t, withMain(longGrace, "idle"))
	c.awaitOutput(t)
	c.destroy(t)
}

func stopKills(t *testing.T, s *suite) {
	c := s.start(t, withMain(shortGrace, "ignore-term"))
	c.awaitOutput(t)
	c.destroy(t)
}

func stopAtOnce(t *testing.T, s *suite) {
	c := s.start(t, withMain(0, "ignore-term"))
	c.awaitOutput(t)
	c.destroy(t)
}

func stopWiped(t *testing.T, s *suite) {
	if isUnsupported(t, s.Limitations.WipeUnverifiable, "to wipe a container") {
		return
	}
	c := s.start(t, withMain(longGrace, "ignore-term"))
	require.NoError(t, s.rt.RecordBaseline(t.Context(), c.id, 1))
	require.NoError(t, s.rt.Wipe(t.Context(), c.id, 1))
	c.destroy(t)
}

func stopEnded(t *testing.T, s *suite) {
	c := s.start(t, withMain(longGrace, "idle"))
	c.awaitOutput(t)
	c.killMain(t)
	testenv.AwaitTrue(t, "the container exits with its main process", func() bool { return c.state(t, c.id) == runtime.Exited })
	c.destroy(t)
}

func stopCreated(t *testing.T, s *suite) {
	spec := s.Spec(t)
	spec.StopGracePeriod = longGrace
	s.create(t, spec)
	(&container{suite: s, id: spec.ID}).destroy(t)
}

// A Destroy that is interrupted has already asked the main process to exit. The
// next one does not ask again: the main process has the rest of its grace period,
// whichever call waits for it.
func stopResumed(t *testing.T, s *suite) {
	c := s.start(t, withMain(longGrace, "noted", "signals"))
	c.awaitOutput(t)
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() { first <- s.rt.Destroy(ctx, c.id) }() // ends with ctx
	require.Equal(t, "TERM", c.mustExec(t, "await", "signals"))
	cancel()
	require.Error(t, <-first)
	require.True(t, s.isListed(t, c.id))
	answer := c.startDestroy(t)
	require.Equal(t, "TERM", c.mustExec(t, "read", "signals"))
	c.killMain(t)
	require.NoError(t, <-answer)
}

// A slow one does not block others.
func stopSeveral(t *testing.T, s *suite) {
	slow := s.start(t, withMain(longGrace, "noted", "signals"))
	slow.awaitOutput(t)
	answer := slow.startDestroy(t)
	require.Equal(t, "TERM", slow.mustExec(t, "await", "signals"))
	stopEnds(t, s)
	stopKills(t, s)
	slow.killMain(t)
	require.NoError(t, <-answer)
}

// A command finds the main process by HOSTLER_MAIN_PID, and may signal it: it
// runs as the same user.
func signalMain(t *testing.T, s *suite) {
	c := s.start(t, withMain(0, "noted", "signals"))
	c.awaitOutput(t)
	c.mustExec(t, "kill", "main", "USR1")
	require.Equal(t, "USR1", c.mustExec(t, "await", "signals"))
	require.NoError(t, s.rt.Restart(t.Context(), c.id, 1))
	testenv.AwaitTrue(t, "the new main process handles signals", func() bool { return len(c.log(t, 1<<10)) > len("noted\n") })
	c.mustExec(t, "kill", "main", "INT")
	testenv.AwaitTrue(t, "the new main process received it", func() bool { return c.mustExec(t, "read", "signals") == "USR1INT" })
}
