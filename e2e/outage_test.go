package e2e

import (
	"net/http"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/internal/testenv"
)

const outageHooks = `
pool: { min_idle: 1, max_size: 3, reuse: wipe }
hooks:
  post_claim: [{ name: mark, command: [APP, append, /state/log, c] }]
  pre_release: [{ name: show, command: [APP, read, /state/log] }]
`

// A server that starts before its engine reports that, and works as soon as the
// engine is available.
func TestEngineUnavailableAtStart(t *testing.T) {
	t.Parallel()
	forEachEngine(t, func(t *testing.T, rt backend) {
		s := install(t, rt)
		proxy := startOnProxy(t, s)
		s.start()
		_, err := s.Health(t.Context())
		require.Equal(t, http.StatusServiceUnavailable, problemOf(t, err).Status)
		require.NotEmpty(t, problemOf(t, err).Detail)
		s.apply("early", outageHooks)
		require.Contains(t, s.awaitEvent(eventsOf("early", client.EventPoolWarning), 1).Message, proxy.address)
		_, _, err = s.Claim(t.Context(), "early", "ada", 0)
		require.Equal(t, http.StatusServiceUnavailable, problemOf(t, err).Status)

		proxy.restore(t)
		testenv.AwaitTrue(t, "a healthy server", func() bool { // the answer is cached for some seconds
			_, err := s.Health(t.Context())
			return err == nil
		})
		c, _, err := s.Claim(t.Context(), "early", "ada", waitTimeout)
		require.NoError(t, err)
		require.Equal(t, client.ClaimActive, c.State)
		s.releaseAll("early")
		s.deleteWorkload("early")
		s.requireEnds()
		s.requireNothingLeft()
	})
}

// An outage of the engine fails pending claims and nothing else: active claims
// stay active, no hook runs again, and no incomplete container is left.
func TestEngineOutage(t *testing.T) {
	t.Parallel()
	forEachEngine(t, func(t *testing.T, rt backend) {
		s := install(t, rt)
		proxy := startOnProxy(t, s)
		proxy.restore(t)
		s.start()
		s.apply("kept", outageHooks)
		held, _, err := s.Claim(t.Context(), "kept", "ada", waitTimeout)
		require.NoError(t, err)
		was := rt.incarnation(t, s, held.Container)
		s.awaitEvent(eventsOf("kept", client.EventContainerCreated), 2)
		waiting, err := s.Containers(t.Context(), client.ContainerFilter{States: []client.ContainerState{client.ContainerIdle}})
		require.NoError(t, err)
		require.Len(t, waiting, 1)
		idle := waiting[0].ID

		proxy.cut()
		_, err = s.DestroyContainer(t.Context(), idle, false)
		require.NoError(t, err, "it is recorded, and done when the engine is available")
		again, created, err := s.Claim(t.Context(), "kept", "ada", 0)
		require.NoError(t, err, "an active claim needs no engine")
		require.False(t, created)
		require.Equal(t, held.ID, again.ID)
		_, _, err = s.Claim(t.Context(), "kept", "bob", 0)
		require.Contains(t, []client.Code{client.CodeEngineUnavailable, client.CodePoolNotReady}, problemOf(t, err).Code)
		s.awaitEvent(eventsOf("kept", client.EventPoolWarning), 1)

		proxy.restore(t)
		f := eventsOf("kept", client.EventContainerDestroyed)
		f.Container = idle
		s.awaitEvent(f, 1)
		_, _, err = s.Claim(t.Context(), "kept", "bob", waitTimeout)
		require.NoError(t, err)
		require.Equal(t, was, rt.incarnation(t, s, held.Container))
		released, err := s.Release(t.Context(), held.ID, false)
		require.NoError(t, err)
		require.Empty(t, released.Warnings)
		require.Equal(t, "c", outputsByHook(s.runsOf(client.RunFilter{Claim: held.ID}))["show"])
		s.releaseAll("kept")
		s.deleteWorkload("kept")
		s.requireEnds()
		s.requireNothingLeft()
	})
}

const hookOutageHooks = `
pool: { min_idle: 1, max_size: 2, reuse: wipe }
hooks: { post_claim: [{ name: hang, command: [BOX, hang, MARKER], timeout: 20s, on_error: continue }] }
`

// A hook whose connection breaks is not run again, and its outcome is known or
// recorded as unknown: a claim never becomes active on an assumption.
func TestEngineOutageDuringHook(t *testing.T) {
	t.Parallel()
	forEachEngine(t, func(t *testing.T, rt backend) {
		s := install(t, rt)
		proxy := startOnProxy(t, s)
		proxy.restore(t)
		s.start()
		marker := "cut-" + uuid.NewString()[:8] // with letters, so that it needs no quotes in YAML
		s.apply("cut", withMarker(hookOutageHooks, marker))
		answer := make(chan error, 1)
		go func() { // ends with its claim
			_, _, err := s.Claim(t.Context(), "cut", "ada", waitTimeout)
			answer <- err
		}()
		begun := s.awaitEvent(eventsOf("cut", client.EventHookStarted), 1)
		s.awaitProcess(begun.Container, marker)
		proxy.cut()
		proxy.restore(t)
		err := <-answer
		runs := s.runsOf(client.RunFilter{Claim: begun.Claim})
		require.Len(t, runs, 1)
		if err == nil {
			require.Equal(t, client.RunTimedOut, runs[0].State, "the server has reconnected")
			s.releaseAll("cut")
		} else {
			require.Contains(t, []client.RunState{client.RunUnknown, client.RunLost}, runs[0].State)
		}
		s.deleteWorkload("cut")
		s.requireEnds()
		s.requireNothingLeft()
	})
}
