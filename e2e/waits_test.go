package e2e

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/client"
)

// waitingWorkload has hooks at the points of waits, as other formats name them too.
const waitingWorkload = `
pool: { min_idle: 1, max_size: 2 }
hooks:
  on_blocking_start:
    - { name: save, shell: [APP, script], script: "append /state/log start", timeout: 60s }
  wait_signal:
    - { name: resume, command: [APP, append, /state/log, signal], timeout: 60s }
  wait_timeout:
    - { name: partial, command: [APP, append, /state/log, timeout], timeout: 60s }
    - { name: decide, command: [BOX, echo, '{"decision":"extend","by":"1s"}'], timeout: 60s }
`

// A program waits for a signal through the API and the command line, on each backend:
// its hooks run around the wait, a second program signals it, what is late is
// escalated, a claim that waits is not idle, and its release ends its waits.
func TestWaits(t *testing.T) {
	t.Parallel()
	forAnyBackend(t, func(t *testing.T, rt backend) {
		s := serve(t, rt)
		s.apply("waiting", waitingWorkload)
		c, _, err := s.Claim(t.Context(), "waiting", "ada", waitTimeout)
		require.NoError(t, err)

		var g errgroup.Group
		var waited commandResult
		g.Go(func() error {
			waited = s.cli("wait", c.ID, "--type", "consensus", "--timeout", "180s", "--name", "review", "--context", `{"task": "t"}`)
			return nil
		})
		s.awaitWait(c.ID, "review", client.WaitWaiting)
		require.Contains(t, s.mustCLI("get", "waits"), "review")
		s.requireNotIdle(c)
		require.Contains(t, s.mustCLI("signal", c.ID, "--name", "review", "--data", `{"action": "approved"}`), "received by wait")
		require.NoError(t, g.Wait())
		require.Equal(t, []any{0, `{"action":"approved"}` + "\n"}, []any{waited.code, waited.out}, waited.err)

		// It is extended once.
		begin := time.Now()
		late := s.cli("wait", c.ID, "--type", "validation", "--timeout", "4s")
		require.Equal(t, 8, late.code, late.err)
		require.Greater(t, time.Since(begin), 5*time.Second)
		s.awaitEvent(client.EventFilter{Claim: c.ID, Types: []client.EventType{client.EventWaitEscalated}}, 1)
		require.Equal(t, []string{
			"wait_start save", "wait_signal resume",
			"wait_start save", "wait_timeout partial", "wait_timeout decide", "wait_timeout partial", "wait_timeout decide",
		}, pointsOf(s.runsOf(client.RunFilter{Claim: c.ID})))

		kept, err := s.Signal(t.Context(), c.ID, "early", json.RawMessage(`1`))
		require.NoError(t, err)
		require.Equal(t, client.SignalResult{Kept: 1}, kept)
		require.Equal(t, "1\n", s.mustCLI("wait", c.ID, "--type", "dependency", "--timeout", "60s", "--name", "early"))

		var last client.Wait
		g.Go(func() (err error) {
			last, err = s.Wait(t.Context(), c.ID, client.WaitRequest{Type: "dependency", Timeout: time.Minute})
			return err
		})
		s.awaitWait(c.ID, "", client.WaitWaiting)
		_, err = s.Release(t.Context(), c.ID, false)
		require.NoError(t, err)
		require.NoError(t, g.Wait())
		require.Equal(t, client.WaitCancelled, last.State)
		again := s.cli("wait", c.ID, "--type", "dependency", "--timeout", "60s", "--request-id", last.Request)
		require.Equal(t, 10, again.code, again.err)
		s.requireEnds()
	})
}

// requireNotIdle checks that a claim that waits is kept while another one, which was
// made later, is released because its tenant is idle.
func (s *server) requireNotIdle(waits client.Claim) {
	s.t.Helper()
	idle := s.claimAs("waiting", "eve")
	s.apply("waiting", strings.Replace(waitingWorkload, "max_size: 2", "max_size: 2, claim_idle_ttl: 1s", 1))
	s.awaitEvent(client.EventFilter{Claim: idle.ID, Types: []client.EventType{client.EventClaimReleased}}, 1)
	s.apply("waiting", waitingWorkload)
	kept, err := s.GetClaim(s.t.Context(), waits.ID)
	require.NoError(s.t, err)
	require.Equal(s.t, client.ClaimActive, kept.State)
}

// pointsOf returns the point and the hook of each run.
func pointsOf(runs []client.Run) []string {
	var all []string
	for _, r := range runs {
		all = append(all, string(r.Point)+" "+r.Hook)
	}
	return all
}

// awaitWait waits until an open wait of a name is in a state, and returns it.
func (s *server) awaitWait(claim, name string, state client.WaitState) (found client.Wait) {
	s.t.Helper()
	s.eventually(func() bool {
		all, err := s.Waits(s.t.Context(), client.WaitFilter{Claim: claim, States: []client.WaitState{state}})
		require.NoError(s.t, err)
		for _, w := range all {
			if w.Name == name {
				found = w
				return true
			}
		}
		return false
	})
	return found
}

