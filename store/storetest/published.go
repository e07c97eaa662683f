package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/publish"
)

var whilePublishing = []claim.State{claim.Active, claim.Releasing}

// newPublication returns the publication of an event.
func newPublication(id string) publish.Publication {
	return publish.Publication{Claim: id, States: whilePublishing, Change: func(*claim.Claim, time.Time) (activity.Event, bool) {
		return activity.Event{Type: "custom.x", Untrusted: true, Priority: new(3), Message: "m"}, true
	}}
}

// addTenantClaim adds a container and an active claim of a tenant that has it.
func addTenantClaim(t *testing.T, s Store, tenant string) claim.Claim {
	t.Helper()
	addIdleContainer(t, s, rev, "")
	return addActiveClaim(t, s, tenant)
}

// A published event is in the log like the others, with its claim, its mark and
// its priority, and can be found by them.
func publishEvent(t *testing.T, s Store) {
	ctx := t.Context()
	c := addTenantClaim(t, s, "ann")
	first := lastSeq(t, s)
	publication := func(typ activity.Type, priority int, data string) publish.Publication {
		return publish.Publication{Claim: c.ID, States: whilePublishing, Change: func(*claim.Claim, time.Time) (activity.Event, bool) {
			return activity.Event{Type: typ, Untrusted: true, Priority: &priority, Message: "m", Data: json.RawMessage(data)}, true
		}}
	}
	r, err := s.Publish(ctx, publication("agent.a", 0, `["x"]`))
	require.NoError(t, err)
	require.Equal(t, c.ID, r.Claim.ID)
	_, err = s.Publish(ctx, publication("custom.b", 9, ""))
	require.NoError(t, err)
	require.NoError(t, s.Append(ctx, activity.Event{Type: activity.PoolWarning, Message: "ours"}))
	for range 2 {
		got := events(t, s, activity.Filter{}, first)[:3]
		want := activity.Event{
			Seq: first + 1, Time: r.Event.Time, Type: "agent.a", Workload: web, Container: c.Container, Tenant: "ann", Claim: c.ID,
			Message: "m", Data: json.RawMessage(`["x"]`), Untrusted: true, Priority: new(0), Actor: activity.System,
		}
		require.Equal(t, want, got[0])
		require.True(t, got[1].Untrusted)
		require.Equal(t, 9, *got[1].Priority)
		require.False(t, got[2].Untrusted)
		require.Nil(t, got[2].Priority)
		for name, f := range map[string]struct {
			f    activity.Filter
			want int
		}{
			"published":         {activity.Filter{Untrusted: new(true)}, 2},
			"of Hostler":        {activity.Filter{Untrusted: new(false), Types: []activity.Type{"agent", "custom", activity.PoolWarning}, Workload: ""}, 1},
			"of a priority":     {activity.Filter{MinPriority: 9, Untrusted: new(true)}, 1},
			"of high priority":  {activity.Filter{MinPriority: 1, Types: []activity.Type{"agent", "custom", "pool"}}, 2},
			"of an agent":       {activity.Filter{Types: []activity.Type{"agent"}}, 1},
			"of a type":         {activity.Filter{Types: []activity.Type{"custom.b"}}, 1},
			"of a longer type":  {activity.Filter{Types: []activity.Type{"custom.b.c"}}, 0},
			"of a shorter type": {activity.Filter{Types: []activity.Type{"custom."}}, 0},
		} {
			all := 0
			for _, e := range events(t, s, f.f, first) {
				if e.Workload != "filler" {
					all++
				}
			}
			require.Equal(t, f.want, all, name)
		}
		addEvents(t, s, 5000)
	}
}

