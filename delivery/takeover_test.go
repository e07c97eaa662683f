package delivery_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/delivery"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/runtime"
)

// runCommand has a command for the activation of a claim run in its container, as
// a server does that is then killed. The result is closed when it has ended.
func runCommand(t *testing.T, h *flowtest.Harness, c claim.Claim) (id string, ended <-chan struct{}) {
	t.Helper()
	events := h.Events(activity.ClaimActivated)
	d := delivery.Delivery{
		ID: "d", Workload: "w", Hook: "e", Lane: c.Container, Seq: events[0].Seq, Event: activity.ClaimActivated,
		Container: c.Container, Claim: c.ID, Tenant: c.Tenant,
	}
	require.NoError(t, h.DB.AddDeliveries(t.Context(), []delivery.Change{{Add: d}}))
	d.State, d.Attempts = delivery.Running, 1
	run := hooks.Run{
		ID: "d", Attempt: 1, Event: string(d.Event), Seq: d.Seq, Hook: "e", Kind: hooks.KindCommand,
		Workload: "w", Container: c.Container, Claim: c.ID, Tenant: c.Tenant, State: hooks.Running, StartedAt: time.Now(),
	}
	_, err := h.DB.UpdateDelivery(t.Context(), delivery.Transition{Delivery: d, From: []delivery.State{delivery.Queued}, Run: &run})
	require.NoError(t, err)
	done := make(chan struct{})
	go func() { // ends with the command
		defer close(done)
		_, _ = h.RT.Exec(context.Background(), c.Container, runtime.Command{RunID: "d.1", Args: []string{"sleep", "20m"}, Timeout: 2 * time.Minute})
	}()
	synctest.Wait()
	return d.ID, done
}

// A command that a server was running when it was killed ends when the next flow
// of its container begins, before or after another server has taken it over.
func TestReleaseEndsTakenOverCommands(t *testing.T) {
	for _, when := range []string{"before", "after"} {
		synctest.Test(t, func(t *testing.T) {
			h := flowtest.New(t)
			h.Apply(commandWorkload)
			h.AwaitIdle("w", 1)
			c := h.Claim("w", "ann")
			<-time.After(time.Second)
			_, ended := runCommand(t, h, c)
			if when == "before" {
				_, err := h.DB.UpdateClaim(t.Context(), claim.BeginRelease(c.ID, "requested", false))
				require.NoError(t, err)
			}
			defer deliverOn(t, h)()
			<-time.After(time.Second)
			synctest.Wait()
			begin := time.Now()
			h.Release(c)
			require.Less(t, time.Since(begin), 30*time.Second, when)
			<-ended
			synctest.Wait()
			runs, err := h.DB.Run(t.Context(), "d")
			require.NoError(t, err)
			require.Equal(t, hooks.Cancelled, runs[0].State)
			d, err := h.DB.Delivery(t.Context(), "d")
			require.NoError(t, err)
			require.Equal(t, delivery.Discarded, d.State)
		})
	}
}

// A server that stops does not end a command that it has taken over: the next
// one waits for it.
func TestStopEndsNoTakenOverCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(commandWorkload)
		h.AwaitIdle("w", 1)
		c := h.Claim("w", "ann")
		<-time.After(time.Second)
		_, ended := runCommand(t, h, c)
		stop := deliverOn(t, h)
		<-time.After(time.Second)
		synctest.Wait()
		begin := time.Now()
		stop()
		<-ended
		require.Greater(t, time.Since(begin), time.Minute)
		runs, err := h.DB.Run(t.Context(), "d")
		require.NoError(t, err)
		require.Equal(t, hooks.TimedOut, runs[0].State)
		h.Release(c)
	})
}
