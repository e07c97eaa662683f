package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/delivery"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/store"
)

// The last of the events that come within the window is delivered, once, and not
// later than after the longest wait or a flush.
func deliveryDebounce(t *testing.T, s Store) {
	addEvents(t, s, 9)
	add := func(seq int64, window time.Duration) {
		addDelivery(t, s, delivery.Change{Add: newDelivery("h", "k", seq), Debounce: window})
	}
	add(1, time.Hour)
	first := firstDelivery(t, s, "h", "k")
	require.Equal(t, delivery.Scheduled, first.State)
	require.WithinDuration(t, time.Now().Add(time.Hour), *first.DueAt, time.Minute)
	second := newDelivery("h", "k", 2)
	second.Priority = 3
	addDelivery(t, s, delivery.Change{Add: second, Debounce: 2 * time.Hour})
	d := firstDelivery(t, s, "h", "k")
	require.Equal(t, 3, d.Priority, "that of the event that is delivered")
	require.Equal(t, first.ID, d.ID)
	require.EqualValues(t, 2, d.Seq)
	require.WithinDuration(t, time.Now().Add(2*time.Hour), *d.DueAt, time.Minute)
	add(1, time.Hour)
	all, err := s.Deliveries(t.Context(), delivery.Filter{})
	require.NoError(t, err)
	require.Len(t, all, 2, "an earlier event does not take the place of a later one")
	require.NoError(t, discardAll(t.Context(), s))

	add(3, time.Nanosecond)
	add(4, time.Hour)
	d = firstDelivery(t, s, "h", "k")
	require.EqualValues(t, 4, d.Seq)
	add(5, time.Nanosecond)
	d = firstDelivery(t, s, "h", "k")
	require.Equal(t, d.CreatedAt.Add(delivery.MaxWindows*time.Nanosecond), *d.DueAt, "a stream does not delay it indefinitely")

	other := newDelivery("h", "k", 6)
	other.Event = activity.PoolRecovered
	addDelivery(t, s, delivery.Change{Add: other, Debounce: time.Hour})
	all, err = s.Deliveries(t.Context(), delivery.Filter{States: []delivery.State{delivery.Scheduled}})
	require.NoError(t, err)
	require.Len(t, all, 2, "each type has its own")
	addDelivery(t, s, delivery.Change{Flush: delivery.Key{Workload: web, Hook: "h", Lane: "l"}})
	got, err := s.Delivery(t.Context(), other.ID)
	require.NoError(t, err)
	require.WithinDuration(t, time.Now().Add(time.Hour), *got.DueAt, time.Minute, "another lane was flushed")
	addDelivery(t, s, delivery.Change{Flush: other.Key()})
	got, err = s.Delivery(t.Context(), other.ID)
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), *got.DueAt, time.Minute)
	other.ID, other.Seq = "after the flush", 8
	addDelivery(t, s, delivery.Change{Add: other, Debounce: time.Hour})
	got, err = s.Delivery(t.Context(), got.ID)
	require.NoError(t, err)
	require.EqualValues(t, 6, got.Seq, "an event takes the place of one that was flushed")

	replaced := firstDelivery(t, s, "h", "k")
	replaced.Seq = 4
	_, err = s.UpdateDelivery(t.Context(), startedDelivery(replaced, hooks.KindHTTP))
	require.ErrorIs(t, err, delivery.ErrConflict, "another event has taken its place")
	_, err = s.UpdateDelivery(t.Context(), startedDelivery(firstDelivery(t, s, "h", "k"), hooks.KindHTTP))
	require.NoError(t, err)
	add(7, time.Hour)
	require.EqualValues(t, 5, firstDelivery(t, s, "h", "k").Seq, "one that was started stays as it is")
}

func discardAll(ctx context.Context, s Store) error {
	all, err := s.Deliveries(ctx, delivery.Filter{States: []delivery.State{delivery.Queued, delivery.Scheduled}})
	for _, d := range all {
		m := delivery.Transition{Delivery: d, From: []delivery.State{d.State}}
		m.State = delivery.Discarded
		if _, err := s.UpdateDelivery(ctx, m); err != nil {
			return err
		}
	}
	return err
}

