package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/delivery"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/pool"
)

// putEventHooks puts a workload with event hooks, as they are after a new file.
func putEventHooks(t *testing.T, s Store, id string, names ...string) pool.Record {
	t.Helper()
	before, err := s.Workload(t.Context(), id)
	if !errors.Is(err, pool.ErrWorkloadNotFound) {
		require.NoError(t, err)
	}
	after := pool.Record{ID: id, Revision: rev, MaxSize: 1, UpdatedAt: before.UpdatedAt, EventHooks: map[string]int64{}}
	for _, name := range names {
		after.EventHooks[name] = pool.NewEventHook
		if since, ok := before.EventHooks[name]; ok {
			after.EventHooks[name] = since
		}
	}
	require.NoError(t, s.PutWorkload(t.Context(), after, activity.Event{Type: activity.WorkloadApplied}))
	after, err = s.Workload(t.Context(), id)
	require.NoError(t, err)
	return after
}

// newDelivery returns a delivery of a hook of web.
func newDelivery(hook, lane string, seq int64) delivery.Delivery {
	return delivery.Delivery{
		ID: newID(), Workload: web, Hook: hook, Lane: lane, Seq: seq, Event: activity.PoolWarning, Priority: delivery.PriorityOwn,
	}
}

// toEachWarning returns a match that has each warning delivered to the hook h.
func toEachWarning(lane string) func(context.Context, []activity.Event) ([]delivery.Change, error) {
	return func(_ context.Context, events []activity.Event) (changes []delivery.Change, err error) {
		for _, e := range events {
			if e.Type == activity.PoolWarning {
				changes = append(changes, delivery.Change{Add: newDelivery("h", lane, e.Seq)})
			}
		}
		return changes, nil
	}
}

func fanOutToEnd(ctx context.Context, s Store, limit int, match func(context.Context, []activity.Event) ([]delivery.Change, error)) error {
	for {
		if _, more, err := s.FanOut(ctx, limit, match); err != nil || !more {
			return err
		}
	}
}

func addDelivery(t *testing.T, s Store, c delivery.Change) {
	t.Helper()
	require.NoError(t, s.AddDeliveries(t.Context(), []delivery.Change{c}))
}

func firstDelivery(t *testing.T, s Store, hook, lane string) delivery.Delivery {
	t.Helper()
	d, err := s.FirstDelivery(t.Context(), delivery.Key{Workload: web, Hook: hook, Lane: lane})
	require.NoError(t, err)
	return d
}

// startedDelivery returns the transition that starts an attempt of a command.
func startedDelivery(d delivery.Delivery, kind hooks.Kind) delivery.Transition {
	d.State, d.Attempts = delivery.Running, d.Attempts+1
	r := newAttempt(d.ID, d.Attempts)
	r.Point, r.Event, r.Seq, r.Hook, r.Index, r.Kind = "", string(d.Event), d.Seq, d.Hook, 0, kind
	r.Container, r.Claim, r.Tenant = d.Container, d.Claim, d.Tenant
	return delivery.Transition{Delivery: d, From: []delivery.State{delivery.Queued, delivery.Scheduled}, Run: &r}
}

// endedDelivery returns the transition after the one that started the attempt.
func endedDelivery(m delivery.Transition, state delivery.State, run hooks.RunState) delivery.Transition {
	ended := endedRun(*m.Run, run, 0)
	m.Run, m.From, m.State = &ended, []delivery.State{delivery.Running}, state
	return m
}

// A hook sees the events since its file was applied, and the log is read exactly
// while a workload has hooks.
func eventHooks(t *testing.T, s Store) {
	ctx := t.Context()
	addEvents(t, s, 3)
	isActive, _, err := s.FanOut(ctx, 10, nil)
	require.NoError(t, err)
	require.False(t, isActive, "no workload has hooks")
	putEventHooks(t, s, "other")
	isActive, _, err = s.FanOut(ctx, 10, nil)
	require.NoError(t, err)
	require.False(t, isActive)

	last := lastSeq(t, s)
	r := putEventHooks(t, s, web, "h")
	require.Equal(t, map[string]int64{"h": last}, r.EventHooks)
	r.MaxSize, r.MinIdle = 3, 2
	require.NoError(t, s.PutWorkload(ctx, r))
	middle := lastSeq(t, s)
	r = putEventHooks(t, s, web, "h", "i")
	require.Equal(t, map[string]int64{"h": last, "i": middle}, r.EventHooks, "the second hook is new")

	var seen []activity.Type
	isActive, more, err := s.FanOut(ctx, 10, func(_ context.Context, events []activity.Event) ([]delivery.Change, error) {
		seen = append(seen, eventTypes(events)...)
		return nil, nil
	})
	require.NoError(t, err)
	require.True(t, isActive)
	require.False(t, more)
	require.Equal(t, []activity.Type{activity.WorkloadApplied, activity.WorkloadApplied}, seen, "from the file on")

	putEventHooks(t, s, "other", "j")
	putEventHooks(t, s, web)
	all, err := s.Cursors(ctx)
	require.NoError(t, err)
	require.Len(t, all, 1, "the other workload has a hook")
	putEventHooks(t, s, "other")
	all, err = s.Cursors(ctx)
	require.NoError(t, err)
	require.Empty(t, all)
}

