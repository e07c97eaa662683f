package release_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/release"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/fake"
	"github.com/hostler/hostler/wait"
)

// Every point of the table is fired once in the life of a container that is
// claimed, released and destroyed, in the order of the table.
func TestEveryPointIsFired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		file := strings.Split(hookedWorkload, "hooks:")[0] + "hooks:\n"
		var want []string
		for _, rule := range hooks.Points() {
			want = append(want, string(rule.Point))
			action := "command: [box, echo, hello]"
			if rule.NotStarted {
				action = "builtin: log"
			}
			file += fmt.Sprintf("  %s: [{ %s }]\n", rule.Point, action)
		}
		h.Apply(file)
		c := h.Claim("w", "ada")
		w, _, err := h.Waits.Start(t.Context(), c.ID, wait.Request{Type: "review", Timeout: time.Second, OnTimeout: wait.Extend})
		require.NoError(t, err)
		h.Until("the extension", func() bool { return len(h.Events(activity.WaitExtended)) == 1 })
		_, err = h.Waits.Signal(t.Context(), c.ID, "", nil)
		require.NoError(t, err)
		w, err = h.Waits.Follow(t.Context(), w.ID)
		require.NoError(t, err)
		require.Equal(t, wait.Signalled, w.State)
		_, err = h.Releases.Release(t.Context(), c.ID, release.Request{Discard: true})
		require.NoError(t, err)
		awaitDestroyed(h, c.Container)
		runs, err := h.DB.Runs(t.Context(), hooks.RunFilter{Container: c.Container, States: []hooks.RunState{hooks.Succeeded}})
		require.NoError(t, err)
		var fired []string
		for _, r := range runs {
			fired = append(fired, string(r.Point))
		}
		i := slices.Index(want, "wait_signal") // it comes after the extension
		want[i], want[i+1] = want[i+1], want[i]
		require.Equal(t, want, fired)
	})
}

// The first flows of a container and of a claim read no records of hook runs, with
// or without hooks: there are none. The destruction reads them once: an earlier flow
// may have begun it, with a file that had hooks.
func TestNoHooksReadNothing(t *testing.T) {
	for file, want := range map[string]int64{
		"": 1,
		"hooks:\n  post_claim: [{ command: [box, echo, hello] }]\n": 1,
	} {
		synctest.Test(t, func(t *testing.T) {
			h := flowtest.New(t)
			h.Apply(strings.Split(hookedWorkload, "hooks:")[0] + file)
			c := h.Claim("w", "ada")
			_, err := h.Releases.Release(t.Context(), c.ID, release.Request{Discard: true})
			require.NoError(t, err)
			awaitDestroyed(h, c.Container)
			require.Equal(t, want, h.RunReads.Load())
		})
	}
}

// Commands have the traceparent of the request for which they run, also those that
// another server starts.
func TestTraceparent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(strings.Split(hookedWorkload, "hooks:")[0] + `hooks:
  post_create: [{ command: [box, echo, created] }]
  post_claim: [{ command: [box, echo, claimed] }]
  pre_release: [{ command: [box, echo, released] }]
`)
		seen := map[string]string{}
		h.RT.Before("exec", func(_ context.Context, call fake.Call) error {
			parent, ok := call.Command.Environment["TRACEPARENT"]
			require.Equal(t, call.Args[2] != "created", ok)
			seen[call.Args[2]] = parent
			return nil
		})
		c, _, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada", Traceparent: "of-the-claim"})
		require.NoError(t, err)
		repair := h.RT.Break("status", runtime.ErrUnavailable)
		_, err = h.Releases.Release(t.Context(), c.ID, release.Request{Traceparent: "of-the-release"})
		require.ErrorIs(t, err, runtime.ErrUnavailable)
		repair()
		h.Restart()
		require.Equal(t, map[string]string{"created": "", "claimed": "of-the-claim", "released": "of-the-release"}, seen)
	})
}

// The states in which points are resumed are states of claims and containers.
func TestPointsAreResumedInKnownStates(t *testing.T) {
	for _, rule := range hooks.Points() {
		switch in := rule.ResumedIn; in.Record {
		case hooks.OfClaim:
			require.True(t, slices.Contains(claim.States(), claim.State(in.State)), rule.Point)
		case hooks.OfContainer:
			require.True(t, slices.Contains(pool.States(), pool.State(in.State)), rule.Point)
		default:
			require.Zero(t, in, rule.Point)
		}
	}
}