// Retention keeps the events that are still to be delivered. A delivery whose
// event it has removed stays as it ended.
func pruneKeepsUndelivered(t *testing.T, s Store) {
	ctx := t.Context()
	putEventHooks(t, s, web, "h")
	addEvents(t, s, 5)
	all := store.Retention{Before: time.Now().Add(time.Hour)}
	p, err := s.Prune(ctx, all)
	require.NoError(t, err)
	require.Zero(t, p.Events, "the cursor is before them")
	require.NoError(t, fanOutToEnd(ctx, s, 100, toEachWarning("k")))
	p, err = s.Prune(ctx, all)
	require.NoError(t, err)
	require.EqualValues(t, 1, p.Events)

	first := firstDelivery(t, s, "h", "k")
	m := delivery.Transition{Delivery: first, From: []delivery.State{delivery.Queued}}
	m.State = delivery.Discarded
	_, err = s.UpdateDelivery(ctx, m)
	require.NoError(t, err)
	p, err = s.Prune(ctx, store.Retention{Before: time.Now().Add(-time.Hour), Events: 1})
	require.NoError(t, err)
	require.EqualValues(t, 1, p.Events)
	require.Zero(t, p.Deliveries)
	m.State, m.From = delivery.Queued, []delivery.State{delivery.Discarded}
	_, err = s.UpdateDelivery(ctx, m)
	require.ErrorIs(t, err, delivery.ErrEventRemoved)

	p, err = s.Prune(ctx, all)
	require.NoError(t, err)
	require.EqualValues(t, 1, p.Deliveries, "those that have ended")
	_, err = s.Delivery(ctx, first.ID)
	require.ErrorIs(t, err, delivery.ErrNotFound)

	second := firstDelivery(t, s, "h", "k")
	m = delivery.Transition{Delivery: second, From: []delivery.State{delivery.Queued}}
	m.State = delivery.Failed
	_, err = s.UpdateDelivery(ctx, m)
	require.NoError(t, err)
	m.State, m.From, m.EndedAt = delivery.Queued, []delivery.State{delivery.Failed}, nil
	_, err = s.UpdateDelivery(ctx, m)
	require.NoError(t, err, "the log has its event")
	require.Equal(t, second.ID, firstDelivery(t, s, "h", "k").ID)
}

// A workload stays until the events of its containers are delivered.
func deliveriesKeepWorkload(t *testing.T, s Store) {
	ctx := t.Context()
	r := putEventHooks(t, s, web, "h")
	r.Deleting = true
	require.NoError(t, s.PutWorkload(ctx, r, activity.Event{Type: activity.PoolDrained}))
	require.ErrorIs(t, s.RemoveWorkload(ctx, web), pool.ErrInUse, "the cursor is before its events")
	require.NoError(t, fanOutToEnd(ctx, s, 100, func(_ context.Context, events []activity.Event) ([]delivery.Change, error) {
		return []delivery.Change{{Add: newDelivery("h", "k", events[0].Seq)}}, nil
	}))
	require.ErrorIs(t, s.RemoveWorkload(ctx, web), pool.ErrInUse, "a delivery is left")
	require.NoError(t, discardAll(ctx, s))
	require.NoError(t, s.RemoveWorkload(ctx, web, activity.Event{Type: activity.WorkloadDeleted}))
	all, err := s.Cursors(ctx)
	require.NoError(t, err)
	require.Empty(t, all)
}

// Deliveries that have waited too long are discarded, and of a full queue those of
// tenants' events, the lowest priority first. Those of Hostler's events stay.
func deliveryExcess(t *testing.T, s Store) {
	ctx := t.Context()
	for seq, priority := range []int{delivery.PriorityOwn, 7, delivery.PriorityOwn, 5, 9, delivery.PriorityOwn} {
		d := newDelivery("h", "k", int64(seq+1))
		d.Priority = priority
		addDelivery(t, s, delivery.Change{Add: d})
	}
	priorities := func(before time.Time, perWorkload, limit int) (all []int) {
		excess, err := s.ExcessDeliveries(ctx, before, perWorkload, 1000, limit)
		require.NoError(t, err)
		for _, d := range excess {
			all = append(all, d.Priority)
		}
		return all
	}
	past, future := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	require.Empty(t, priorities(past, 6, 10))
	require.Equal(t, []int{5, 7}, priorities(past, 4, 10))
	require.Equal(t, []int{5}, priorities(past, 4, 1))
	require.Equal(t, []int{5, 7, 9}, priorities(past, 1, 10))
	require.Len(t, priorities(future, 9, 10), 6)
	_, err := s.UpdateDelivery(ctx, startedDelivery(firstDelivery(t, s, "h", "k"), hooks.KindHTTP))
	require.NoError(t, err)
	require.Len(t, priorities(future, 9, 10), 5, "one is being attempted")
}

// A tenant that publishes many events fills its own part of a queue. What it
// publishes with a high priority costs another tenant nothing.
func deliveryExcessOfTenant(t *testing.T, s Store) {
	seq := int64(0)
	add := func(tenant string, priorities ...int) {
		for _, p := range priorities {
			seq++
			d := newDelivery("h", "k", seq)
			d.Tenant, d.Priority = tenant, p
			addDelivery(t, s, delivery.Change{Add: d})
		}
	}
	add("flood", 9, 8, 9, 8, delivery.PriorityOwn)
	add("quiet", 0, delivery.PriorityOwn)
	excess := func(perWorkload, perTenant int) (all []string) {
		got, err := s.ExcessDeliveries(t.Context(), time.Now().Add(-time.Hour), perWorkload, perTenant, 100)
		require.NoError(t, err)
		for _, d := range got {
			all = append(all, fmt.Sprint(d.Tenant, d.Priority))
		}
		return all
	}
	require.Empty(t, excess(7, 4), "events of Hostler do not count")
	require.Equal(t, []string{"flood8"}, excess(7, 3))
	require.Equal(t, []string{"flood8", "flood8", "flood9"}, excess(1, 1), "the tenant's come first")
	require.Equal(t, []string{"quiet0", "flood8"}, excess(5, 100))
}