// Deliveries are there exactly if the cursor has passed their events.
func fanOut(t *testing.T, s Store) {
	ctx := t.Context()
	putEventHooks(t, s, web, "h")
	addEvents(t, s, 10)
	errTest := errors.New("of the test")
	_, _, err := s.FanOut(ctx, 100, func(context.Context, []activity.Event) ([]delivery.Change, error) { return nil, errTest })
	require.ErrorIs(t, err, errTest)
	_, _, err = s.FanOut(ctx, 100, func(context.Context, []activity.Event) ([]delivery.Change, error) {
		same := delivery.Change{Add: newDelivery("h", "k", 1)}
		return []delivery.Change{{Add: newDelivery("h", "k", 2)}, same, same}, nil
	})
	require.Error(t, err, "one of them cannot be added")
	none, err := s.Deliveries(ctx, delivery.Filter{})
	require.NoError(t, err)
	require.Empty(t, none)

	require.NoError(t, fanOutToEnd(ctx, s, 3, toEachWarning("k")))
	all, err := s.Deliveries(ctx, delivery.Filter{Workload: web, Hook: "h"})
	require.NoError(t, err)
	require.Len(t, all, 10)
	for i, d := range all {
		require.EqualValues(t, i+2, d.Seq)
		require.Equal(t, delivery.Queued, d.State)
	}
	newest, err := s.Deliveries(ctx, delivery.Filter{Newest: true, After: all[2].ID})
	require.NoError(t, err)
	require.Equal(t, []delivery.Delivery{all[1], all[0]}, newest)
	one, err := s.Deliveries(ctx, delivery.Filter{IDPart: all[1].ID[28:]})
	require.NoError(t, err)
	require.Equal(t, all[1:2], one)
	require.NoError(t, fanOutToEnd(ctx, s, 3, toEachWarning("k")))
	all, err = s.Deliveries(ctx, delivery.Filter{States: []delivery.State{delivery.Queued}, After: all[3].ID, Limit: 4})
	require.NoError(t, err)
	require.Len(t, all, 4)
	none, err = s.Deliveries(ctx, delivery.Filter{Tenant: "x"})
	require.NoError(t, err)
	require.Empty(t, none)
	status, err := s.DeliveryStatus(ctx)
	require.NoError(t, err)
	require.Equal(t, map[delivery.State]int{delivery.Queued: 10}, status.Live)
	require.WithinDuration(t, time.Now(), status.Oldest, time.Minute)
}

