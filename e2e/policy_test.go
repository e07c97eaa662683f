package e2e

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
)

// policy is an on_error policy, and the outcome of a point whose first hook fails
// with it.
type policy struct {
	name  string
	hook  string // in the workload file, with the fields of the policy
	fails bool   // whether the point fails
	runs  []client.RunState
}

func policies() []policy {
	bad := "{ name: bad, command: [BOX, exit, '3'], on_error: "
	return []policy{
		{"fail", bad + "fail }", true, []client.RunState{client.RunFailed, client.RunSkipped}},
		{"continue", bad + "continue }", false, []client.RunState{client.RunFailed, client.RunSucceeded}},
		{"retry", bad + "retry, retries: 1 }", true, []client.RunState{client.RunFailed, client.RunFailed, client.RunSkipped}},
		{"flaky", "{ name: bad, command: [APP, flaky, /state/tried], on_error: retry, retries: 2 }",
			false, []client.RunState{client.RunFailed, client.RunSucceeded, client.RunSucceeded}},
	}
}

// pointScenarios returns, for each point, a function that runs a flow with the
// point and checks the effect of its failure.
func pointScenarios() map[client.Point]func(s *server, id string, p policy) {
	return map[client.Point]func(s *server, id string, p policy){
		client.PostCreate: (*server).checkCreateFailure,
		client.PostClaim:  (*server).checkClaimFailure,
		client.PreRelease: (*server).checkReleaseFailure,
		client.PreDestroy: (*server).checkDestroyFailure,
	}
}

// At each point each policy has its documented effect, every attempt that starts
// ends once, and nothing is left behind.
func TestErrorPolicies(t *testing.T) {
	t.Parallel()
	forAnyBackend(t, func(t *testing.T, rt backend) {
		s := serve(t, rt)
		t.Run("at", func(t *testing.T) {
			for point, end := range pointScenarios() {
				for _, p := range policies() {
					id := fmt.Sprintf("%s-%s", p.name, map[client.Point]string{
						client.PostCreate: "make", client.PostClaim: "claim", client.PreRelease: "release", client.PreDestroy: "destroy",
					}[point])
					t.Run(id, func(t *testing.T) {
						t.Parallel()
						mine := *s
						mine.t = t
						mine.apply(id, fmt.Sprintf("pool: { min_idle: 1, max_size: 1, reuse: wipe }\nhooks:\n"+
							"  %s:\n    - %s\n    - { name: after, command: [BOX, echo, after] }\n", point, p.hook))
						end(&mine, id, p)
						mine.deleteWorkload(id)
						mine.requireAttempts(id, point, p)
					})
				}
			}
		})
		s.requireEnds()
		s.requireNothingLeft()
	})
}

// requireAttempts checks the runs of a point in the first container against the
// policy, and its events against the runs.
func (s *server) requireAttempts(id string, point client.Point, p policy) {
	s.t.Helper()
	first := s.events(eventsOf(id, client.EventContainerCreating))[0].Container
	ends := map[client.RunState]client.EventType{
		client.RunFailed: client.EventHookFailed, client.RunSucceeded: client.EventHookCompleted, client.RunSkipped: client.EventHookSkipped,
	}
	var got []client.RunState
	var want []client.EventType
	for _, r := range s.runsOf(client.RunFilter{Container: first, Point: point}) {
		got = append(got, r.State)
		if r.State != client.RunSkipped {
			want = append(want, client.EventHookStarted)
		}
		want = append(want, ends[r.State])
	}
	require.Equal(s.t, p.runs, got)
	f := eventsOf(id, "hook")
	f.Container, f.Point = first, string(point)
	require.Equal(s.t, want, eventTypes(s.events(f)))
}

// A container whose post_create fails is destroyed and never idle, and the pool
// reports the error.
func (s *server) checkCreateFailure(id string, p policy) {
	s.t.Helper()
	if !p.fails {
		s.awaitEvent(eventsOf(id, client.EventContainerCreated), 1)
		return
	}
	warning := s.awaitEvent(eventsOf(id, client.EventPoolWarning), 1)
	require.Contains(s.t, warning.Message, `hook "bad"`)
	require.Contains(s.t, warning.Message, "exited with code 3")
	s.awaitEvent(eventsOf(id, client.EventContainerDestroyed), 1)
	require.Empty(s.t, s.events(eventsOf(id, client.EventContainerCreated)))
}

