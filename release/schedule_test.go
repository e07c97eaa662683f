package release_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/release"
	"github.com/hostler/hostler/release/schedule"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/store"
)

// A periodic upload that fails is tried again at the next interval.
func TestFailedPeriodicUploadWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(syncedWorkload, "{ type: file } }", "{ type: file }, policy: { interval: 2m } }"))
		h.Claim("w", "ada")
		h.RT.Break("scan_tree", runtime.ErrUnavailable)
		startLoops(t, h)
		<-time.After(20 * time.Minute)
		synctest.Wait()
		require.InDelta(t, 10, len(h.Events(activity.SyncFailed)), 1)
	})
}

// An interrupted release is resumed soon, and not only when the claims are listed
// next.
func TestReleaseIsRetriedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(hookedWorkload, "reuse: wipe", "reuse: same_tenant"))
		startLoops(t, h)
		c := h.Claim("w", "ada")
		h.RT.BreakOnce("restart", runtime.ErrUnavailable)
		_, err := h.Releases.Release(t.Context(), c.ID, release.Request{})
		require.ErrorIs(t, err, runtime.ErrUnavailable)
		<-time.After(2 * time.Second)
		synctest.Wait()
		require.Equal(t, claim.Released, currentClaim(h, c).State)
	})
}

// A periodic upload whose interval becomes shorter after a failure does not wait
// for the old one.
func TestShorterIntervalCountsAfterFailedUpload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(syncedWorkload, "{ type: file } }", "{ type: file }, policy: { interval: 2h } }"))
		c := h.Claim("w", "ada")
		startLoops(t, h)
		h.Bucket.FailAfter(0)
		<-time.After(2*time.Hour + time.Minute)
		h.Bucket.ClearFailures()
		require.Len(t, h.Events(activity.SyncFailed), 1)
		h.Apply(flowtest.Edit(syncedWorkload, "{ type: file } }", "{ type: file }, policy: { interval: 2m } }"))
		<-time.After(2 * time.Minute)
		synctest.Wait()
		require.NotNil(t, currentClaim(h, c).SyncedAt)
	})
}

// brokenWorkloads is a store in which the workloads whose ids begin with "bad"
// cannot be read: as last applied, or as of a revision.
type brokenWorkloads struct {
	*store.DB
	applied, revisions bool
}

var errCorrupt = errors.New("its stored source is invalid")

func (b brokenWorkloads) Workload(ctx context.Context, id string) (pool.Record, error) {
	if b.applied && strings.HasPrefix(id, "bad") {
		return pool.Record{}, errCorrupt
	}
	return b.DB.Workload(ctx, id)
}

func (b brokenWorkloads) Revision(ctx context.Context, id, revision string) (pool.Record, error) {
	if b.revisions && strings.HasPrefix(id, "bad") {
		return pool.Record{}, errCorrupt
	}
	return b.DB.Revision(ctx, id, revision)
}

// startLoopsWith runs the loops of releases with a store of workloads, and returns
// their log, which can be read after synctest.Wait.
func startLoopsWith(t *testing.T, h *flowtest.Harness, workloads pool.Store) *bytes.Buffer {
	t.Helper()
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil)) // it locks
	pools := pool.New(workloads, h.RT, flowtest.HookRunner(h.RT, h.DB, nil), nil, log)
	runSchedule(t, h, schedule.New(h.DB, h.Claims, pools, h.RT, h.Releases, log))
	return &out
}

// A workload that cannot be read does not keep the failed releases, the idle
// claims and the uploads of others from being started.
func TestUnreadableWorkloadDoesNotBlockOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		for _, id := range []string{"bad", "good"} {
			h.Apply(flowtest.Edit(syncedWorkload, "id: w", "id: "+id))
			h.Apply(flowtest.Edit(syncedWorkload, "id: w", "id: "+id+"2", "{ type: file } }", "{ type: file }, policy: { interval: 2m } }",
				"reuse: never", "reuse: never, claim_idle_ttl: 10m"))
		}
		bad, good := h.Claim("bad", "ada"), h.Claim("good", "bob")
		h.Claim("bad2", "ada")
		idle := h.Claim("good2", "bob")
		restore := h.RT.Break("scan_tree", runtime.ErrTainted)
		_, err := h.Releases.Release(t.Context(), bad.ID, release.Request{})
		require.Error(t, err)
		restore()
		h.Bucket.FailAfter(0)
		_, err = h.Releases.Release(t.Context(), good.ID, release.Request{})
		require.Error(t, err)
		h.Bucket.ClearFailures()
		startLoopsWith(t, h, brokenWorkloads{h.DB, true, false})
		<-time.After(3 * time.Minute)
		synctest.Wait()
		require.Equal(t, claim.Released, currentClaim(h, good).State)
		require.NotNil(t, currentClaim(h, idle).SyncedAt)
		<-time.After(10 * time.Minute)
		synctest.Wait()
		require.Equal(t, claim.Released, currentClaim(h, idle).State)
	})
}

// The log has the reason why due uploads and idle releases do not happen: neither
// the workload as last applied nor the claim's revision may be unreadable in
// silence.
func TestUnreadableWorkloadIsLogged(t *testing.T) {
	for name, workloads := range map[string]brokenWorkloads{
		"applied":  {applied: true},
		"revision": {revisions: true},
	} {
		for period, change := range map[string]string{
			"uploads": "reuse: never, release_failed_ttl: 1h",
			"idle":    "reuse: never, claim_idle_ttl: 10m",
		} {
			t.Run(name+", "+period, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := flowtest.New(t)
					source := flowtest.Edit(syncedWorkload, "id: w", "id: bad", "reuse: never", change)
					if period == "uploads" {
						source = flowtest.Edit(source, "{ type: file } }", "{ type: file }, policy: { interval: 2m } }")
					}
					h.Apply(source)
					c := h.Claim("bad", "ada")
					workloads.DB = h.DB
					log := startLoopsWith(t, h, workloads)
					<-time.After(15 * time.Minute)
					synctest.Wait()
					require.Contains(t, log.String(), errCorrupt.Error())
					require.Equal(t, claim.Active, currentClaim(h, c).State)
					lines := strings.Count(log.String(), "\n")
					require.LessOrEqual(t, lines, 70, "two lists a minute")
				})
			})
		}
	}
}
