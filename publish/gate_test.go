package publish

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
)

// enter has the gate admit a change.
func enter(t *testing.T, g *gate, id string, now time.Time) {
	t.Helper()
	limit, mayBeRepeated := g.enter(id, 1, now, false)
	require.Nil(t, limit)
	require.False(t, mayBeRepeated)
}

// Two claims of a tenant that publish on two servers read the clock in one order
// and use the tenant's allowance in the other one. That is no new burst.
func TestAllowanceOfEarlierTime(t *testing.T) {
	now := time.Unix(1e9, 0)
	for _, ahead := range []time.Duration{time.Nanosecond, 5 * time.Millisecond, minSetBack} {
		var a Allowance
		for range 50 {
			require.Zero(t, a.Take(now, bytesPerSec/5))
		}
		require.Equal(t, ahead+eventInterval, a.Take(now.Add(-ahead), 0), ahead)
	}
}

// The first dropped event of a claim is logged, and no other one, however many
// changes are made while others are dropped.
func TestFirstDropIsReportedOnce(t *testing.T) {
	now := time.Unix(1e9, 0)
	var g gate
	full := Allowance{Events: now.Add(burst)}
	g.update(Result{Claim: claim.Claim{ID: "c", Tenant: "t"}, Now: now, ByClaim: full}, now)
	reported := 0
	for range 10 {
		limit, _ := g.enter("c", 1, now, true)
		require.NotNil(t, limit)
		if limit.isFirst {
			reported++
		}
		require.EqualValues(t, 1, limit.Dropped)
		require.EqualValues(t, 1, g.takeDropped("c"), "a change that adds it is being made")
	}
	require.Equal(t, 1, reported)
}

// What is refused while the first changes of a claim are being made counts, and is
// logged once.
func TestRefusedBeforeFirstIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		m := newMemory("ann-1")
		s := m.service(&log)
		m.hold = make(chan struct{})
		var g errgroup.Group
		for range maxWaiting {
			g.Go(func() error {
				_, err := s.Publish(t.Context(), "ann-1", Request{Type: "x"})
				return err
			})
		}
		synctest.Wait()
		for i := range 30 {
			_, err := s.Publish(t.Context(), "ann-1", Request{Type: "x"})
			limit, ok := errors.AsType[*LimitError](err)
			require.True(t, ok, "%v", err)
			require.EqualValues(t, i+1, limit.Dropped)
		}
		require.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
		close(m.hold)
		require.NoError(t, g.Wait())
		<-time.After(time.Second)
		_, err := s.Publish(t.Context(), "ann-1", Request{Type: "x"})
		require.NoError(t, err)
		require.EqualValues(t, 30, m.allowances["ann-1"].Dropped)
	})
}

// Nothing is kept of a claim that ends while changes of it are being made, or that
// there is not.
func TestGateForgetsEndedClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		m := newMemory("ann-1")
		s := m.service(&log)
		m.hold = make(chan struct{})
		var g errgroup.Group
		for range maxWaiting {
			g.Go(func() error {
				_, err := s.Publish(t.Context(), "ann-1", Request{Type: "x"})
				return err
			})
		}
		synctest.Wait()
		_, err := s.Publish(t.Context(), "ann-1", Request{Type: "x"})
		require.True(t, isLimit(err))
		s.EventHandlers().On[activity.ClaimReleased](activity.Event{Claim: "ann-1"})
		require.Contains(t, log.String(), "events=1")
		_, err = s.Publish(t.Context(), "ann-1", Request{Type: "x"})
		require.True(t, isLimit(err), "no more of it wait than before")
		close(m.hold)
		require.NoError(t, g.Wait())
		_, err = s.Publish(t.Context(), "none", Request{Type: "x"})
		require.Error(t, err)
		require.Empty(t, s.gate.claims)
	})
}

// The number of dropped events is not lost if what is kept is reduced while a change
// that adds it is being made, and fails.
func TestDroppedSurvivesSweep(t *testing.T) {
	now := time.Unix(1e9, 0)
	var g gate
	known := Result{Claim: claim.Claim{ID: "c", Tenant: "t"}, Now: now}
	enter(t, &g, "c", now)
	g.update(known, now)
	g.leave("c")
	require.EqualValues(t, 1, g.drop("c", "claim", time.Second).Dropped)
	enter(t, &g, "c", now)
	n := g.takeDropped("c")
	require.EqualValues(t, 1, n)
	g.sweepAt = 0
	enter(t, &g, "d", now)
	g.update(Result{Claim: claim.Claim{ID: "d", Tenant: "t"}, Now: now}, now)
	g.leave("d")
	g.addDropped("c", n)
	g.leave("c")
	require.Zero(t, g.claims["c"].waiting)
	require.EqualValues(t, 1, g.takeDropped("c"))
	g.sweepAt = 0
	g.update(Result{Claim: claim.Claim{ID: "d", Tenant: "t"}, Now: now}, now)
	require.NotContains(t, g.claims, "c", "it is as good as unknown")
}

// One claim has one entry, however many of its changes begin and end at once, and
// none of them is counted after that.
func TestGateRace(t *testing.T) {
	now := time.Unix(1e9, 0)
	var g gate
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 200 {
				if limit, _ := g.enter("c", 1, now, true); limit != nil {
					continue
				}
				n := g.takeDropped("c")
				g.addDropped("c", n)
				g.update(Result{Claim: claim.Claim{ID: "c", Tenant: "t"}, Now: now}, now)
				if i%10 == 0 {
					g.forget("c")
				}
				g.leave("c")
			}
		})
	}
	all.Wait()
	g.forget("c")
	require.Empty(t, g.claims)
}
