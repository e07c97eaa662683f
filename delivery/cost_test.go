package delivery_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/delivery"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/runner"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/store"
)

// countedStore counts the calls of a service that events cause.
type countedStore struct {
	*store.DB
	calls *atomic.Int64
}

func (s countedStore) FanOut(ctx context.Context, limit int, match func(context.Context, []activity.Event) ([]delivery.Change, error)) (isActive, more bool, err error) {
	s.calls.Add(1)
	return s.DB.FanOut(ctx, limit, match)
}

func (s countedStore) FirstDelivery(ctx context.Context, k delivery.Key) (delivery.Delivery, error) {
	s.calls.Add(1)
	return s.DB.FirstDelivery(ctx, k)
}

func (s countedStore) Event(ctx context.Context, seq int64) (activity.Event, error) {
	s.calls.Add(1)
	return s.DB.Event(ctx, seq)
}

// While no workload has event hooks, events cause no access to the database:
// before a workload has some, and after none has any more.
func TestNoHooksCostNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		require.NoError(t, r.db.Close())
		var calls atomic.Int64
		r.wrap = func(db *store.DB) delivery.Store { return countedStore{db, &calls} }
		r.open()
		r.start()
		<-time.After(time.Second)
		synctest.Wait()
		record := func() int64 {
			calls.Store(0)
			for range 20 {
				r.record(activity.PoolWarning, "a", "b")
			}
			return calls.Load()
		}
		require.Zero(t, record())
		r.apply(request("h", "pool"))
		require.NotZero(t, record())
		r.apply()
		<-time.After(time.Minute)
		synctest.Wait()
		require.Zero(t, record(), "the hook was removed")
	})
}

// A server makes at most 64 attempts at once, those of other hooks first.
func TestAttemptsAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		var mu sync.Mutex // guards now and most
		var now, most int
		add := func(n int) {
			mu.Lock()
			defer mu.Unlock()
			now += n
			most = max(most, now)
		}
		unblock := make(chan struct{})
		r.executor.end(func(context.Context, runner.Attempt) runner.Result {
			add(1)
			<-unblock
			add(-1)
			return runner.Result{State: hooks.Succeeded}
		})
		var all []hooks.EventHook
		for i := range 100 {
			all = append(all, request(fmt.Sprint("h", i), "pool"))
		}
		r.start()
		r.apply(all...)
		r.record(activity.PoolWarning, "a", "b", "c")
		mu.Lock()
		require.Equal(t, 64, now)
		mu.Unlock()
		close(unblock)
		<-time.After(time.Minute)
		synctest.Wait()
		require.Equal(t, 64, most)
		for _, d := range r.deliveries() {
			require.Contains(t, d, " succeeded")
		}
	})
}

// A workload whose many receivers hang delays another workload's only until the
// first of its attempts ends.
func TestWorkloadsShareSlots(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.executor.end(func(ctx context.Context, a runner.Attempt) runner.Result {
			if a.Workload == "web" {
				<-time.After(time.Duration(len(a.Hook)) * time.Second)
			}
			return runner.Result{State: hooks.Succeeded}
		})
		var all []hooks.EventHook
		for i := range 100 {
			all = append(all, request(fmt.Sprintf("h%0*d", 2+i, i), "pool")) // each a second longer
		}
		r.start()
		r.apply(all...)
		r.record(activity.PoolWarning, "a")
		r.hooks.set("other", []hooks.EventHook{request("h", "pool")})
		require.NoError(t, r.db.PutWorkload(t.Context(), pool.Record{
			ID: "other", Revision: "r", MaxSize: 1, EventHooks: map[string]int64{"h": pool.NewEventHook},
		}, activity.Event{Type: activity.WorkloadApplied}))
		require.NoError(t, r.db.Append(t.Context(), activity.Event{Type: activity.PoolWarning, Workload: "other", Container: "z"}))
		<-time.After(3500 * time.Millisecond) // one has ended
		synctest.Wait()
		others, err := r.db.Deliveries(t.Context(), delivery.Filter{Workload: "other"})
		require.NoError(t, err)
		require.Len(t, others, 1)
		require.Equal(t, delivery.Succeeded, others[0].State)
	})
}
