package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/delivery"
	"github.com/hostler/hostler/publish"
	"github.com/hostler/hostler/store"
)

// publishAll publishes n events of a claim, and forgets the limits before each.
func publishAll(t *testing.T, s Store, id string, n int) {
	t.Helper()
	for range n {
		p := newPublication(id)
		_, err := s.Publish(t.Context(), p)
		if _, ok := errors.AsType[*publish.LimitError](err); ok {
			<-time.After(200 * time.Millisecond)
			_, err = s.Publish(t.Context(), p)
		}
		require.NoError(t, err)
	}
}

// Published events are removed from between others: the oldest ones of a claim
// that has many, and old ones. Readers see the others, in the order of their
// numbers, whether they read the newest ones or all.
func prunePublished(t *testing.T, s Store) {
	ctx := t.Context()
	c, other := addTenantClaim(t, s, "ann"), addTenantClaim(t, s, "bob")
	first := lastSeq(t, s)
	for range 10 {
		publishAll(t, s, c.ID, 2)
		publishAll(t, s, other.ID, 1)
		require.NoError(t, s.Append(ctx, activity.Event{Type: activity.PoolWarning, Claim: c.ID, Message: "ours"}))
	}
	count := func(f activity.Filter) (n int) {
		all := events(t, s, f, first)
		for i, e := range all {
			require.True(t, i == 0 || e.Seq > all[i-1].Seq)
		}
		return len(all)
	}
	mine, ours := activity.Filter{Claim: c.ID, Untrusted: new(true)}, activity.Filter{Untrusted: new(false)}
	past := time.Now().Add(-time.Hour)
	n, err := s.PrunePublished(ctx, store.PublishedRetention{Before: past, PerClaim: 20})
	require.NoError(t, err)
	require.Zero(t, n)
	n, err = s.PrunePublished(ctx, store.PublishedRetention{Before: past, PerClaim: 11})
	require.NoError(t, err)
	require.EqualValues(t, 9, n)
	require.Equal(t, 11, count(mine))
	require.Equal(t, 10, count(ours))
	require.Equal(t, 10, count(activity.Filter{Claim: other.ID, Untrusted: new(true)}))
	require.Equal(t, 31, count(activity.Filter{}))
	page, err := s.Events(ctx, activity.Filter{}, first, 3)
	require.NoError(t, err)
	require.Len(t, page.Items, 3)
	require.Zero(t, page.OldestSeq)
	_, err = s.Event(ctx, first+1)
	require.ErrorIs(t, err, delivery.ErrEventRemoved)

	// What is recorded later follows, also for a reader that is behind the gaps.
	addEvents(t, s, 5000)
	require.Equal(t, 5031, count(activity.Filter{}))
	n, err = s.PrunePublished(ctx, store.PublishedRetention{Before: time.Now().Add(time.Hour), PerClaim: 11})
	require.NoError(t, err)
	require.EqualValues(t, 21, n)
	require.Equal(t, 5010, count(activity.Filter{}))
}

// Retention keeps what a cursor has not passed, and what is still to be delivered.
func prunePublishedKeeps(t *testing.T, s Store) {
	ctx := t.Context()
	all := store.PublishedRetention{Before: time.Now().Add(time.Hour), PerClaim: 1}
	putEventHooks(t, s, web, "h")
	c := addTenantClaim(t, s, "ann")
	publishAll(t, s, c.ID, 5)
	n, err := s.PrunePublished(ctx, all)
	require.NoError(t, err)
	require.Zero(t, n, "the cursor is before them")
	published := activity.Filter{Untrusted: new(true)}
	third := events(t, s, published, 0)[2].Seq
	d := newDelivery("h", "k", third)
	d.Priority = 7
	require.NoError(t, fanOutToEnd(ctx, s, 100, func(context.Context, []activity.Event) ([]delivery.Change, error) {
		return []delivery.Change{{Add: d}}, nil
	}))
	n, err = s.PrunePublished(ctx, all)
	require.NoError(t, err)
	require.EqualValues(t, 4, n)
	left := events(t, s, published, 0)
	require.Len(t, left, 1)
	require.Equal(t, third, left[0].Seq)
	require.NoError(t, discardAll(ctx, s))
	n, err = s.PrunePublished(ctx, all)
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
}

// A request that may be repeated is recognised, whatever retention removes.
func pruneKeepsRequests(t *testing.T, s Store) {
	ctx := t.Context()
	c, other := addTenantClaim(t, s, "ann"), addTenantClaim(t, s, "bob")
	publishAll(t, s, other.ID, 1)
	before := lastSeq(t, s)
	p := newPublication(c.ID)
	p.ID = "r1"
	first, err := s.Publish(ctx, p)
	require.NoError(t, err)
	publishAll(t, s, c.ID, 5)
	future := time.Now().Add(time.Hour)
	for range 2 {
		pruned, err := s.Prune(ctx, store.Retention{Before: future, Events: 1})
		require.NoError(t, err)
		require.LessOrEqual(t, pruned.Events, before, "what comes before it")
		for _, r := range []store.PublishedRetention{{Before: future, PerClaim: 1000}, {Before: future.Add(-2 * time.Hour), PerClaim: 1}} {
			_, err = s.PrunePublished(ctx, r)
			require.NoError(t, err)
		}
		left := events(t, s, activity.Filter{}, 0)
		require.Equal(t, before+1, left[0].Seq)
		require.Len(t, events(t, s, activity.Filter{Untrusted: new(true)}, 0), 1)
	}
	again, err := s.Publish(ctx, p)
	require.NoError(t, err)
	require.False(t, again.IsRecorded())
	require.Equal(t, first.Event.Time, again.Event.Time)
}

// Retention that runs all the time removes nothing before the cursor has passed it,
// and a follower sees each event that is not removed before it reads it.
func prunePublishedRaces(t *testing.T, s Store) {
	ctx := t.Context()
	putEventHooks(t, s, web, "h")
	from := lastSeq(t, s)
	const n = 150
	var g errgroup.Group
	var done atomic.Bool
	g.Go(func() error {
		defer done.Store(true)
		for i := range n {
			e := activity.Event{Type: "custom.x", Workload: web, Claim: fmt.Sprint("c", i%3), Message: "m", Untrusted: true, Priority: new(7)}
			if i%10 == 0 {
				e = activity.Event{Type: activity.PoolWarning, Workload: web, Message: "ours"}
			}
			if err := s.Append(ctx, e); err != nil {
				return err
			}
		}
		return nil
	})
	g.Go(func() error {
		for !done.Load() {
			if _, err := s.PrunePublished(ctx, store.PublishedRetention{Before: time.Now().Add(time.Hour), PerClaim: 1}); err != nil {
				return err
			}
		}
		return nil
	})
	seen := map[int64]bool{}
	fanOut := func() error {
		var last []activity.Event
		_, _, err := s.FanOut(ctx, 7, func(_ context.Context, events []activity.Event) ([]delivery.Change, error) {
			last = events
			return nil, nil
		})
		for _, e := range last {
			seen[e.Seq] = true
		}
		return err
	}
	for !done.Load() {
		require.NoError(t, fanOut())
	}
	require.NoError(t, g.Wait())
	for range n {
		require.NoError(t, fanOut())
	}
	for seq := from + 1; seq <= from+n; seq++ {
		require.True(t, seen[seq], "event %d of %d to %d was removed before it was handled", seq, from+1, from+n)
	}
	require.Len(t, events(t, s, activity.Filter{Types: []activity.Type{activity.PoolWarning}}, from), n/10)
}
