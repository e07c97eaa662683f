package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/delivery"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/runner"
	"github.com/hostler/hostler/store"
)

// killer stands for a process that is killed before or after one of its steps:
// from then on nothing of what it does has an effect.
type killer struct {
	mu    sync.Mutex // guards the fields below
	at    int        // the step before or after which it is killed
	steps int
	dead  bool
}

var errKilled = errors.New("the process was killed")

// step does one step, which has two points: before it and after it.
func (k *killer) step(do func() error) error {
	if k.reach() {
		return errKilled
	}
	err := do()
	if k.reach() {
		return errKilled
	}
	return err
}

// reach counts a point and reports whether the process is dead there.
func (k *killer) reach() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.steps++
	k.dead = k.dead || k.steps == k.at
	return k.dead
}

// killedStore is a database of a process that is killed.
type killedStore struct {
	*store.DB
	k *killer
}

func (s killedStore) FanOut(ctx context.Context, limit int, match func(context.Context, []activity.Event) ([]delivery.Change, error)) (isActive, more bool, err error) {
	err = s.k.step(func() (err error) {
		isActive, more, err = s.DB.FanOut(ctx, limit, match)
		return err
	})
	return isActive, more, err
}

func (s killedStore) UpdateDelivery(ctx context.Context, t delivery.Transition) (p delivery.Permission, err error) {
	err = s.k.step(func() (err error) {
		p, err = s.DB.UpdateDelivery(ctx, t)
		return err
	})
	return p, err
}

// A server is killed before and after each step of deliveries. The next server
// completes them: none is lost, each request has one key, and no command runs
// twice.
func TestKilledAtEachStep(t *testing.T) {
	for at, wasKilled := 1, true; wasKilled; at++ {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { wasKilled = killedAt(t, at) })
		})
	}
}

// killedAt kills a server at one point, and reports whether it came that far.
func killedAt(t *testing.T, at int) (wasKilled bool) {
	const events = 3
	r := newRig(t)
	require.NoError(t, r.db.Close())
	k := &killer{at: at}
	r.wrap = func(db *store.DB) delivery.Store { return killedStore{db, k} }
	r.open()
	performed := map[string]int{} // by run id
	var mu sync.Mutex             // guards performed
	perform := func(_ context.Context, a runner.Attempt) runner.Result {
		mu.Lock()
		defer mu.Unlock()
		performed[a.Hook+" "+a.Run]++
		return runner.Result{State: hooks.Succeeded}
	}
	r.executor.end(func(ctx context.Context, a runner.Attempt) runner.Result {
		_ = k.step(func() error { perform(ctx, a); return nil }) // a dead process does not see the result
		return runner.Result{State: hooks.Succeeded}
	})
	r.apply(request("request", "pool"), command("command", "pool"))
	addContainer(t, r.db, "a")
	for range events {
		require.NoError(t, r.db.Append(t.Context(), activity.Event{Type: activity.PoolWarning, Workload: "web", Container: "a"}))
	}
	r.start()
	<-time.After(time.Minute)
	synctest.Wait()
	wasKilled = k.dead
	r.stop()
	require.NoError(t, r.db.Close())

	r.wrap = nil
	r.open()
	r.executor.end(perform)
	r.start()
	<-time.After(time.Minute)
	synctest.Wait()
	requests, commands := 0, 0
	all, err := r.db.Deliveries(t.Context(), delivery.Filter{})
	require.NoError(t, err)
	require.Len(t, all, 2*events, "one for each event and hook")
	for _, d := range all {
		n := performed[d.Hook+" "+d.ID]
		switch {
		case d.Hook == "request":
			require.Equal(t, delivery.Succeeded, d.State)
			require.GreaterOrEqual(t, n, 1, "it is lost")
			requests++
		case d.State == delivery.Failed:
			require.LessOrEqual(t, n, 1, "a command has run twice")
			require.Contains(t, d.Reason, "the server stopped while it ran")
		default:
			require.Equal(t, delivery.Succeeded, d.State)
			require.Equal(t, 1, n)
			commands++
		}
	}
	require.Equal(t, events, requests)
	require.GreaterOrEqual(t, commands, events-1, "one command was running")
	for key := range performed {
		require.True(t, slices.ContainsFunc(all, func(d delivery.Delivery) bool { return d.Hook+" "+d.ID == key }), "another key")
	}
	running, err := r.db.Runs(t.Context(), hooks.RunFilter{States: []hooks.RunState{hooks.Running}})
	require.NoError(t, err)
	require.Empty(t, running)
	return wasKilled
}
