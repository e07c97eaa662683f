package delivery_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/delivery"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/runner"
)

func failed(context.Context, runner.Attempt) runner.Result {
	return runner.Result{State: hooks.Failed, Err: errors.New("status 503")}
}

// Each event that was recorded after the file was applied reaches each hook for
// its type once, with what happened.
func TestDelivers(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.record(activity.PoolWarning, "a")
		r.start()
		r.record(activity.PoolWarning, "b")
		r.apply(request("all", "pool"), request("one", "pool.recovered"), request("none", "claim"))
		r.record(activity.PoolWarning, "c")
		r.record(activity.PoolRecovered, "d")
		synctest.Wait()
		r.executor.mu.Lock()
		envelope := r.executor.attempts[0].Envelope
		r.executor.mu.Unlock()
		require.Equal(t, "all/c.1 all/d.1 one/d.1", sorted(r.executor.take()))
		var e runner.Envelope
		require.NoError(t, json.Unmarshal(envelope, &e))
		require.Equal(t, "pool.warning all web c c", e.Type+" "+e.Hook+" "+e.Workload+" "+e.Container+" "+e.Message)
		require.EqualValues(t, 4, e.Seq)
		require.NotEmpty(t, e.RunID)
		require.False(t, e.Timestamp.IsZero())
		for _, d := range r.deliveries() {
			require.Contains(t, d, " succeeded")
		}
		runs, err := r.db.Runs(t.Context(), hooks.RunFilter{})
		require.NoError(t, err)
		require.Len(t, runs, 3)
		require.Equal(t, hooks.Succeeded, runs[0].State)
		require.NotEmpty(t, runs[0].Event)
		require.Empty(t, runs[0].Point)
		r.apply()
		r.record(activity.PoolWarning, "e")
		require.Empty(t, r.executor.take())
	})
}

// A hook for a name that stands for several types, perhaps with certain data,
// gets their events, also in a replay.
func TestEventNames(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.start()
		r.apply(request("all", "message.add"), request("limits", "limits-exceeded"))
		<-time.After(time.Second)
		synctest.Wait()
		require.Equal(t, "all/.1", r.executor.take(), "of the apply itself")
		last := func() int64 { seq, err := r.db.LastSeq(t.Context()); require.NoError(t, err); return seq }
		from := last() + 1
		for c, oom := range map[string]bool{"a": true, "b": false} {
			require.NoError(t, r.db.Append(t.Context(), activity.Event{
				Type: activity.ContainerDied, Workload: "web", Container: c, Data: activity.Data(activity.ContainerDiedData{OOMKilled: oom}),
			}))
		}
		<-time.After(time.Second)
		synctest.Wait()
		require.Equal(t, "all/a.1 all/b.1 limits/a.1", sorted(r.executor.take()))
		n, err := r.s.Replay(t.Context(), "web", "limits", from, last())
		require.NoError(t, err)
		require.Equal(t, 1, n)
	})
}

// A hook that is added to a file does not see the events from before that, also if
// they are delivered to other hooks later.
func TestNewHookSeesNoEarlierEvents(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply(request("old", "pool"))
		r.record(activity.PoolWarning, "a")
		r.apply(request("old", "pool"), request("new", "pool"))
		r.record(activity.PoolWarning, "b")
		r.start()
		<-time.After(time.Second)
		synctest.Wait()
		require.Equal(t, "new/b.1 old/a.1 old/b.1", sorted(r.executor.take()))
	})
}

// A hook for every event is not called for the events of deliveries.
func TestDepth(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.start()
		r.executor.end(failed)
		h := request("h", "hook", "delivery", "pool")
		h.Retries = 0
		r.apply(h)
		r.record(activity.PoolWarning, "a")
		<-time.After(time.Second)
		synctest.Wait()
		require.Equal(t, "h/a.1", r.executor.take())
	})
}

// A delivery that waits for its next attempt holds back the later ones of its
// hook and container, and no others. One that has failed does not.
func TestOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.start()
		r.executor.end(func(ctx context.Context, a runner.Attempt) runner.Result {
			if a.Hook == "bad" && a.Container == "a" {
				return failed(ctx, a)
			}
			return runner.Result{State: hooks.Succeeded}
		})
		bad, good := request("bad", "pool"), request("good", "pool")
		bad.Retries = 2
		r.apply(bad, good)
		r.record(activity.PoolWarning, "a", "a", "b")
		require.Equal(t, "bad/a.1 bad/b.1 good/a.1 good/a.1 good/b.1", sorted(r.executor.take()))
		<-time.After(1300 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, "bad/a.2", r.executor.take())
		<-time.After(2500 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, "bad/a.3 bad/a.1", r.executor.take(), "the first has failed, the second is next")
		<-time.After(time.Minute)
		synctest.Wait()
		require.Equal(t, "bad/a.2 bad/a.3", r.executor.take())
		require.Contains(t, r.deliveries(), "bad/a/2 failed")
		require.Contains(t, r.deliveries(), "bad/a/3 failed")
	})
}

