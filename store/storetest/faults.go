package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/store"
)

// reasonTransition returns a transition that changes an idle container's
// reason.
func reasonTransition(id, reason string, then func()) pool.Transition {
	return pool.Transition{
		ID: id, From: []pool.State{pool.Idle}, To: pool.Idle,
		Set: func(c *pool.Container) {
			c.Reason = reason
			then()
		},
		Events: []activity.Event{{Type: activity.ContainerUnhealthy, Message: reason}},
	}
}

// Changes that share a transaction do not share their failure.
func isolation(t *testing.T, s Store) {
	const n = 60
	ids := make([]string, n)
	for i := range ids {
		ids[i] = addIdleContainer(t, s, rev, "")
	}
	from := lastSeq(t, s)
	var g errgroup.Group
	for i, id := range ids {
		g.Go(func() error {
			m := reasonTransition(id, "good", func() {})
			switch i % 3 {
			case 1: // the schema refuses it
				m = reasonTransition(id, "bad", func() {})
				m.To = "somewhere"
			case 2: // it panics half way
				m = reasonTransition(id, "bad", func() { panic("boo") })
			}
			_, err := s.UpdateContainer(t.Context(), m)
			if bad := i%3 != 0; (err != nil) != bad {
				return fmt.Errorf("change %d: %w", i, err)
			}
			return nil
		})
	}
	require.NoError(t, g.Wait())
	for i, id := range ids {
		c, err := s.Container(t.Context(), id)
		require.NoError(t, err)
		want := ""
		if i%3 == 0 {
			want = "good"
		}
		require.Equal(t, want, c.Reason, "container %d", i)
	}
	all := events(t, s, activity.Filter{}, from)
	require.Len(t, all, n/3)
	for _, e := range all {
		require.Equal(t, "good", e.Message)
	}
}

// A change that fails after half of its writes leaves none of them, though the
// other changes in its transaction stay.
func isolationHalfway(t *testing.T, s Store) {
	const n = 40
	claims := make([]claim.Claim, n)
	for i := range claims {
		addIdleContainer(t, s, rev, "")
		claims[i] = addActiveClaim(t, s, fmt.Sprint("tenant", i))
		claims[i] = mustUpdateClaim(t, s, releasingTransition(claims[i].ID))
	}
	var g errgroup.Group
	for i, c := range claims {
		g.Go(func() error {
			m := releasedTransition(c.ID)
			if i%2 == 1 {
				// The container is changed first; then the schema refuses the
				// claim.
				m.Set = func(c *claim.Claim) { c.Source = "nowhere" }
			}
			_, err := s.UpdateClaim(t.Context(), m)
			if (err != nil) != (i%2 == 1) {
				return fmt.Errorf("change %d: %w", i, err)
			}
			return nil
		})
	}
	require.NoError(t, g.Wait())
	for i, c := range claims {
		k, err := s.Container(t.Context(), c.Container)
		require.NoError(t, err)
		want := pool.Idle
		if i%2 == 1 {
			want = pool.Claimed
		}
		require.Equal(t, want, k.State, "container of change %d", i)
	}
	requireLogMatchesRecords(t, s)
}

// A panic in a caller's function affects that caller only.
func panics(t *testing.T, s Store) {
	id := addIdleContainer(t, s, rev, "")
	from := lastSeq(t, s)
	_, err := s.UpdateContainer(t.Context(), reasonTransition(id, "bad", func() { panic("boo") }))
	require.ErrorContains(t, err, "boo")
	require.Equal(t, from, lastSeq(t, s))
	_, err = s.UpdateContainer(t.Context(), reasonTransition(id, "good", func() {}))
	require.NoError(t, err)
}

// A call that returns the end of its context has changed nothing. A change that
// has begun is finished and acknowledged.
func endedContext(t *testing.T, s Store) {
	id := addIdleContainer(t, s, rev, "")
	from := lastSeq(t, s)
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	_, err := s.UpdateContainer(ctx, reasonTransition(id, "late", func() {}))
	require.ErrorIs(t, err, why)
	require.Equal(t, from, lastSeq(t, s))

	ctx, cancel = context.WithCancelCause(t.Context())
	defer cancel(why)
	c, err := s.UpdateContainer(ctx, reasonTransition(id, "begun", func() { cancel(why) }))
	require.NoError(t, err)
	require.Equal(t, "begun", c.Reason)

	// A queued call may end either way, but its result is correct.
	ctx, cancel = context.WithCancelCause(t.Context())
	defer cancel(why)
	var g errgroup.Group
	done := make([]bool, 50)
	from = lastSeq(t, s)
	for i := range done {
		g.Go(func() error {
			_, err := s.UpdateContainer(ctx, reasonTransition(id, fmt.Sprint(i), func() { cancel(why) }))
			done[i] = err == nil
			if err != nil && !errors.Is(err, why) {
				return err
			}
			return nil
		})
	}
	require.NoError(t, g.Wait())
	n := 0
	for _, ok := range done {
		if ok {
			n++
		}
	}
	require.EqualValues(t, n, lastSeq(t, s)-from)
}

func meta(t *testing.T, s Store) {
	ctx := t.Context()
	v, err := s.Meta(ctx, "installation")
	require.NoError(t, err)
	require.Empty(t, v)
	for _, want := range []string{"one", "two"} {
		require.NoError(t, s.SetMeta(ctx, "installation", want))
		v, err = s.Meta(ctx, "installation")
		require.NoError(t, err)
		require.Equal(t, want, v)
	}
}

// Of all values that are set concurrently, one stays, and every caller gets it.
func metaOnce(t *testing.T, s Store) {
	values := make([]string, 20)
	var g errgroup.Group
	for i := range values {
		g.Go(func() (err error) {
			values[i], err = s.MetaOr(t.Context(), "secret", fmt.Sprint(i))
			return err
		})
	}
	require.NoError(t, g.Wait())
	for _, v := range values {
		require.Equal(t, values[0], v)
	}
	kept, err := s.Meta(t.Context(), "secret")
	require.NoError(t, err)
	require.Equal(t, values[0], kept)
}

// Changes that are queued when the store is closed are finished, later ones are
// refused, and followers that wait for events are woken.
func closeFinishesQueued(t *testing.T, s Store) {
	changed := s.Changed()
	var g errgroup.Group
	for range 200 {
		g.Go(func() error {
			err := s.Append(t.Context(), activity.Event{Type: activity.PoolWarning, Message: "m"})
			if errors.Is(err, store.ErrClosed) {
				return nil
			}
			return err
		})
	}
	require.NoError(t, s.Close())
	require.NoError(t, g.Wait())
	<-changed
	require.NoError(t, s.Close(), "closing twice")
	_, err := s.Meta(t.Context(), "k")
	require.ErrorIs(t, err, store.ErrClosed)
	_, err = s.Claims(t.Context(), claim.Filter{})
	require.ErrorIs(t, err, store.ErrClosed)
	require.ErrorIs(t, s.SetMeta(t.Context(), "k", "v"), store.ErrClosed)
	_, err = s.Events(t.Context(), activity.Filter{}, 0, 0)
	require.ErrorIs(t, err, store.ErrClosed)
}
