package publish

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
)

// counted is a store that counts how often it is asked for an earlier request.
type counted struct {
	*memory
	mu      sync.Mutex // guards the fields below
	lookups int
	after   func() // nil, or is called once after the next read
}

func (c *counted) PublishedEarlier(ctx context.Context, claimID, requestID string, e activity.Event) (*activity.Event, error) {
	earlier, err := c.memory.PublishedEarlier(ctx, claimID, requestID, e)
	c.mu.Lock()
	after := c.after
	c.lookups++
	c.after = nil
	c.mu.Unlock()
	if after != nil {
		after()
	}
	return earlier, err
}

// A flood of requests that are refused reads the database no more often than the
// claim may publish. One of them that is a repeated one still has its answer, and one
// whose sender has left is not counted.
func TestRefusedRequestsReadLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const duration = 20 * time.Second
		m := &counted{memory: newMemory("ann-1")}
		s := m.service(nil)
		s.store = m
		event := Request{Type: "x", Origin: Origin{ID: "first"}}
		published, err := m.service(nil).Publish(t.Context(), "ann-1", event) // on another server
		require.NoError(t, err)
		flood, end := context.WithTimeout(t.Context(), duration)
		defer end()
		var all sync.WaitGroup
		for worker := range 8 {
			all.Go(func() {
				for n := 0; flood.Err() == nil; n++ {
					_, err := s.Publish(flood, "ann-1", Request{Type: "x", Origin: Origin{ID: fmt.Sprint(worker, ".", n)}})
					assert.True(t, err == nil || isLimit(err) || flood.Err() != nil, "%v", err)
					<-time.After(20 * time.Millisecond)
				}
			})
		}
		<-time.After(duration / 2)
		repeated, err := s.Publish(t.Context(), "ann-1", event)
		require.NoError(t, err)
		require.Equal(t, published, repeated)
		require.Less(t, time.Since(published.Time), duration/2+5*time.Second)
		<-flood.Done()
		dropped := s.gate.claims["ann-1"].pending
		all.Wait()
		require.Equal(t, dropped, s.gate.claims["ann-1"].pending)
		require.LessOrEqual(t, m.lookups, int((burst+duration)/eventInterval)+1)
		require.Greater(t, m.lookups, int(burst/eventInterval), "the flood was refused")
	})
}

// A request that is admitted reads nothing more than its change does.
func TestAdmittedRequestIsNotLookedUp(t *testing.T) {
	m := &counted{memory: newMemory("ann-1")}
	s := m.service(nil)
	s.store = m
	for n := range maxWaiting {
		_, err := s.Publish(t.Context(), "ann-1", Request{Type: "x", Origin: Origin{ID: fmt.Sprint(n)}})
		require.NoError(t, err)
	}
	require.Zero(t, m.lookups)
}

// A request that is repeated while the first one uses the last of the allowance has its
// answer, whatever was read before, and is not counted as dropped.
func TestRepeatedWhileTheFirstIsMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &counted{memory: newMemory("ann-1")}
		s := m.service(nil)
		s.store = m
		for range maxWaiting - 1 {
			_, err := s.Publish(t.Context(), "ann-1", Request{Type: "x"})
			require.NoError(t, err)
		}
		event := Request{Type: "x", Origin: Origin{ID: "e"}}
		m.after = func() {
			_, err := s.Publish(t.Context(), "ann-1", event)
			require.NoError(t, err)
		}
		for range 3 {
			_, err := s.Publish(t.Context(), "ann-1", event)
			require.NoError(t, err)
			require.Zero(t, s.gate.claims["ann-1"].pending)
		}
		require.Len(t, m.events, maxWaiting)
		require.Empty(t, s.gate.claims["ann-1"].waiting)
	})
}

// A claim whose end was missed is forgotten when the records are read again, and what
// was dropped is logged. A claim that exists keeps its number, which is recorded.
func TestMissedEndsOfClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		ids := []string{"live-1", "deleted-1", "ended-1", "ending-1"}
		m := newMemory(ids...)
		s := m.service(&log)
		for _, id := range ids {
			for range maxWaiting + 3 {
				_, _ = s.Publish(t.Context(), id, Request{Type: "x"})
			}
		}
		<-time.After(time.Hour)
		s.gate.sweepAt = 0
		s.gate.sweep(time.Now())
		require.Len(t, s.gate.claims, len(ids), "what was dropped is not recorded yet")
		m.hold = make(chan struct{})
		var change sync.WaitGroup
		change.Go(func() {
			_, err := s.Publish(t.Context(), "ending-1", Request{Type: "x"})
			assert.ErrorIs(t, err, claim.ErrNotActive)
		})
		synctest.Wait()
		m.mu.Lock()
		delete(m.claims, "deleted-1")
		for _, id := range []string{"ended-1", "ending-1"} {
			c := m.claims[id]
			c.State = claim.Released
			m.claims[id] = c
		}
		m.mu.Unlock()
		resync := s.EventHandlers().Resync
		require.NoError(t, resync(t.Context()))
		close(m.hold)
		change.Wait()
		require.Len(t, s.gate.claims, 1)
		require.Contains(t, s.gate.claims, "live-1")
		for _, id := range []string{"deleted", "ended"} {
			require.Contains(t, log.String(), "claim="+id+"-1 tenant="+id+" events=3")
		}
		_, err := s.Publish(t.Context(), "live-1", Request{Type: "x"})
		require.NoError(t, err)
		require.EqualValues(t, 3, m.allowances["live-1"].Dropped)

		m.mu.Lock()
		delete(m.claims, "live-1")
		m.mu.Unlock()
		require.NoError(t, resync(t.Context()))
		require.Empty(t, s.gate.claims)
		require.Contains(t, log.String(), "claim=live-1 tenant=live events=3", "also what is recorded")
	})
}
