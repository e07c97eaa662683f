package store

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/delivery"
	"github.com/hostler/hostler/hooks"
)

// heldWriter is a database that answers each change when the test says.
type heldWriter struct {
	writer
	begun   chan struct{} // gets a value with each change
	answers chan error
	ended   int // changes whose context had ended
}

func (w *heldWriter) update(ctx context.Context, _ func(*tx) error) error {
	w.begun <- struct{}{}
	if ctx.Err() != nil {
		w.ended++
	}
	return <-w.answers
}

// Transitions that are requested while a change is in progress share the next
// one, and each of them gets its result. A caller whose context ends before that
// leaves, and one that performs the change of others does not end it.
func TestDeliveryGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &heldWriter{begun: make(chan struct{}, 9), answers: make(chan error)}
		g := &deliveryGroups{writer: w}
		results := map[string]error{}
		var calls errgroup.Group
		call := func(ctx context.Context, id string) {
			calls.Go(func() error {
				err := g.update(ctx, delivery.Transition{Delivery: delivery.Delivery{ID: id}})
				g.mu.Lock() // it guards the map too
				defer g.mu.Unlock()
				results[id] = err
				return nil
			})
			synctest.Wait()
		}
		var cancels []context.CancelFunc
		call(t.Context(), "first")
		for i := range 5 {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			cancels = append(cancels, cancel)
			call(ctx, fmt.Sprint(i))
		}
		require.Len(t, w.begun, 1)
		cancels[3]()
		synctest.Wait()
		require.ErrorIs(t, results["3"], context.Canceled, "it has not begun")
		w.answers <- nil
		synctest.Wait()
		require.Len(t, w.begun, 2, "the others share a change")
		require.NoError(t, results["first"])
		cancels[0]()
		cancels[1]()
		synctest.Wait()
		require.NotContains(t, results, "1", "it has begun")
		call(t.Context(), "last")
		w.answers <- errors.New("refused")
		synctest.Wait()
		for _, id := range []string{"0", "1", "2", "4"} {
			require.Equal(t, errUngrouped, results[id], "each is performed alone")
		}
		refused := errors.New("refused alone")
		w.answers <- refused
		require.NoError(t, calls.Wait())
		require.Equal(t, refused, results["last"])
		require.Zero(t, w.ended)
		require.False(t, g.busy)

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		go func() { <-time.After(time.Second); w.answers <- nil }()
		_ = g.update(ctx, delivery.Transition{})
		require.Zero(t, w.ended, "the end of the first caller's context is not that of the change")

		for _, id := range []string{"alone", "a", "b"} {
			call(t.Context(), id)
		}
		w.answers <- nil
		w.answers <- ErrUnavailable
		require.NoError(t, calls.Wait())
		require.Equal(t, ErrUnavailable, results["b"])
	})
}

// Only attempts that run on the server share a transaction: what a command may
// do depends on rows of others.
func TestIsGroupable(t *testing.T) {
	running := func(kind hooks.Kind, state hooks.RunState) *hooks.Run { return &hooks.Run{Kind: kind, State: state} }
	live := []delivery.State{delivery.Queued, delivery.Scheduled}
	for name, c := range map[string]struct {
		m    delivery.Transition
		want bool
	}{
		"start":             {delivery.Transition{Delivery: delivery.Delivery{State: delivery.Running}, From: live, Run: running(hooks.KindHTTP, hooks.Running)}, true},
		"end":               {delivery.Transition{Delivery: delivery.Delivery{State: delivery.Failed}, From: []delivery.State{delivery.Running}, Run: running(hooks.KindBuiltin, hooks.Failed)}, true},
		"command":           {delivery.Transition{Delivery: delivery.Delivery{State: delivery.Running}, From: live, Run: running(hooks.KindCommand, hooks.Running)}, false},
		"end of a script":   {delivery.Transition{Delivery: delivery.Delivery{State: delivery.Failed}, From: []delivery.State{delivery.Running}, Run: running(hooks.KindScript, hooks.Failed)}, false},
		"skipped":           {delivery.Transition{Delivery: delivery.Delivery{State: delivery.Succeeded}, From: live, Run: running(hooks.KindHTTP, hooks.Skipped)}, false},
		"discarded":         {delivery.Transition{Delivery: delivery.Delivery{State: delivery.Discarded}, From: live}, false},
		"end that is not":   {delivery.Transition{Delivery: delivery.Delivery{State: delivery.Failed}, From: []delivery.State{delivery.Running}, Run: running(hooks.KindHTTP, hooks.Running)}, false},
		"end of a waiting":  {delivery.Transition{Delivery: delivery.Delivery{State: delivery.Failed}, From: live, Run: running(hooks.KindHTTP, hooks.Failed)}, false},
		"retried from ends": {delivery.Transition{Delivery: delivery.Delivery{State: delivery.Queued}, From: []delivery.State{delivery.Failed}}, false},
	} {
		require.Equal(t, c.want, isGroupable(c.m), name)
	}
}
