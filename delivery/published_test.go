package delivery_test

import (
	"context"
	"encoding/json"
	"fmt"
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

// publish records an event that a tenant's program published.
func (r *rig) publish(e activity.Event) {
	r.t.Helper()
	e.Workload, e.Untrusted, e.Message = "web", true, "m"
	require.NoError(r.t, r.db.Append(context.Background(), e))
	<-time.After(10 * time.Millisecond)
	synctest.Wait()
}

// What a tenant's program published is delivered with its mark and its priority to
// the hooks that name it, but not if the command of an event hook published it.
func TestPublishedEvents(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.start()
		r.apply(request("types", "custom.x"), request("subject", "agent"), request("alias", "task-completed"), request("all", "message.add"), request("ours", "claim"))
		r.record(activity.PoolWarning)
		r.executor.take()
		r.publish(activity.Event{Type: "custom.x", Container: "k", Priority: new(0)})
		require.Equal(t, "all/k.1 types/k.1", sorted(r.executor.take()))
		list, err := r.db.Deliveries(t.Context(), delivery.Filter{Hook: "types"})
		require.NoError(t, err)
		require.Zero(t, list[0].Priority)
		r.executor.end(func(_ context.Context, a runner.Attempt) runner.Result {
			var e runner.Envelope
			require.NoError(t, json.Unmarshal(a.Envelope, &e))
			require.True(t, e.Untrusted)
			v, _ := a.Lookup("TASK_SUMMARY")
			require.Equal(t, "done", v.Text)
			return runner.Result{State: hooks.Succeeded}
		})
		r.publish(activity.Event{Type: "agent.task_completed", Container: "k", Priority: new(9), Data: json.RawMessage(`{"task_summary":"done"}`)})
		require.Equal(t, "alias/k.1 all/k.1 subject/k.1", sorted(r.executor.take()))
		r.publish(activity.Event{Type: "custom.x", Container: "k", Priority: new(7), Depth: 1})
		r.publish(activity.Event{Type: "custom.claim.released", Container: "k", Priority: new(7), Depth: 1})
		require.Empty(t, r.executor.take())
	})
}

// What a tenant does with its container is delivered, and discarded before what
// Hostler does.
func TestUsesAreDelivered(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.start()
		r.apply(request("types", "exec.failed"), request("subject", "exec"), request("alias", "artifact.created"), request("all", "message.add"))
		r.record(activity.PoolWarning)
		r.executor.take()
		r.record(activity.ExecFailed, "k")
		require.Equal(t, "all/k.1 subject/k.1 types/k.1", sorted(r.executor.take()))
		r.record(activity.FileWritten, "k")
		require.Equal(t, "alias/k.1 all/k.1", sorted(r.executor.take()))
		r.record(activity.PoolWarning, "k")
		list, err := r.db.Deliveries(t.Context(), delivery.Filter{Hook: "all"})
		require.NoError(t, err)
		byEvent := map[activity.Type]int{}
		for _, d := range list {
			byEvent[d.Event] = d.Priority
		}
		require.Equal(t, activity.DefaultPriority, byEvent[activity.ExecFailed])
		require.Equal(t, activity.DefaultPriority, byEvent[activity.FileWritten])
		require.Equal(t, delivery.PriorityOwn, byEvent[activity.PoolWarning])
	})
}

// A tenant that floods a hook whose receiver hangs loses its own deliveries, the
// lowest priorities first. Those of other tenants and of Hostler stay, and other
// hooks are not delayed.
func TestFloodOfTenant(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		unblock := make(chan struct{})
		r.executor.end(func(_ context.Context, a runner.Attempt) runner.Result {
			if a.Hook == "hangs" {
				<-unblock
			}
			return runner.Result{State: hooks.Succeeded}
		})
		r.start()
		r.apply(request("hangs", "custom", "pool"), request("works", "pool"))
		var changes []delivery.Change
		add := func(tenant string, n, priority int) {
			for range n {
				changes = append(changes, delivery.Change{Add: delivery.Delivery{
					ID: fmt.Sprintf("%s-%d", tenant, len(changes)), Workload: "web", Hook: "hangs", Lane: tenant, Container: tenant,
					Seq: 1, Event: "custom.x", Tenant: tenant, Priority: priority, Replay: true,
				}})
			}
		}
		add("flood", 10_000, 9)
		add("flood", 10, 8)
		add("quiet", 1, 0)
		require.NoError(t, r.db.AddDeliveries(t.Context(), changes))
		r.record(activity.PoolWarning, "flood")
		require.Equal(t, "hangs/flood.1 works/flood.1", sorted(r.executor.take()), "another hook is not delayed")
		<-time.After(2 * time.Minute)
		synctest.Wait()
		list, err := r.db.Deliveries(t.Context(), delivery.Filter{States: []delivery.State{delivery.Discarded}})
		require.NoError(t, err)
		require.Len(t, list, 10)
		for _, d := range list {
			require.Equal(t, 8, d.Priority)
			require.Contains(t, d.Reason, "full")
		}
		page, err := r.db.Events(t.Context(), activity.Filter{Types: []activity.Type{activity.DeliveryDiscarded}}, 0, 100)
		require.NoError(t, err)
		require.Len(t, page.Items, 10, "each is recorded")
		var ours []string
		for _, d := range r.deliveries() {
			if !strings.HasSuffix(d, " discarded") && strings.HasPrefix(d, "hangs/") && !strings.Contains(d, "/1 ") {
				ours = append(ours, d)
			}
		}
		require.Len(t, ours, 1, "the event of Hostler waits")
		close(unblock)
		r.stop()
	})
}
