package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
)

// commandsWorkload has one container, which all tenants get in turn. The command
// of one hook runs until it is ended, that of the other fails and is to run again
// a second later.
const commandsWorkload = `
pool: { min_idle: 1, max_size: 1, reuse: wipe }
hooks:
  events:
    - { name: long, on: [claim.activated], command: [APP, hang, MARKER], timeout: 100s, grace: 0s }
    - { name: again, on: [claim.activated], shell: [APP, script], script: "append /state/seen x\nfail", on_error: retry }
`

// Commands of event hooks run in the claim of their event and in no other: not in
// the next tenant's, which gets the container between the event and an attempt, or
// while a command runs; also if the file with the hooks was replaced by then, or
// an operator destroys the container.
func TestEventCommandsStayInTheirClaim(t *testing.T) {
	t.Parallel()
	forAnyBackend(t, func(t *testing.T, rt backend) {
		s := serve(t, rt)
		marker := "event-command-" + s.instance
		file := strings.ReplaceAll(commandsWorkload, "MARKER", marker)
		for round, how := range []string{"", "removed", "", "destroyed", ""} {
			s.apply("commands", file)
			c, _, err := s.Claim(t.Context(), "commands", fmt.Sprintf("tenant-%d", round), waitTimeout)
			require.NoError(t, err)
			got, err := s.engine.Exec(t.Context(), c.Container, runtime.Command{Args: []string{rt.program(t, "app"), "files", "/state"}})
			require.NoError(t, err)
			require.LessOrEqual(t, strings.Count(got.Stdout.String(), "seen"), 1)
			s.awaitAttempts(c.ID)
			s.awaitProcess(c.Container, marker)
			switch how {
			case "removed":
				s.apply("commands", file[:strings.Index(file, "hooks:")])
			case "destroyed":
				_, err = s.DestroyContainer(t.Context(), c.Container, true)
				require.NoError(t, err)
			}
			_, err = s.Release(t.Context(), c.ID, false)
			require.NoError(t, err)
			if how != "destroyed" {
				require.False(t, rt.hasProcess(t, c.Container, marker), "the release ends it")
			}
		}
		c, _, err := s.Claim(t.Context(), "commands", "last", waitTimeout)
		require.NoError(t, err)
		<-time.After(3 * time.Second) // longer than the delay before a second attempt
		_, err = s.Release(t.Context(), c.ID, false)
		require.NoError(t, err)
		s.awaitDeliveries("commands")
		s.requireEventCommandsInClaims("commands")
		s.requireEnds()
	})
}

// awaitAttempts waits until both commands of a claim have been started, and one
// of them waits for its next attempt.
func (s *server) awaitAttempts(claim string) {
	s.t.Helper()
	testenv.AwaitTrue(s.t, "both commands to start", func() bool {
		all, err := s.Deliveries(s.t.Context(), client.DeliveryFilter{Claim: claim})
		require.NoError(s.t, err)
		started := 0
		for _, d := range all {
			if d.Hook == "long" && d.State == client.DeliveryRunning || d.Hook == "again" && d.Failures > 0 {
				started++
			}
		}
		return started == 2
	})
}

// requireEventCommandsInClaims checks in the log that each command of an event hook
// started while its claim was active, and had ended when the container was
// claimed again.
func (s *server) requireEventCommandsInClaims(workload string) {
	s.t.Helper()
	active, holder := map[string]bool{}, map[string]string{} // by claim, by container
	running := map[string]string{}                           // claims, by run
	attempts := 0
	for _, e := range s.events(eventsOf(workload)) {
		switch e.Type {
		case client.EventClaimActivated:
			active[e.Claim] = true
		case client.EventClaimReleasing:
			active[e.Claim] = false
		case client.EventContainerClaimed:
			holder[e.Container] = e.Claim
		case client.EventHookStarted:
			if e.Depth > 0 {
				attempts++
				require.True(s.t, active[e.Claim], "%s\n%s", e.Message, s.eventLog())
				require.Equal(s.t, holder[e.Container], e.Claim)
				running[e.Run] = e.Claim
			}
		case client.EventHookCompleted, client.EventHookFailed:
			delete(running, e.Run)
		}
		if e.Type == client.EventContainerClaimed || e.Type == client.EventContainerWiped {
			for run, claim := range running {
				require.Equal(s.t, e.Claim, claim, "run %s is still running\n%s", run, s.eventLog())
			}
		}
	}
	require.GreaterOrEqual(s.t, attempts, 8)
}
