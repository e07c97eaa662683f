package e2e

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/internal/testenv"
)

// deliverySteps are the steps of a delivery, before and after each of which
// servers are killed.
var deliverySteps = []string{"add", "start", "perform", "end"}

const auditedWorkload = `
pool: { min_idle: 1, max_size: 4, reuse: same_tenant }
hooks:
  events:
    - { name: audit, on: [claim, container], webhook: { url: "URL/ok" } }
    - { name: billing, on: [claim.activated, claim.released], webhook: { url: "URL/ok" } }
`

// A server is killed before and after each step of a delivery. The next one loses
// no event and repeats none under another key.
func TestDeliveriesKilledAtEachStep(t *testing.T) {
	t.Parallel()
	forBackends(t, []backend{processBackend{}}, func(t *testing.T, rt backend) {
		path, err := crashingServer()
		require.NoError(t, err)
		a := newAudit(t)
		s := install(t, rt, "--hooks-allow", "127.0.0.1")
		s.program = path
		s.start()
		s.apply("audited", a.workload())
		a.workUntil(func() bool { return a.claims > 5 }, s)
		for _, failpoint := range deliveryFailpoints(deliverySteps) {
			s.kill()
			s.startArmed(failpoint)
			a.workUntil(func() bool { return s.hasEnded() }, s)
			s.env = nil
			s.start()
		}
		a.check(s)
		s.requireEnds()
	})
}

// Of three servers on one database, the leader is killed again and again: before
// and after each step of a delivery, and at any moment. The next leader loses no
// event and repeats none under another key.
func TestDeliveriesOfKilledLeaders(t *testing.T) {
	t.Parallel()
	for _, steps := range [][]string{{"add", "start"}, {"perform", "end"}} {
		t.Run(strings.Join(steps, " "), func(t *testing.T) {
			t.Parallel()
			killLeaders(t, deliveryFailpoints(steps))
		})
	}
}

// killLeaders kills the first leader at any moment, and those after it at a
// failpoint each.
func killLeaders(t *testing.T, failpoints []string) {
	path, err := crashingServer()
	require.NoError(t, err)
	a := newAudit(t)
	f := serveFleet(t, 0, "--hooks-allow", "127.0.0.1")
	for range 3 {
		f.add(f.store)
	}
	leader, _ := f.leader()
	leader.apply("audited", a.workload())
	a.workUntil(func() bool { return a.claims > 10 }, f.servers...)

	armed := map[*server]string{}
	next := 0
	restart := func(s *server) { // with a failpoint that no leader has reached yet
		s.cmd.Process.Kill() //nolint:errcheck // it may be reaching its failpoint
		<-s.ended
		s.program, s.env = path, []string{"HOSTLER_STORE=" + f.store}
		if len(failpoints) == 0 {
			s.start()
			return
		}
		armed[s] = failpoints[next%len(failpoints)]
		next++
		s.startArmed(armed[s])
	}
	for _, s := range slices.DeleteFunc(slices.Clone(f.servers), func(s *server) bool { return s == leader }) {
		restart(s)
	}
	restart(leader)
	kills := 1
	a.workUntil(func() bool {
		for _, s := range f.servers {
			if s.hasEnded() {
				t.Logf("the leader was killed at %s", armed[s])
				kills++
				failpoints = slices.DeleteFunc(failpoints, func(p string) bool { return p == armed[s] })
				restart(s)
			}
		}
		return len(failpoints) == 0
	}, f.servers...)
	for _, s := range f.servers {
		restart(s)
	}
	begun := a.claims
	a.workUntil(func() bool { return a.claims > begun+10 }, f.servers...)
	t.Logf("%d leaders were killed, %d claims were released", kills, a.claims)
	a.check(f.servers[0])
	f.servers[0].requireEnds()
	f.servers[0].requireNoGaps()
}

func deliveryFailpoints(steps []string) (all []string) {
	for _, step := range steps {
		all = append(all, "delivery/"+step+"/before", "delivery/"+step+"/after")
	}
	return all
}

// hasEnded reports whether the server's process has exited.
func (s *server) hasEnded() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// audit is what tenants do, and what a receiver must learn of it.
type audit struct {
	*receiver
	t      *testing.T
	claims int
}

