package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/store"
)

// answer writes one event of type PoolRecovered for each of type PoolWarning.
func answer(tx store.Tx, events []activity.Event) error {
	for _, e := range events {
		if e.Type != activity.PoolWarning {
			continue
		}
		if err := tx.Append(activity.Event{Type: activity.PoolRecovered, Message: e.Message}); err != nil {
			return err
		}
	}
	return nil
}

// advanceToEnd advances a cursor until no event is left.
func advanceToEnd(ctx context.Context, s Store, name string, handle func(store.Tx, []activity.Event) error) error {
	for more := true; more; {
		var err error
		if more, err = s.Advance(ctx, name, 3, handle); err != nil {
			return err
		}
	}
	return nil
}

// requireAnswered checks that every warning was answered once.
func requireAnswered(t *testing.T, s Store, want int) {
	t.Helper()
	answers := map[string]int{}
	for _, e := range events(t, s, activity.Filter{Types: []activity.Type{activity.PoolRecovered}}, 0) {
		answers[e.Message]++
		require.Equal(t, 1, answers[e.Message], e.Message)
	}
	require.Len(t, answers, want)
}

// A cursor begins at the end of the log. What is written for the events that it
// passes is there exactly if it has passed them.
func cursors(t *testing.T, s Store) {
	ctx := t.Context()
	addEvents(t, s, 2)
	require.NoError(t, advanceToEnd(ctx, s, "c", answer))
	requireAnswered(t, s, 0)
	for n := range 10 {
		require.NoError(t, s.Append(ctx, activity.Event{Type: activity.PoolWarning, Message: fmt.Sprint(n)}))
	}
	errTest := errors.New("of the test")
	for name, handle := range map[string]func() error{
		"error": func() error { return errTest },
		"panic": func() error { panic("of the test") },
	} {
		_, err := s.Advance(ctx, "c", 5, func(tx store.Tx, events []activity.Event) error {
			require.Len(t, events, 5)
			require.Equal(t, "0", events[0].Message)
			require.NoError(t, answer(tx, events))
			return handle()
		})
		require.Error(t, err, name)
		requireAnswered(t, s, 0)
	}
	require.NoError(t, advanceToEnd(ctx, s, "c", answer))
	requireAnswered(t, s, 10)
	require.NoError(t, advanceToEnd(ctx, s, "c", answer))
	requireAnswered(t, s, 10)
	all, err := s.Cursors(ctx)
	require.NoError(t, err)
	require.Equal(t, []activity.Cursor{{Name: "c", Seq: lastSeq(t, s)}}, all)
}

// Retention removes no event that a cursor has not passed, whatever its age.
func pruneKeepsUnpassed(t *testing.T, s Store) {
	ctx := t.Context()
	addEvents(t, s, 4)
	require.NoError(t, advanceToEnd(ctx, s, "fast", answer))
	require.NoError(t, advanceToEnd(ctx, s, "slow", answer))
	addEvents(t, s, 1000)
	require.NoError(t, advanceToEnd(ctx, s, "fast", func(store.Tx, []activity.Event) error { return nil }))
	_, err := s.Advance(ctx, "slow", 2, func(store.Tx, []activity.Event) error { return nil })
	require.NoError(t, err)

	future := time.Now().Add(time.Hour)
	p, err := s.Prune(ctx, store.Retention{Before: future, Events: 1})
	require.NoError(t, err)
	require.EqualValues(t, 6, p.Events)
	all, err := s.Cursors(ctx)
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Zero(t, all[0].Behind)
	require.EqualValues(t, 998, all[1].Behind)
	require.WithinDuration(t, time.Now(), all[1].Oldest, time.Minute)
	handled := 0
	require.NoError(t, advanceToEnd(ctx, s, "slow", func(_ store.Tx, events []activity.Event) error { handled += len(events); return nil }))
	require.Equal(t, 998, handled)
	p, err = s.Prune(ctx, store.Retention{Before: future})
	require.NoError(t, err)
	require.EqualValues(t, 998, p.Events)
}

// Cursors runs servers that advance one cursor at the same time, while events
// are recorded and removed: each event is handled once.
func Cursors(t *testing.T, servers ...Store) {
	const writers, each = 4, 100
	for _, s := range servers {
		require.NoError(t, advanceToEnd(t.Context(), s, "c", answer))
	}
	g, ctx := errgroup.WithContext(t.Context())
	for w := range writers {
		g.Go(func() error {
			for n := range each {
				e := activity.Event{Type: activity.PoolWarning, Message: fmt.Sprint(w, n)}
				if err := servers[w%len(servers)].Append(ctx, e); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for i := range 4 {
		s := servers[i%len(servers)]
		g.Go(func() error {
			for {
				changed := s.Changed()
				if err := advanceToEnd(ctx, s, "c", answer); err != nil {
					return err
				}
				page, err := s.Events(ctx, activity.Filter{Types: []activity.Type{activity.PoolRecovered}}, 0, 0)
				if err != nil || len(page.Items) >= writers*each {
					return err
				}
				select {
				case <-changed:
				case <-ctx.Done():
					return nil
				}
			}
		})
	}
	require.NoError(t, g.Wait())
	requireAnswered(t, servers[0], writers*each)
}
