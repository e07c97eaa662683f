package e2e

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/api/client"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/hooks"
)

// policy is an on_error policy, and the outcome of a point whose first hook fails
// with it.
type policy struct {
	name  string
	hook  string // in the workload file, with the fields of the policy
	fails bool   // whether the point fails
	runs  []hooks.RunState
}

func policies() []policy {
	bad := "{ name: bad, command: [BOX, exit, '3'], on_error: "
	return []policy{
		{"fail", bad + "fail }", true, []hooks.RunState{hooks.Failed, hooks.Skipped}},
		{"continue", bad + "continue }", false, []hooks.RunState{hooks.Failed, hooks.Succeeded}},
		{"retry", bad + "retry, retries: 1 }", true, []hooks.RunState{hooks.Failed, hooks.Failed, hooks.Skipped}},
		{"flaky", "{ name: bad, command: [APP, flaky, /state/tried], on_error: retry, retries: 2 }",
			false, []hooks.RunState{hooks.Failed, hooks.Succeeded, hooks.Succeeded}},
	}
}

// pointScenarios returns, for each point, a function that runs a flow with the
// point and checks the effect of its failure.
func pointScenarios() map[hooks.Point]func(s *server, id string, p policy) {
	return map[hooks.Point]func(s *server, id string, p policy){
		hooks.PostCreate: (*server).checkCreateFailure,
		hooks.PostClaim:  (*server).checkClaimFailure,
		hooks.PreRelease: (*server).checkReleaseFailure,
		hooks.PreDestroy: (*server).checkDestroyFailure,
	}
}

// At each point each policy has its documented effect, every attempt that starts
// ends once, and nothing is left behind.
func TestErrorPolicies(t *testing.T) {
	t.Parallel()
	forEachBackend(t, func(t *testing.T, rt backend) {
		s := serve(t, rt)
		t.Run("at", func(t *testing.T) {
			for point, end := range pointScenarios() {
				for _, p := range policies() {
					id := fmt.Sprintf("%s-%s", p.name, map[hooks.Point]string{
						hooks.PostCreate: "make", hooks.PostClaim: "claim", hooks.PreRelease: "release", hooks.PreDestroy: "destroy",
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
func (s *server) requireAttempts(id string, point hooks.Point, p policy) {
	s.t.Helper()
	first := s.events(eventsOf(id, activity.ContainerCreating))[0].Container
	ends := map[hooks.RunState]activity.Type{
		hooks.Failed: activity.HookFailed, hooks.Succeeded: activity.HookCompleted, hooks.Skipped: activity.HookSkipped,
	}
	var got []hooks.RunState
	var want []activity.Type
	for _, r := range s.runsOf(hooks.RunFilter{Container: first, Point: point}) {
		got = append(got, r.State)
		if r.State != hooks.Skipped {
			want = append(want, activity.HookStarted)
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
		s.awaitEvent(eventsOf(id, activity.ContainerCreated), 1)
		return
	}
	warning := s.awaitEvent(eventsOf(id, activity.PoolWarning), 1)
	require.Contains(s.t, warning.Message, `hook "bad"`)
	require.Contains(s.t, warning.Message, "exited with code 3")
	s.awaitEvent(eventsOf(id, activity.ContainerDestroyed), 1)
	require.Empty(s.t, s.events(eventsOf(id, activity.ContainerCreated)))
}

// A claim whose post_claim fails returns the error to its caller, and its
// container is destroyed.
func (s *server) checkClaimFailure(id string, p policy) {
	s.t.Helper()
	s.awaitEvent(eventsOf(id, activity.ContainerCreated), 1)
	c, _, err := s.Claim(s.t.Context(), id, "ada", 0)
	if !p.fails {
		require.NoError(s.t, err)
		require.Equal(s.t, claim.Active, c.State)
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
	require.Equal(s.t, api.HookFailed, failed.Code)
	require.Equal(s.t, "post_claim", failed.Step)
	require.Equal(s.t, 3, *failed.Run.ExitCode)
	container := s.awaitEvent(eventsOf(id, activity.ClaimFailed), 1).Container
	f := eventsOf(id, activity.ContainerDestroyed)
	f.Container = container
	s.awaitEvent(f, 1)
}

// A release continues with a warning when its pre_release fails. A failed hook
// with on_error continue is a warning too.
func (s *server) checkReleaseFailure(id string, p policy) {
	s.t.Helper()
	s.awaitEvent(eventsOf(id, activity.ContainerCreated), 1)
	c, _, err := s.Claim(s.t.Context(), id, "ada", 0)
	require.NoError(s.t, err)
	c, err = s.Release(s.t.Context(), c.ID, false)
	require.NoError(s.t, err)
	require.Equal(s.t, claim.Released, c.State)
	warned := p.fails || p.name == "continue"
	require.Equal(s.t, warned, len(c.Warnings) > 0, "warnings: %q", c.Warnings)
	if warned {
		require.Contains(s.t, c.Warnings[0], "exited with code 3")
	}
	s.awaitEvent(eventsOf(id, activity.ContainerReleased), 1)
}

// A container is destroyed whether or not its pre_destroy fails.
func (s *server) checkDestroyFailure(id string, _ policy) {
	s.t.Helper()
	c := s.awaitEvent(eventsOf(id, activity.ContainerCreated), 1).Container
	_, err := s.DestroyContainer(s.t.Context(), c, false)
	require.NoError(s.t, err)
	s.awaitEvent(eventsOf(id, activity.ContainerDestroyed), 1)
}