func newAudit(t *testing.T) *audit { return &audit{receiver: newReceiver(t), t: t} }

func (a *audit) workload() string { return strings.ReplaceAll(auditedWorkload, "URL", a.URL) }

// workUntil has tenants claim and release on the servers in turn until a
// condition holds. Calls fail while servers are killed.
func (a *audit) workUntil(condition func() bool, servers ...*server) {
	a.t.Helper()
	limit := testenv.Context(a.t)
	for i := 0; !condition(); i++ {
		require.NoError(a.t, context.Cause(limit))
		a.claimOnce(servers[i%len(servers)], fmt.Sprintf("tenant-%d", i%3))
		<-time.After(250 * time.Millisecond) // what a dead leader leaves is a backlog for the next one
	}
}

func (a *audit) claimOnce(s *server, tenant string) {
	ctx := a.t.Context()
	c, _, err := s.Claim(ctx, "audited", tenant, 10*time.Second)
	if err != nil {
		return
	}
	if _, err = s.Release(ctx, c.ID, false); err == nil {
		a.claims++
	}
}

// check compares the events with what has arrived.
func (a *audit) check(s *server) {
	t := a.t
	t.Helper()
	for i := range 3 {
		s.releaseTenant("audited", fmt.Sprintf("tenant-%d", i))
	}
	a.awaitQuiet(s)
	expected := a.expected(s)
	all := s.awaitDeliveries("audited")
	types := map[string]string{}
	ids := map[string]string{}
	for _, d := range all {
		require.Equal(t, client.DeliverySucceeded, d.State, "%+v", d)
		key := fmt.Sprint(d.Hook, " ", d.Seq)
		require.NotContains(t, ids, key, "two deliveries")
		types[key], ids[key] = string(d.Event), d.ID
	}
	require.Equal(t, expected, types, "one delivery for each event and hook")
	require.Equal(t, ids, a.arrived(), "each has arrived, with its own key only")
	a.requireLaneOrder(t)
	t.Logf("%d deliveries, %d requests", len(all), len(a.envelopes(t)))
}

// awaitQuiet waits until the pool needs no other container, and each event of it and
// of the claims was delivered: nothing happens any more.
func (a *audit) awaitQuiet(s *server) {
	a.t.Helper()
	testenv.AwaitTrue(a.t, "the end of each delivery, and a full pool", func() bool {
		containers, err := s.Containers(a.t.Context(), client.ContainerFilter{Workload: "audited"})
		require.NoError(a.t, err)
		unused := 0
		for _, c := range containers {
			if c.State != client.ContainerIdle {
				return false
			}
			if c.Tenant == "" {
				unused++
			}
		}
		expected := a.expected(s)
		ended := []client.DeliveryState{client.DeliverySucceeded, client.DeliveryFailed, client.DeliveryDiscarded}
		all, err := s.Deliveries(a.t.Context(), client.DeliveryFilter{Workload: "audited", States: ended})
		require.NoError(a.t, err)
		return unused > 0 && len(all) >= len(expected) && len(a.arrived()) >= len(expected)
	})
}

// expected returns the types of the events that are to be delivered, by hook and event.
func (a *audit) expected(s *server) map[string]string {
	a.t.Helper()
	expected := map[string]string{}
	for _, e := range s.events(eventsOf("audited", "claim", "container")) {
		expected[fmt.Sprint("audit ", e.Seq)] = string(e.Type)
		if e.Type == client.EventClaimActivated || e.Type == client.EventClaimReleased {
			expected[fmt.Sprint("billing ", e.Seq)] = string(e.Type)
		}
	}
	return expected
}

// arrived returns the key with which each event arrived, by hook and event. It
// fails if one has two.
func (a *audit) arrived() map[string]string {
	keys := map[string]string{}
	for _, e := range a.envelopes(a.t) {
		name := fmt.Sprint(e.Hook, " ", e.Seq)
		require.Equal(a.t, e.RunID, cmp.Or(keys[name], e.RunID), "%s has two keys", name)
		keys[name] = e.RunID
	}
	return keys
}
