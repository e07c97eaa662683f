package storetest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/delivery"
	"github.com/hostler/hostler/hooks"
)

// updateDeliveries performs transitions concurrently and returns their errors.
func updateDeliveries(t *testing.T, s Store, all []delivery.Transition) []error {
	t.Helper()
	errs := make([]error, len(all))
	var g errgroup.Group
	for i, m := range all {
		g.Go(func() error {
			_, errs[i] = s.UpdateDelivery(t.Context(), m)
			return nil
		})
	}
	require.NoError(t, g.Wait())
	return errs
}

// Of attempts that start or end at the same time, one that must not changes
// nothing of its own and nothing of the others.
func deliveriesAtOnce(t *testing.T, s Store) {
	const n = 30
	ctx := t.Context()
	addEvents(t, s, n)
	var starts []delivery.Transition
	for seq := range int64(n) {
		lane := fmt.Sprintf("k%d", seq)
		addDelivery(t, s, delivery.Change{Add: newDelivery("h", lane, seq+1)})
		starts = append(starts, startedDelivery(firstDelivery(t, s, "h", lane), hooks.KindHTTP))
	}
	discarded := delivery.Transition{Delivery: starts[7].Delivery, From: []delivery.State{delivery.Queued}}
	discarded.State, discarded.Attempts = delivery.Discarded, 0
	_, err := s.UpdateDelivery(ctx, discarded)
	require.NoError(t, err)
	before := lastSeq(t, s)
	for i, err := range updateDeliveries(t, s, starts) {
		if i == 7 {
			require.ErrorIs(t, err, delivery.ErrConflict)
			continue
		}
		require.NoError(t, err)
	}
	require.Len(t, runningRuns(t, s), n-1)
	require.Len(t, events(t, s, activity.Filter{Types: []activity.Type{activity.HookStarted}}, before), n-1)
	runs, err := s.Run(ctx, starts[7].ID)
	require.NoError(t, err)
	require.Empty(t, runs)

	var ends []delivery.Transition
	for i, m := range starts {
		if i != 7 {
			end := endedDelivery(m, delivery.Succeeded, hooks.Succeeded)
			ends = append(ends, end, end) // one of the two comes too late
		}
	}
	before = lastSeq(t, s)
	failed := 0
	for _, err := range updateDeliveries(t, s, ends) {
		if err != nil {
			require.ErrorIs(t, err, delivery.ErrConflict)
			failed++
		}
	}
	require.Equal(t, n-1, failed)
	require.Empty(t, runningRuns(t, s))
	require.Len(t, events(t, s, activity.Filter{}, before), n-1, "each attempt has one end")
	all, err := s.Deliveries(ctx, delivery.Filter{States: []delivery.State{delivery.Succeeded}})
	require.NoError(t, err)
	require.Len(t, all, n-1)
}

// Of two ends of one attempt that are reported at the same time, one comes too
// late, also if another change is in progress until then.
func deliveryEndsOnce(t *testing.T, s Store) {
	const rounds = 60
	addEvents(t, s, rounds)
	for round := range int64(rounds) {
		start := func(hook string) delivery.Transition {
			lane := fmt.Sprint("k", round)
			addDelivery(t, s, delivery.Change{Add: newDelivery(hook, lane, round+1)})
			return startedDelivery(firstDelivery(t, s, hook, lane), hooks.KindHTTP)
		}
		m := start("h")
		_, err := s.UpdateDelivery(t.Context(), m)
		require.NoError(t, err)
		end := endedDelivery(m, delivery.Succeeded, hooks.Succeeded)
		before := lastSeq(t, s)
		failed := 0
		for _, err := range updateDeliveries(t, s, []delivery.Transition{start("other"), end, end}) {
			if err != nil {
				require.ErrorIs(t, err, delivery.ErrConflict)
				failed++
			}
		}
		require.Equal(t, 1, failed)
		require.Len(t, events(t, s, activity.Filter{Types: []activity.Type{activity.HookCompleted}}, before), 1)
	}
}