// An attempt and the state of its delivery change together, and deliveries of a
// key come in the order of their events.
func deliveryLife(t *testing.T, s Store) {
	ctx := t.Context()
	addEvents(t, s, 3)
	addDelivery(t, s, delivery.Change{Add: newDelivery("h", "k", 2)})
	addDelivery(t, s, delivery.Change{Add: newDelivery("h", "k", 1)})
	addDelivery(t, s, delivery.Change{Add: newDelivery("h", "l", 3)})
	keys, err := s.DeliveryKeys(ctx)
	require.NoError(t, err)
	require.ElementsMatch(t, []delivery.Key{{Workload: web, Hook: "h", Lane: "k"}, {Workload: web, Hook: "h", Lane: "l"}}, keys)
	d := firstDelivery(t, s, "h", "k")
	require.EqualValues(t, 1, d.Seq)
	_, err = s.AdoptDelivery(ctx, hooks.Run{ID: d.ID})
	require.ErrorIs(t, err, delivery.ErrConflict, "it is not running")
	e, err := s.Event(ctx, d.Seq)
	require.NoError(t, err)
	require.Equal(t, d.Seq, e.Seq)
	_, err = s.Event(ctx, 999)
	require.ErrorIs(t, err, delivery.ErrEventRemoved)

	before := lastSeq(t, s)
	start := startedDelivery(d, hooks.KindHTTP)
	_, err = s.UpdateDelivery(ctx, start)
	require.NoError(t, err)
	_, err = s.UpdateDelivery(ctx, start)
	require.ErrorIs(t, err, delivery.ErrConflict, "it was started")
	require.Len(t, runningRuns(t, s), 1)
	_, err = s.AdoptDelivery(ctx, hooks.Run{ID: d.ID})
	require.NoError(t, err)
	require.EqualValues(t, 1, firstDelivery(t, s, "h", "k").Seq)

	_, err = s.UpdateDelivery(ctx, endedDelivery(start, delivery.Succeeded, hooks.Running))
	require.Error(t, err, "the run has not ended: nothing changes")
	require.Equal(t, delivery.Running, firstDelivery(t, s, "h", "k").State)
	_, err = s.UpdateDelivery(ctx, endedDelivery(start, delivery.Succeeded, hooks.Succeeded))
	require.NoError(t, err)
	got, err := s.Delivery(ctx, d.ID)
	require.NoError(t, err)
	require.Equal(t, delivery.Succeeded, got.State)
	require.NotNil(t, got.EndedAt)
	require.Equal(t, 1, got.Attempts)
	require.Empty(t, runningRuns(t, s))
	require.EqualValues(t, 2, firstDelivery(t, s, "h", "k").Seq)
	for _, e := range events(t, s, activity.Filter{}, before) {
		require.Equal(t, 1, e.Depth, "%s", e.Type)
		require.Equal(t, d.ID, e.Run)
	}
	_, err = s.Delivery(ctx, "unknown")
	require.ErrorIs(t, err, delivery.ErrNotFound)
	_, err = s.FirstDelivery(ctx, delivery.Key{Workload: web, Hook: "h", Lane: "m"})
	require.ErrorIs(t, err, delivery.ErrNotFound)
	start.ID = "unknown"
	_, err = s.UpdateDelivery(ctx, start)
	require.ErrorIs(t, err, delivery.ErrNotFound)
}