// Attempts are retried with growing waits, as often as the hook says, and not
// before the receiver permits it.
func TestRetries(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.start()
		var times []time.Duration
		start := time.Now()
		r.executor.end(func(_ context.Context, a runner.Attempt) runner.Result {
			times = append(times, time.Since(start))
			res := failed(t.Context(), a)
			if len(times) == 1 {
				res.RetryAfter = time.Minute
			}
			return res
		})
		h := request("h", "pool")
		h.Retries = hooks.MaxEventRetries
		r.apply(h)
		start = time.Now()
		r.record(activity.PoolWarning, "a")
		<-time.After(24 * time.Hour)
		synctest.Wait()
		require.Len(t, times, 1+hooks.MaxEventRetries)
		require.Equal(t, time.Minute, times[1].Round(time.Second))
		for i := range times[1:] {
			require.LessOrEqual(t, times[i+1]-times[i], 10*time.Minute+time.Second)
		}
		d := r.only()
		require.Equal(t, delivery.Failed, d.State)
		require.Contains(t, d.Reason, "status 503")
		runs, err := r.db.Run(t.Context(), d.ID)
		require.NoError(t, err)
		require.Len(t, runs, 1+hooks.MaxEventRetries, "each attempt is a run")
	})
}

// A receiver that does not answer delays only its own hook, which gets at most
// perHook attempts at once.
func TestHangingReceiver(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.start()
		unblock := make(chan struct{})
		r.executor.end(func(_ context.Context, a runner.Attempt) runner.Result {
			if a.Hook == "hangs" {
				<-unblock
			}
			return runner.Result{State: hooks.Succeeded}
		})
		r.apply(request("hangs", "pool"), request("works", "pool"))
		r.record(activity.PoolWarning, "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "a")
		hanging := 0
		for _, d := range r.deliveries() {
			if d[:5] == "hangs" && d[len(d)-7:] == "running" {
				hanging++
			}
		}
		require.Equal(t, 8, hanging)
		works := 0
		for _, a := range r.executor.attempts {
			if a.Hook == "works" {
				works++
			}
		}
		require.Equal(t, 11, works)
		close(unblock)
		synctest.Wait()
		for _, d := range r.deliveries() {
			require.Contains(t, d, " succeeded")
		}
	})
}

// The hook as it is applied now is used, and deliveries of a removed or disabled
// hook are discarded, with an event.
func TestHookChanges(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.start()
		r.executor.end(failed)
		r.apply(request("h", "pool"), request("i", "pool"))
		r.record(activity.PoolWarning, "a")
		changed := request("h", "claim")
		changed.Timeout = time.Minute
		r.apply(changed)
		<-time.After(2 * time.Second)
		synctest.Wait()
		require.Contains(t, r.deliveries(), "i/a/2 discarded")
		r.executor.mu.Lock()
		last := r.executor.attempts[len(r.executor.attempts)-1]
		r.executor.mu.Unlock()
		require.Equal(t, time.Minute, last.Timeout)
		changed.Disabled = true
		r.apply(changed)
		<-time.After(time.Minute)
		synctest.Wait()
		require.Contains(t, r.deliveries(), "h/a/2 discarded")
		page, err := r.db.Events(t.Context(), activity.Filter{Types: []activity.Type{activity.DeliveryDiscarded}}, 0, 0)
		require.NoError(t, err)
		require.Len(t, page.Items, 2)
		require.Contains(t, page.Items[0].Message, "the hook was removed")
		changed.Disabled = false
		r.apply(changed)
		r.record(activity.ClaimFailed, "b")
		r.apply()
		<-time.After(time.Minute)
		synctest.Wait()
		require.Regexp(t, `h/b/\d+ discarded`, strings.Join(r.deliveries(), " "), "no workload has hooks any more")
	})
}

// A hook whose condition is false is recorded as skipped.
func TestConditionIsFalse(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.start()
		h := request("h", "pool")
		h.Condition = mustParse(t, "PHASE == error")
		r.apply(h)
		r.record(activity.PoolWarning, "a")
		require.Empty(t, r.executor.take())
		d := r.only()
		require.Equal(t, delivery.Succeeded, d.State)
		runs, err := r.db.Run(t.Context(), d.ID)
		require.NoError(t, err)
		require.Equal(t, hooks.Skipped, runs[0].State)
	})
}

// An operator has a failed delivery attempted again, with all its retries, and
// discards one that waits: the next one of its container is then attempted.
func TestOperations(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		ctx := t.Context()
		r.start()
		r.executor.end(failed)
		h := request("h", "pool")
		h.Retries = 0
		r.apply(h)
		r.record(activity.PoolWarning, "a")
		d := r.only()
		require.Equal(t, delivery.Failed, d.State)
		r.executor.take()
		h.Retries = 1
		r.apply(h)
		synctest.Wait()
		_, err := r.s.Retry(ctx, d.ID)
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, "h/a.2", r.executor.take())
		require.Equal(t, delivery.Scheduled, r.only().State)
		r.record(activity.PoolWarning, "a")
		require.Empty(t, r.executor.take(), "it waits")
		r.executor.end(nil)
		d, err = r.s.Discard(ctx, d.ID)
		require.NoError(t, err)
		require.Equal(t, delivery.Discarded, d.State)
		synctest.Wait()
		require.Equal(t, "h/a.1", r.executor.take())
		_, err = r.s.Discard(ctx, d.ID)
		require.ErrorIs(t, err, delivery.ErrConflict)
		_, err = r.s.Retry(ctx, "x")
		require.ErrorIs(t, err, delivery.ErrNotFound)

		last, err := r.db.LastSeq(ctx)
		require.NoError(t, err)
		n, err := r.s.Replay(ctx, "web", "h", 1, last)
		require.NoError(t, err)
		require.Equal(t, 2, n)
		synctest.Wait()
		require.Equal(t, "h/a.1 h/a.1", r.executor.take())
		_, err = r.s.Replay(ctx, "web", "x", 1, last)
		require.ErrorIs(t, err, delivery.ErrHookNotFound)
	})
}