// waitSteps are the steps of a wait, before and after each of which servers are
// killed: those of hooks at each point.
var waitSteps = []string{"request", "signal", "expire", "hooks", "record"}

// waitKills are the points with hooks at which the servers are killed, and the ends of
// the waits.
var waitKills = []struct {
	point client.Point
	end   client.WaitState
	steps []string
}{
	{client.WaitStart, client.WaitSignalled, []string{"request", "signal", "hooks", "record"}},
	{client.WaitSignal, client.WaitSignalled, []string{"hooks", "record"}},
	{client.WaitTimeout, client.WaitTimedOut, []string{"expire", "hooks", "record"}},
}

// A server is killed before and after each step of a wait. The caller gets the end of
// its wait from the next one, each wait has one end, and no hook runs twice.
func TestWaitsKilledAtEachStep(t *testing.T) {
	t.Parallel()
	forAnyBackend(t, func(t *testing.T, rt backend) {
		path, err := crashingServer()
		require.NoError(t, err)
		s := install(t, rt)
		s.program = path
		s.start()
		for _, kill := range waitKills {
			id := strings.ReplaceAll(string(kill.point), "_", "-")
			s.apply(id, "pool: { min_idle: 1, max_size: 1, reuse: same_tenant }\nhooks: { "+string(kill.point)+": [{ name: h, command: [APP, append, /state/log, x], timeout: 60s }] }\n")
			c, _, err := s.Claim(t.Context(), id, "ada", waitTimeout)
			require.NoError(t, err)
			for _, step := range kill.steps {
				for _, when := range []string{"before", "after"} {
					s.kill()
					s.env = []string{"HOSTLER_CRASH_AT=wait/" + step + "/" + when}
					s.start()
					s.waitThroughCrash(c, kill.end, s.env[0])
				}
			}
			_, err = s.Release(t.Context(), c.ID, false)
			require.NoError(t, err)
		}
		s.requireEnds()
	})
}

// waitThroughCrash waits while the server is killed and started again.
func (s *server) waitThroughCrash(c client.Claim, end client.WaitState, failpoint string) {
	t := s.t
	t.Helper()
	request := client.WaitRequest{Type: "review", Timeout: waitTimeout, RequestID: strings.NewReplacer("/", "-", "=", "-").Replace(failpoint)}
	if end == client.WaitTimedOut {
		request.Timeout = 500 * time.Millisecond
	}
	stop := s.waitAndSignal(c, end, request)
	s.awaitCrash(failpoint)
	stop()
	s.env = nil
	s.start()
	stop = s.waitAndSignal(c, end, request)
	got, err := s.Wait(t.Context(), c.ID, request)
	stop()
	require.NoError(t, err, failpoint)
	require.Equal(t, end, got.State, failpoint)
	begun := map[string]bool{}
	for _, r := range s.runsOf(client.RunFilter{Claim: c.ID}) {
		if strings.HasPrefix(r.Wait, got.ID) {
			require.False(t, begun[string(r.Point)], "%s ran twice at %s", r.Hook, failpoint)
			begun[string(r.Point)] = true
			require.Equal(t, client.RunSucceeded, r.State, failpoint)
		}
	}
	require.Len(t, begun, 1, failpoint)
	ends := 0
	for _, e := range s.events(client.EventFilter{Claim: c.ID, Types: []client.EventType{
		client.EventWaitSignalled, client.EventWaitTimedOut, client.EventWaitAborted, client.EventWaitCancelled,
	}}) {
		if strings.Contains(string(e.Data), got.ID) {
			ends++
		}
	}
	require.Equal(t, 1, ends, failpoint)
}

// waitAndSignal has a program wait, and another one signal it if the wait is to end
// so, until the returned function is called. The server may be killed in the meantime.
func (s *server) waitAndSignal(c client.Claim, end client.WaitState, request client.WaitRequest) (stop func()) {
	ctx, cancel := context.WithCancel(s.t.Context())
	var g errgroup.Group
	server := s.Client // of this start
	g.Go(func() error {
		_, _ = server.Wait(ctx, c.ID, request)
		return nil
	})
	g.Go(func() error {
		for end == client.WaitSignalled && ctx.Err() == nil {
			all, err := server.Waits(ctx, client.WaitFilter{Claim: c.ID, States: []client.WaitState{client.WaitWaiting}})
			if err == nil && len(all) == 1 {
				_, _ = server.Signal(ctx, c.ID, "", json.RawMessage(`"x"`))
			}
			<-time.After(50 * time.Millisecond)
		}
		return nil
	})
	return func() { cancel(); _ = g.Wait() }
}