// An event is recorded only while its claim holds its container, whatever the
// caller has read before.
func publishStates(t *testing.T, s Store) {
	ctx := t.Context()
	_, err := s.Publish(ctx, newPublication("unknown"))
	require.ErrorIs(t, err, claim.ErrClaimNotFound)
	addIdleContainer(t, s, rev, "")
	c, err := s.Reserve(ctx, newReservation("ann"))
	require.NoError(t, err)
	last := lastSeq(t, s)
	_, err = s.Publish(ctx, newPublication(c.ID))
	require.ErrorIs(t, err, claim.ErrNotActive)
	require.Equal(t, last, lastSeq(t, s))
	ofHook := newPublication(c.ID)
	ofHook.States, ofHook.FromHook = append(whilePublishing[:2:2], claim.Pending), true
	depth := func(run string) int {
		ofHook.Run = run
		r, err := s.Publish(ctx, ofHook)
		require.NoError(t, err)
		return r.Event.Depth
	}
	require.Zero(t, depth(""), "a hook of a point")

	mustUpdateClaim(t, s, activeTransition(c.ID))
	ofPoint, ofEvent := newAttempt("p", 1), newAttempt("e", 1)
	ofPoint.Claim, ofPoint.Container = c.ID, c.Container
	require.NoError(t, s.RunStarted(ctx, ofPoint))
	require.Zero(t, depth(ofPoint.ID))
	require.Zero(t, depth(""), "no event hook runs")
	ofEvent.Claim, ofEvent.Container, ofEvent.Event, ofEvent.Seq = c.ID, c.Container, "custom.x", 1
	require.NoError(t, s.RunStarted(ctx, ofEvent))
	require.Zero(t, depth(ofPoint.ID))
	require.Equal(t, 1, depth(ofEvent.ID), "an event hook does not trigger itself")
	require.Equal(t, 1, depth(""))
	require.Equal(t, 1, events(t, s, activity.Filter{Claim: c.ID, Types: []activity.Type{"custom"}}, last)[5].Depth)
	ofHook.FromHook = false
	require.Zero(t, depth(""), "the main process")
	require.NoError(t, s.RunEnded(ctx, endedRun(ofEvent, hooks.Succeeded, 0)))
	ofHook.FromHook = true
	require.Zero(t, depth(""))

	mustUpdateClaim(t, s, releasingTransition(c.ID))
	_, err = s.Publish(ctx, newPublication(c.ID))
	require.NoError(t, err, "the program still ends")
	mustUpdateClaim(t, s, releasedTransition(c.ID))
	_, err = s.Publish(ctx, newPublication(c.ID))
	require.ErrorIs(t, err, claim.ErrNotActive)
}

// A request that is sent again publishes nothing, and costs nothing.
func publishOnce(t *testing.T, s Store) {
	ctx := t.Context()
	c, other := addTenantClaim(t, s, "ann"), addTenantClaim(t, s, "bob")
	p := newPublication(c.ID)
	p.ID = "request-1"
	first, err := s.Publish(ctx, p)
	require.NoError(t, err)
	for range 60 {
		again, err := s.Publish(ctx, p)
		require.NoError(t, err)
		require.Equal(t, first.Event.Time, again.Event.Time)
		require.Equal(t, first.Event.Type, again.Event.Type)
	}
	for name, e := range map[string]activity.Event{
		"type": {Type: "custom.y", Priority: new(3)}, "data": {Type: "custom.x", Priority: new(3), Data: []byte("1")}, "priority": {Type: "custom.x", Priority: new(4)},
	} {
		p.Change = func(*claim.Claim, time.Time) (activity.Event, bool) { return e, true }
		_, err := s.Publish(ctx, p)
		require.ErrorIs(t, err, publish.ErrOtherRequest, "it has the ID of another request: %s", name)
	}
	p = newPublication(other.ID)
	p.ID = "request-1"
	_, err = s.Publish(ctx, p)
	require.NoError(t, err, "the id is the claim's")
	p.Claim, p.ID = c.ID, "request-2"
	_, err = s.Publish(ctx, p)
	require.NoError(t, err)
	require.Len(t, events(t, s, activity.Filter{Claim: c.ID, Types: []activity.Type{"custom"}}, 0), 2)
}

