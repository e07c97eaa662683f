package pool_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/pool"
)

// A claim that gets a container has its pool filled after fillDelay, together
// with the claims after it. One that waits has it filled immediately.
func TestFillAfterClaimEvents(t *testing.T) {
	requested := activity.Event{Type: activity.ClaimRequested, Workload: "w", Claim: "c"}
	claimed := activity.Event{Type: activity.ContainerClaimed, Workload: "w", Claim: "c", Container: "k"}
	for name, test := range map[string]struct {
		events []activity.Event
		delay  time.Duration
	}{
		"waits":      {[]activity.Event{requested}, 0},
		"is served":  {[]activity.Event{requested, claimed}, 100 * time.Millisecond},
		"has waited": {[]activity.Event{claimed}, 100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := flowtest.New(t)
				h.Apply("id: w\nimage: box\ncommand: [box, idle]\npool: { min_idle: 0, max_size: 1 }\n")
				synctest.Wait()
				w, err := h.Pools.Workload(t.Context(), "w")
				require.NoError(t, err)
				w.MinIdle = 1
				require.NoError(t, h.DB.PutWorkload(t.Context(), w)) // without an event
				handlers := h.Pools.EventHandlers()
				for _, e := range test.events {
					handlers.On[e.Type](e)
				}
				handlers.Flush()
				if test.delay > 0 {
					<-time.After(test.delay - time.Millisecond)
					synctest.Wait()
					require.Zero(t, created(h))
				}
				<-time.After(2 * time.Millisecond)
				synctest.Wait()
				require.Equal(t, 1, created(h))
			})
		})
	}
}

// After events were missed, all pools are checked, and all waiting claims look
// again whether to wait.
func TestResyncChecksAllPools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply("id: w\nimage: box\ncommand: [box, idle]\npool: { min_idle: 0, max_size: 1 }\n")
		synctest.Wait()
		w, err := h.Pools.Workload(t.Context(), "w")
		require.NoError(t, err)
		w.MinIdle = 1
		require.NoError(t, h.DB.PutWorkload(t.Context(), w)) // without an event
		first, second := h.Pools.Queue.Add("w"), h.Pools.Queue.Add("w")
		defer first.Remove()
		defer second.Remove()
		synctest.Wait()
		require.Zero(t, created(h))
		require.NoError(t, h.Pools.EventHandlers().Resync(t.Context()))
		<-second.Ready()
		synctest.Wait()
		require.Equal(t, 1, created(h))
	})
}

// A container is destroyed as soon as that is recorded.
func TestDestroyedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply("id: w\nimage: box\ncommand: [box, idle]\npool: { min_idle: 1, max_size: 1 }\n")
		h.AwaitIdle("w", 1)
		containers, err := h.Pools.Containers(t.Context(), pool.ContainerFilter{})
		require.NoError(t, err)
		require.NoError(t, h.Pools.DestroyContainer(t.Context(), containers[0].ID, false))
		<-time.After(time.Second)
		c, err := h.Pools.Container(t.Context(), containers[0].ID)
		require.NoError(t, err)
		require.Equal(t, pool.Destroyed, c.State)
	})
}
