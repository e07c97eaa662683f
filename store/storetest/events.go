package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
)

// Filters mean the same for the newest events as for old ones, wherever a store
// keeps them.
func eventFilters(t *testing.T, s Store) {
	ctx := t.Context()
	from := int64(0)
	for range 2 {
		require.NoError(t, s.Append(ctx,
			activity.Event{Type: activity.HookStarted, Workload: "a", Container: "k", Claim: "c", Tenant: "t", Point: "p", Actor: "key:x", Run: "r", Message: "1"},
			activity.Event{Type: activity.HookFailed, Workload: "a", Message: "2"},
			activity.Event{Type: activity.ClaimFailed, Workload: "b", Claim: "c", Message: "3"},
		))
		for name, c := range map[string]struct {
			f    activity.Filter
			want string
		}{
			"all":       {activity.Filter{}, "123"},
			"thing":     {activity.Filter{Types: []activity.Type{"hook"}}, "12"},
			"type":      {activity.Filter{Types: []activity.Type{activity.HookFailed}}, "2"},
			"types":     {activity.Filter{Types: []activity.Type{activity.HookFailed, "claim"}}, "23"},
			"no thing":  {activity.Filter{Types: []activity.Type{"hoo", "%", "hook.", "h__k"}}, ""},
			"workload":  {activity.Filter{Workload: "a"}, "12"},
			"container": {activity.Filter{Container: "k"}, "1"},
			"tenant":    {activity.Filter{Tenant: "t"}, "1"},
			"claim":     {activity.Filter{Claim: "c"}, "13"},
			"point":     {activity.Filter{Point: "p"}, "1"},
			"actor":     {activity.Filter{Actor: "key:x"}, "1"},
			"run":       {activity.Filter{Run: "r"}, "1"},
			"all match": {activity.Filter{Claim: "c", Workload: "b", Types: []activity.Type{"claim"}}, "3"},
		} {
			got := ""
			for _, e := range events(t, s, c.f, from) {
				got += e.Message
			}
			require.Equal(t, c.want, got, "%s after %d", name, from)
			if c.want != "" && from == 0 {
				requireNewest(t, s, c.f, c.want)
			}
		}
		from = lastSeq(t, s) + 5000
		addEvents(t, s, 5000)
	}
}

// requireNewest checks that the newest events that match are the last of those, and
// that the log continues after its end.
func requireNewest(t *testing.T, s Store, f activity.Filter, want string) {
	t.Helper()
	for n := 1; n <= len(want)+1; n++ {
		page, err := s.NewestEvents(t.Context(), f, n)
		require.NoError(t, err)
		got := ""
		for _, e := range page.Items {
			got += e.Message
		}
		require.Equal(t, want[max(0, len(want)-n):], got)
		require.Equal(t, lastSeq(t, s), page.Next)
	}
}

// addEvents adds n events, so that earlier events are no longer recent.
func addEvents(t *testing.T, s Store, n int) {
	t.Helper()
	all := make([]activity.Event, n)
	for i := range all {
		all[i] = activity.Event{Type: activity.PoolWarning, Workload: "filler", Message: "."}
	}
	require.NoError(t, s.Append(t.Context(), all...))
}

// Consecutive pages have neither gaps nor duplicates when each continues at the
// Next of the last. A page without a match returns how far the read came.
func eventPages(t *testing.T, s Store) {
	ctx := t.Context()
	const n = 6000
	addEvents(t, s, n)
	for _, limit := range []int{1, 7, 0} {
		after := int64(n - 50)
		if limit == 0 {
			after = 0
		}
		for after < n {
			p, err := s.Events(ctx, activity.Filter{}, after, limit)
			require.NoError(t, err)
			require.NotEmpty(t, p.Items)
			require.Zero(t, p.OldestSeq)
			for _, e := range p.Items {
				require.Equal(t, after+1, e.Seq)
				after = e.Seq
			}
			require.Equal(t, after, p.Next)
		}
	}
	for _, after := range []int64{0, n - 1, n, n + 10} {
		p, err := s.Events(ctx, activity.Filter{Tenant: "none"}, after, 10)
		require.NoError(t, err)
		require.Empty(t, p.Items)
		require.Equal(t, max(after, n), p.Next, "after %d", after)
	}
}

// A reader must be able to decode every event in the log.
func eventData(t *testing.T, s Store) {
	ctx := t.Context()
	bad := activity.Event{Type: activity.PoolWarning, Message: "m", Data: json.RawMessage(`{"a":`)}
	good := activity.Event{Type: activity.PoolWarning, Message: "\xff\x00", Data: json.RawMessage(`{"a": 1}`)}
	require.Error(t, s.Append(ctx, good, bad))
	require.Error(t, s.Append(ctx, activity.Event{Message: "without a type"}))
	require.Zero(t, lastSeq(t, s), "all or none")
	require.NoError(t, s.Append(ctx, good))
	all := events(t, s, activity.Filter{}, 0)
	require.JSONEq(t, `{"a":1}`, string(all[0].Data))
	require.Equal(t, "\uFFFD", all[0].Message)
	require.Equal(t, int64(1), all[0].Seq)
}

// Follow reads as a follower does until it has read n events, and fails at the
// first that is missing or out of order. It does not bound the total time,
// which depends on the machine, but the time without an event.
func Follow(ctx context.Context, s Reader, n int64) error {
	var after int64
	for after < n {
		var err error
		if after, err = follow(ctx, s, after); err != nil {
			return err
		}
	}
	return nil
}

// follow reads the events after a number, or waits until there are more.
func follow(ctx context.Context, s Reader, after int64) (int64, error) {
	changed := s.Changed()
	p, err := s.Events(ctx, activity.Filter{}, after, 0)
	if err != nil {
		return after, err
	}
	for _, e := range p.Items {
		if e.Seq != after+1 {
			return after, fmt.Errorf("event %d came after %d", e.Seq, after)
		}
		after = e.Seq
	}
	if len(p.Items) > 0 {
		return after, nil
	}
	select {
	case <-changed:
		return after, nil
	case <-ctx.Done():
		return after, fmt.Errorf("no more after %d: %w", after, context.Cause(ctx))
	}
}

// No event ever appears behind a follower's cursor.
func followerSeesAllEvents(t *testing.T, s Store) {
	const writers, each = 8, 250
	g, ctx := errgroup.WithContext(t.Context()) // ends with a follower that receives nothing
	for range 4 {
		g.Go(func() error { return Follow(ctx, s, writers*each) })
	}
	for w := range writers {
		g.Go(func() error {
			for i := range each {
				e := activity.Event{Type: activity.PoolWarning, Message: fmt.Sprint(w, i)}
				if err := s.Append(ctx, e); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, g.Wait())
}

// A follower that took the channel before it read to the end is woken by every
// later event.
func noLostWakeup(t *testing.T, s Store) {
	ctx := t.Context()
	e := activity.Event{Type: activity.PoolWarning, Message: "m"}
	for range 100 {
		changed := s.Changed()
		require.NoError(t, s.Append(ctx, e))
		select {
		case <-changed:
		default:
			t.Fatal("Append returned and a follower was not woken")
		}
	}
	changed := s.Changed()
	require.NoError(t, s.SetMeta(ctx, "k", "v"))
	select {
	case <-changed:
		t.Fatal("woken without an event")
	default:
	}
}
