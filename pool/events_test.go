package pool_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/release"
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
		first, second := h.Pools.Queue.Add("w", time.Now()), h.Pools.Queue.Add("w", time.Now())
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

// A failed release frees a slot for a claim that waits: the container that it
// keeps does not count towards max_size.
func TestFailedReleaseWakesFiller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(syncedYAML)
		c := h.Claim("w", "ada")
		<-time.After(time.Second)
		h.Bucket.FailAfter(0)
		var waiting errgroup.Group
		waiting.Go(func() error {
			_, _, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "bob", Wait: time.Minute})
			return err
		})
		synctest.Wait()
		_, unblock := h.RT.Block("create")
		_, err := h.Releases.Release(t.Context(), c.ID, release.Request{})
		require.Error(t, err)
		h.Bucket.ClearFailures()
		unblock()
		require.NoError(t, waiting.Wait(), "no container is created")
	})
}