// A claim, and a tenant with all its claims, publishes 50 events at once, however
// many callers there are.
func publishLimits(t *testing.T, s Store) {
	ctx := t.Context()
	c, other := addTenantClaim(t, s, "ann"), addTenantClaim(t, s, "bob")
	var published, refused atomic.Int64
	var g errgroup.Group
	start := time.Now()
	for range 8 {
		g.Go(func() error {
			for range 12 {
				r, err := s.Publish(ctx, newPublication(c.ID))
				limit, isLimit := errors.AsType[*publish.LimitError](err)
				switch {
				case err == nil:
					published.Add(1)
				case isLimit && limit.RetryAfter > 0 && limit.Of == "claim" && r.Claim.ID == c.ID && r.ByClaim.Events.After(r.Now):
					refused.Add(1)
				default:
					return fmt.Errorf("%+v: %w", r, err)
				}
			}
			return nil
		})
	}
	require.NoError(t, g.Wait())
	most := 50 + int64(time.Since(start)/(200*time.Millisecond)) + 1
	require.GreaterOrEqual(t, published.Load(), int64(50))
	require.LessOrEqual(t, published.Load(), most)
	require.EqualValues(t, 96, published.Load()+refused.Load())
	require.Len(t, events(t, s, activity.Filter{Claim: c.ID, Types: []activity.Type{"custom"}}, 0), int(published.Load()))

	p := newPublication(other.ID)
	p.Dropped = 7
	r, err := s.Publish(ctx, p)
	require.NoError(t, err, "another tenant")
	require.EqualValues(t, 7, r.ByClaim.Dropped)
	r, err = s.Publish(ctx, newPublication(other.ID))
	require.NoError(t, err)
	require.EqualValues(t, 7, r.ByClaim.Dropped)

	// The tenant's next claim does not get a new burst.
	mustUpdateClaim(t, s, releasingTransition(c.ID))
	mustUpdateClaim(t, s, releasedTransition(c.ID))
	next := addTenantClaim(t, s, "ann")
	for refused.Store(0); refused.Load() == 0; { // a slow machine publishes hardly more than it may
		for range 20 {
			g.Go(func() error {
				_, err := s.Publish(ctx, newPublication(next.ID))
				limit, isLimit := errors.AsType[*publish.LimitError](err)
				switch {
				case err == nil:
					published.Add(1)
				case isLimit && limit.Of == "tenant":
					refused.Add(1)
				default:
					return fmt.Errorf("it was not the tenant's limit: %w", err)
				}
				return nil
			})
		}
		require.NoError(t, g.Wait())
	}
	most = 50 + int64(time.Since(start)/(200*time.Millisecond)) + 1
	require.LessOrEqual(t, published.Load(), most, "of both claims")
}

// The activity of a claim is recorded with its event, or neither is.
func publishActivity(t *testing.T, s Store) {
	ctx := t.Context()
	c := addTenantClaim(t, s, "ann")
	p := newPublication(c.ID)
	p.Change = func(c *claim.Claim, now time.Time) (activity.Event, bool) {
		c.Activity, c.ActivityTool, c.ActivityAt, c.TouchedAt = "thinking", "grep", &now, &now
		return activity.Event{Type: activity.AgentActivityChanged, Untrusted: true, Priority: new(7), Message: "m"}, true
	}
	r, err := s.Publish(ctx, p)
	require.NoError(t, err)
	got, err := s.Claim(ctx, c.ID)
	require.NoError(t, err)
	require.Equal(t, got, r.Claim)
	require.Equal(t, "thinking", got.Activity)
	require.Equal(t, "grep", got.ActivityTool)
	require.Equal(t, r.Event.Time, *got.ActivityAt)
	require.Equal(t, r.Event.Time, *got.TouchedAt)

	p.Change = func(c *claim.Claim, _ time.Time) (activity.Event, bool) {
		c.Activity = "idle"
		return activity.Event{Type: activity.AgentActivityChanged}, false
	}
	last := lastSeq(t, s)
	r, err = s.Publish(ctx, p)
	require.NoError(t, err)
	require.Equal(t, got, r.Claim, "no event, no change")
	require.Nil(t, r.Event)
	require.Equal(t, last, lastSeq(t, s))

	for err == nil {
		_, err = s.Publish(ctx, newPublication(c.ID))
	}
	p.Change = func(c *claim.Claim, _ time.Time) (activity.Event, bool) {
		c.Activity = "offline"
		return activity.Event{Type: activity.AgentActivityChanged, Untrusted: true, Priority: new(7), Message: "m"}, true
	}
	for range 5 {
		if _, err = s.Publish(ctx, p); err == nil {
			break // on a slow machine there may be room again
		}
	}
	if err != nil {
		got, err = s.Claim(ctx, c.ID)
		require.NoError(t, err)
		require.Equal(t, "thinking", got.Activity)
	}
}