// A claim whose post_claim fails returns the error to its caller, and its
// container is destroyed.
func (s *server) checkClaimFailure(id string, p policy) {
	s.t.Helper()
	s.awaitEvent(eventsOf(id, client.EventContainerCreated), 1)
	c, _, err := s.Claim(s.t.Context(), id, "ada", 0)
	if !p.fails {
		require.NoError(s.t, err)
		require.Equal(s.t, client.ClaimActive, c.State)
		if p.name == "continue" {
			require.Len(s.t, c.Warnings, 1)
			require.Contains(s.t, c.Warnings[0], "exited with code 3")
		} else {
			require.Empty(s.t, c.Warnings, "the last attempt succeeded")
		}
		_, err = s.Release(s.t.Context(), c.ID, false)
		require.NoError(s.t, err)
		return
	}
	failed, ok := errors.AsType[*client.Error](err)
	require.True(s.t, ok, "%v", err)
	require.Equal(s.t, client.CodeHookFailed, failed.Code)
	require.Equal(s.t, "post_claim", failed.Step)
	require.Equal(s.t, 3, *failed.Run.ExitCode)
	container := s.awaitEvent(eventsOf(id, client.EventClaimFailed), 1).Container
	f := eventsOf(id, client.EventContainerDestroyed)
	f.Container = container
	s.awaitEvent(f, 1)
}

// A release continues with a warning when its pre_release fails. A failed hook
// with on_error continue is a warning too.
func (s *server) checkReleaseFailure(id string, p policy) {
	s.t.Helper()
	s.awaitEvent(eventsOf(id, client.EventContainerCreated), 1)
	c, _, err := s.Claim(s.t.Context(), id, "ada", 0)
	require.NoError(s.t, err)
	c, err = s.Release(s.t.Context(), c.ID, false)
	require.NoError(s.t, err)
	require.Equal(s.t, client.ClaimReleased, c.State)
	warned := p.fails || p.name == "continue"
	require.Equal(s.t, warned, len(c.Warnings) > 0, "warnings: %q", c.Warnings)
	if warned {
		require.Contains(s.t, c.Warnings[0], "exited with code 3")
	}
	s.awaitEvent(eventsOf(id, client.EventContainerReleased), 1)
}

// A container is destroyed whether or not its pre_destroy fails.
func (s *server) checkDestroyFailure(id string, _ policy) {
	s.t.Helper()
	c := s.awaitEvent(eventsOf(id, client.EventContainerCreated), 1).Container
	_, err := s.DestroyContainer(s.t.Context(), c, false)
	require.NoError(s.t, err)
	s.awaitEvent(eventsOf(id, client.EventContainerDestroyed), 1)
}

// A hook that runs longer than its timeout fails the claim with an error that names
// the timeout, and no process of it is left.
func TestHookTimeout(t *testing.T) {
	t.Parallel()
	forAnyBackend(t, func(t *testing.T, rt backend) {
		s := serve(t, rt)
		marker := "slow-" + uuid.NewString()[:8]
		s.apply("slow", withMarker("pool: { min_idle: 0, max_size: 1 }\n"+
			"hooks: { post_claim: [{ name: slow, command: [BOX, hang, MARKER], timeout: 300ms }] }\n", marker))
		_, _, err := s.Claim(t.Context(), "slow", "ada", waitTimeout)
		failed := problemOf(t, err)
		require.Equal(t, client.CodeHookFailed, failed.Code)
		require.Equal(t, "post_claim", failed.Step)
		require.Contains(t, failed.Detail, `hook "slow" ran longer than its timeout`)
		require.True(t, failed.Run.TimedOut)
		s.awaitEvent(eventsOf("slow", client.EventContainerDestroyed), 1)
		require.Empty(t, processes(t, marker))
		s.requireEnds()
	})
}