// A command for an event starts only while its claim is active or, without a
// claim, while no tenant has the container; a request at any time.
func deliveryCommands(t *testing.T, s Store) {
	ctx := t.Context()
	addEvents(t, s, 9)
	id := addIdleContainer(t, s, rev, "")
	seq := int64(0)
	start := func(kind hooks.Kind, claim string) (delivery.Transition, delivery.Permission, error) {
		seq++
		d := newDelivery("h", "k", seq)
		d.Container, d.Claim = id, claim
		addDelivery(t, s, delivery.Change{Add: d})
		m := startedDelivery(d, kind)
		p, err := s.UpdateDelivery(ctx, m)
		return m, p, err
	}
	m, p, err := start(hooks.KindCommand, "")
	require.NoError(t, err)
	k, err := s.Container(ctx, id)
	require.NoError(t, err)
	require.Equal(t, k.Fence, p.Fence)
	require.True(t, k.EventCommands)
	_, err = s.AdoptDelivery(ctx, *m.Run)
	require.NoError(t, err)
	adopted, err := s.Container(ctx, id)
	require.NoError(t, err)
	require.Greater(t, adopted.Fence, k.Fence, "a later command of the last server is refused")
	_, err = s.UpdateDelivery(ctx, endedDelivery(m, delivery.Succeeded, hooks.Succeeded))
	require.NoError(t, err)

	c, err := s.Reserve(ctx, newReservation("ann"))
	require.NoError(t, err)
	require.True(t, c.EventCommands)
	_, _, err = start(hooks.KindCommand, "")
	require.ErrorIs(t, err, delivery.ErrClaimEnded, "a tenant has the container")
	_, _, err = start(hooks.KindScript, c.ID)
	require.ErrorIs(t, err, delivery.ErrClaimPending, "the claim is not active yet")
	c = mustUpdateClaim(t, s, activeTransition(c.ID))
	command, p, err := start(hooks.KindCommand, c.ID)
	require.NoError(t, err)
	require.Equal(t, c.ContainerFence, p.Fence)
	request, _, err := start(hooks.KindHTTP, c.ID)
	require.NoError(t, err)

	test := newAttempt("test", 1)
	test.Container, test.Claim, test.Tenant, test.Kind = id, c.ID, c.Tenant, hooks.KindCommand
	other := test
	other.ID, other.Container = "other", "another"
	_, err = s.StartTest(ctx, other.AsTest())
	require.ErrorIs(t, err, delivery.ErrClaimEnded, "not the claim's container")
	p, err = s.StartTest(ctx, test.AsTest())
	require.NoError(t, err)
	require.Equal(t, c.ContainerFence, p.Fence)
	other.Container = id
	_, err = s.StartTest(ctx, other.AsTest())
	require.ErrorIs(t, err, delivery.ErrTestRunning, "one at a time, on all servers")

	mark := func(how pool.Forced) pool.Container {
		k, err := s.UpdateContainer(ctx, pool.Note(id, pool.Claimed, func(k *pool.Container) { k.Forced = how }))
		require.NoError(t, err)
		return k
	}
	require.Greater(t, mark(pool.ForcedAfterHooks).Fence, p.Fence, "another flow is responsible")
	_, err = s.UpdateContainer(ctx, pool.Transition{ID: id, From: []pool.State{pool.Claimed}, To: pool.Idle})
	require.ErrorIs(t, err, pool.ErrConflict, "it does not return to the pool")
	forced, err := s.Containers(ctx, pool.ContainerFilter{IsForced: true})
	require.NoError(t, err)
	require.Len(t, forced, 1)
	_, _, err = start(hooks.KindCommand, c.ID)
	require.ErrorIs(t, err, delivery.ErrClaimEnded, "it is destroyed by force")
	mark(pool.ForcedDone)
	forced, err = s.Containers(ctx, pool.ContainerFilter{IsForced: true})
	require.NoError(t, err)
	require.Empty(t, forced)
	mark(pool.NotForced)

	isPermitted, err := s.AdoptDelivery(ctx, *command.Run)
	require.NoError(t, err)
	require.True(t, isPermitted)
	mustUpdateClaim(t, s, releasingTransition(c.ID))
	isPermitted, err = s.AdoptDelivery(ctx, *command.Run)
	require.NoError(t, err)
	require.False(t, isPermitted, "its claim has ended")
	test.ID = "late"
	_, err = s.StartTest(ctx, test.AsTest())
	require.ErrorIs(t, err, delivery.ErrClaimEnded)
	_, _, err = start(hooks.KindCommand, c.ID)
	require.ErrorIs(t, err, delivery.ErrClaimEnded)
	mustUpdateClaim(t, s, releasedTransition(c.ID))
	running := runningRuns(t, s)
	require.Len(t, running, 1, "the command ends with its claim")
	require.Equal(t, request.ID, running[0].ID)
	_, err = s.UpdateDelivery(ctx, endedDelivery(command, delivery.Failed, hooks.Succeeded))
	require.NoError(t, err, "the run has ended, and stays as it is")
	runs, err := s.Run(ctx, command.ID)
	require.NoError(t, err)
	require.Equal(t, hooks.Unknown, runs[0].State)
	_, _, err = start(hooks.KindWebhook, c.ID)
	require.NoError(t, err, "after the claim")
	next, err := s.Reserve(ctx, newReservation("bob"))
	require.NoError(t, err)
	mustUpdateClaim(t, s, activeTransition(next.ID))
	_, _, err = start(hooks.KindCommand, c.ID)
	require.ErrorIs(t, err, delivery.ErrClaimEnded, "another tenant has the container")
}

// DeliveryOwners has two servers on one database change a delivery. Each has
// registered.
func DeliveryOwners(t *testing.T, first, second Store) {
	ctx := t.Context()
	addEvents(t, first, 1)
	addDelivery(t, first, delivery.Change{Add: newDelivery("h", "k", 1)})
	m := startedDelivery(firstDelivery(t, first, "h", "k"), hooks.KindHTTP)
	_, err := first.UpdateDelivery(ctx, m)
	require.NoError(t, err)
	end := endedDelivery(m, delivery.Succeeded, hooks.Succeeded)
	_, err = second.UpdateDelivery(ctx, end)
	require.ErrorIs(t, err, delivery.ErrConflict, "the other server attempts it")
	_, err = second.AdoptDelivery(ctx, *m.Run)
	require.NoError(t, err)
	_, err = first.UpdateDelivery(ctx, end)
	require.ErrorIs(t, err, delivery.ErrConflict, "it was taken over")
	require.Len(t, runningRuns(t, first), 1)
	_, err = second.UpdateDelivery(ctx, end)
	require.NoError(t, err)
}