// A report that is sent again has the event of the first one, whatever was reported
// since, and changes nothing: not if it would be a change again, and not if it would
// be none.
func publishActivityOnce(t *testing.T, s Store) {
	ctx := t.Context()
	c, other := addTenantClaim(t, s, "ann"), addTenantClaim(t, s, "bob")
	event := func(to string) activity.Event {
		data := activity.Data(activity.AgentActivityChangedData{Activity: to})
		return activity.Event{Type: activity.AgentActivityChanged, Untrusted: true, Priority: new(7), Message: "m", Data: data}
	}
	report := func(id, to string) (publish.Result, error) {
		p := newPublication(c.ID)
		p.ID = id
		p.Change = func(c *claim.Claim, now time.Time) (activity.Event, bool) {
			isChanged := c.Activity != to
			c.Activity, c.ActivityAt = to, &now
			return event(to), isChanged
		}
		return s.Publish(ctx, p)
	}
	first, err := report("r1", "thinking")
	require.NoError(t, err)
	repeat := func(why string) {
		t.Helper()
		before, err := s.Claim(ctx, c.ID)
		require.NoError(t, err)
		last := lastSeq(t, s)
		r, err := report("r1", "thinking")
		require.NoError(t, err, why)
		require.False(t, r.IsRecorded(), why)
		require.Equal(t, before, r.Claim, why)
		earlier, err := s.PublishedEarlier(ctx, c.ID, "r1", event("thinking"))
		require.NoError(t, err, why)
		for _, e := range []*activity.Event{r.Event, earlier} {
			require.NotNil(t, e, why)
			require.Equal(t, first.Event.Type, e.Type, why)
			require.Equal(t, first.Event.Time, e.Time, why)
		}
		require.Equal(t, last, lastSeq(t, s), why)
		after, err := s.Claim(ctx, c.ID)
		require.NoError(t, err)
		require.Equal(t, before, after, why)
	}
	repeat("it is still the activity")
	_, err = report("r2", "idle")
	require.NoError(t, err)
	repeat("it is not the activity any more")

	_, err = report("r1", "idle")
	require.ErrorIs(t, err, publish.ErrOtherRequest, "also where nothing would change")
	_, err = s.PublishedEarlier(ctx, c.ID, "r1", event("idle"))
	require.ErrorIs(t, err, publish.ErrOtherRequest)
	for id, request := range map[string]string{c.ID: "r3", other.ID: "r1", "unknown": "r1"} {
		earlier, err := s.PublishedEarlier(ctx, id, request, event("thinking"))
		require.NoError(t, err)
		require.Nil(t, earlier)
	}
	r, err := report("r3", "idle")
	require.NoError(t, err)
	require.Nil(t, r.Event, "it changed nothing")
	mustUpdateClaim(t, s, releasingTransition(c.ID))
	mustUpdateClaim(t, s, releasedTransition(c.ID))
	repeat("its claim has ended")
	_, err = report("r3", "idle")
	require.ErrorIs(t, err, claim.ErrNotActive)
	_, err = report("r1", "idle")
	require.ErrorIs(t, err, publish.ErrOtherRequest)
}
