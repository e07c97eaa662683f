package delivery_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/delivery"
	"github.com/hostler/hostler/hooks/runner"
	"github.com/hostler/hostler/store"
)

// The last event of a window is delivered when the window has passed, and before
// the last event of its container.
func TestDebounce(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.start()
		h := request("h", "pool.warning")
		h.Debounce = 10 * time.Second
		r.apply(h, request("end", "container.destroyed"))
		for range 100 {
			r.record(activity.PoolWarning, "a")
			<-time.After(10 * time.Millisecond)
		}
		require.Empty(t, r.executor.take())
		<-time.After(10 * time.Second)
		synctest.Wait()
		require.Equal(t, "h/a.1", r.executor.take())
		require.Equal(t, []string{"h/a/101 succeeded"}, r.deliveries())

		for range 30 {
			r.record(activity.PoolWarning, "b")
			<-time.After(5 * time.Second)
		}
		synctest.Wait()
		require.Equal(t, "h/b.1", r.executor.take(), "a stream of 150 s")
		r.record(activity.PoolWarning, "c")
		r.record(activity.ContainerDestroyed, "c")
		require.Equal(t, "end/c.1 h/c.1", sorted(r.executor.take()))
	})
}

// An event of one claim never takes the place of one of an earlier claim of the
// container, also if both are read from the log at once.
func TestDebounceEndsWithClaim(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.start()
		h := request("h", "pool.warning")
		h.Debounce = 10 * time.Second
		r.apply(h)
		of := func(t activity.Type, claim string) activity.Event {
			return activity.Event{Type: t, Workload: "web", Container: "a", Claim: claim}
		}
		require.NoError(t, r.db.Append(t.Context(),
			of(activity.PoolWarning, "1"), of(activity.ClaimReleased, "1"), of(activity.PoolWarning, "2")))
		<-time.After(time.Second)
		synctest.Wait()
		require.Equal(t, "h/a.1", r.executor.take(), "of the first claim")
		<-time.After(10 * time.Second)
		synctest.Wait()
		require.Equal(t, "h/a.1", r.executor.take(), "of the second claim")
		require.Equal(t, []string{"h/a/2 succeeded", "h/a/4 succeeded"}, r.deliveries())
	})
}

// lateEvents is a store where a function is called when the event of an attempt
// is read.
type lateEvents struct {
	delivery.Store
	onRead func()
}

func (s lateEvents) Event(ctx context.Context, seq int64) (activity.Event, error) {
	s.onRead()
	return s.Store.Event(ctx, seq)
}

// An event that takes the place of a debounced one while that is about to be
// attempted is delivered, too.
func TestDebounceDuringAttempt(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		once := sync.OnceFunc(func() { r.record(activity.PoolWarning, "a") })
		r.wrap = func(db *store.DB) delivery.Store { return lateEvents{db, once} }
		require.NoError(t, r.db.Close())
		r.open()
		r.start()
		h := request("h", "pool.warning")
		h.Debounce = 10 * time.Second
		r.apply(h)
		r.record(activity.PoolWarning, "a")
		<-time.After(time.Minute)
		synctest.Wait()
		var seqs []int64
		for _, a := range r.executor.attempts {
			var e runner.Envelope
			require.NoError(t, json.Unmarshal(a.Envelope, &e))
			seqs = append(seqs, e.Seq)
		}
		require.Contains(t, seqs, int64(3), "the last event")
		require.NotContains(t, r.deliveries(), "h/a/2 running")
	})
}
