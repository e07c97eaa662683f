package claim_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/internal/dispatch"
	"github.com/hostler/hostler/quota"
	"github.com/hostler/hostler/release"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/snapshot/snapshottest"
)

// hookedStore is a store that calls functions before and after a claim is
// updated.
type hookedStore struct {
	claim.Store
	before func(claim.Transition) error
	after  func(claim.Transition) error // optional
}

func (s hookedStore) UpdateClaim(ctx context.Context, m claim.Transition) (claim.Claim, error) {
	if err := s.before(m); err != nil {
		return claim.Claim{}, err
	}
	c, err := s.Store.UpdateClaim(ctx, m)
	if err == nil && s.after != nil {
		err = s.after(m)
	}
	return c, err
}

// newHookedService returns a service on a hookedStore.
func newHookedService(h *flowtest.Harness, before func(claim.Transition) error) *claim.Service {
	return newService(h, hookedStore{h.DB, before, nil})
}

// newService returns a service on store, with the harness's other parts.
func newService(h *flowtest.Harness, store claim.Store) *claim.Service {
	synctest.Wait() // the harness's own service has swept
	return claim.NewService(store, h.Pools, h.RT, flowtest.HookRunner(h.RT, h.DB, nil), nil, slog.New(slog.DiscardHandler))
}

// When Abort returns, the claim has ended, even if storage failed when the
// claim's own call recorded that. Otherwise a release would continue with a
// claim that was never active.
func TestAbortRecordsEndOfClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(hookedWorkload, "[box, echo, migrated]", "[box, hang], timeout: 5m"))
		full := errors.New("disk full")
		var once sync.Once
		claims := newHookedService(h, func(m claim.Transition) (err error) {
			if m.To == claim.Failed {
				once.Do(func() { err = full })
			}
			return err
		})
		var made sync.WaitGroup
		made.Go(func() {
			_, _, err := claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada"})
			if !errors.Is(err, full) {
				t.Errorf("the claim: got %v, want %v", err, full)
			}
		})
		h.Until("the hook to run", func() bool { return len(h.Events(activity.HookStarted)) == 1 })
		live, err := h.DB.Claims(t.Context(), claim.Filter{Tenant: "ada"})
		require.NoError(t, err)
		require.NoError(t, claims.Abort(t.Context(), live[0]))
		ended, err := h.DB.Claim(t.Context(), live[0].ID)
		require.NoError(t, err)
		require.Equal(t, claim.Failed, ended.State)
		made.Wait()
	})
}

// A repeated claim during an idle release gets ErrReleasing, not the claim.
func TestClaimDuringIdleRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(hookedWorkload, "max_size: 2", "max_size: 2, claim_idle_ttl: 10m"))
		held := h.Claim("w", "ada")
		claims := newHookedService(h, func(claim.Transition) error { h.Release(held); return nil })
		_, _, err := claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada"})
		require.ErrorIs(t, err, claim.ErrReleasing)
	})
}

// syncedWorkload is a workload with sync, including manual uploads.
const syncedWorkload = `
id: w
image: box
command: [box, idle]
volumes: { state: { target: /data } }
pool: { min_idle: 0, max_size: 2, reuse: never }
sync: { sink: { type: file }, policy: { manual: true } }
`

// Restore fails when the tenant has claimed concurrently, because that claim's
// upload may replace the restored snapshot.
func TestRestoreDetectsConcurrentClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(syncedWorkload)
		for _, note := range []string{"1", "2"} {
			c := h.Claim("w", "ada")
			_, err := h.RT.Exec(t.Context(), c.Container, runtime.Command{Args: []string{"box", "write", "/data/note", note}})
			require.NoError(t, err)
			h.Release(c)
		}
		list, err := h.Claims.Snapshots(t.Context(), "w", "ada")
		require.NoError(t, err)
		require.Len(t, list, 2)
		var c claim.Claim
		var once sync.Once
		h.Bucket.Before(func(call snapshottest.Call) error {
			if call.Op == "create" {
				once.Do(func() { c = h.Claim("w", "ada") })
			}
			return nil
		})
		_, err = h.Claims.Restore(t.Context(), "w", "ada", list[1].ID)
		require.ErrorIs(t, err, claim.ErrClaimExists)
		require.ErrorContains(t, err, c.ID)
		h.Release(c)
		list, err = h.Claims.Snapshots(t.Context(), "w", "ada")
		require.NoError(t, err)
		require.NotEmpty(t, list[1].RestoredFrom)
		_, err = h.Claims.Restore(t.Context(), "w", "ada", list[1].ID)
		require.NoError(t, err)
	})
}

// A claim that became active is returned as active, even if storage's reply was
// lost.
func TestActiveClaimSurvivesLostReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(hookedWorkload)
		claims := newService(h, hookedStore{h.DB, func(claim.Transition) error { return nil }, func(m claim.Transition) error {
			if m.To == claim.Active {
				return errors.New("no answer")
			}
			return nil
		}})
		c, created, err := claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada"})
		require.NoError(t, err)
		require.True(t, created)
		require.Equal(t, claim.Active, c.State)
		require.Empty(t, h.Events(activity.ClaimFailed))
	})
}

// delayedStore is a store whose Reserve returns an error and takes effect
// later.
type delayedStore struct {
	claim.Store
	schedule func(func())
}

func (s delayedStore) Reserve(ctx context.Context, r claim.Reservation) (claim.Claim, error) {
	s.schedule(func() { _, _ = s.Store.Reserve(ctx, r) }) // the claim shows the result
	return claim.Claim{}, errors.New("no answer")
}

// A claim whose record appears only after its call has failed is swept.
// Otherwise its container would stay claimed, and other servers would wait for
// it.
func TestLateReservationIsFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(hookedWorkload)
		var g sync.WaitGroup
		claims := newService(h, delayedStore{h.DB, func(reserve func()) {
			g.Go(func() { <-time.After(5 * time.Second); reserve() })
		}})
		ctx, stop := context.WithCancel(t.Context())
		g.Go(func() { _ = claims.Run(ctx) }) // it returns nil
		g.Go(func() { _ = dispatch.New(h.DB, slog.New(slog.DiscardHandler), claims.EventHandlers()).Run(ctx) })
		_, _, err := claims.Claim(ctx, claim.Request{Workload: "w", Tenant: "ada"})
		require.ErrorContains(t, err, "no answer")
		<-time.After(time.Minute)
		stop()
		g.Wait()
		all, err := h.DB.Claims(t.Context(), claim.Filter{Tenant: "ada", States: claim.States()})
		require.NoError(t, err)
		require.Len(t, all, 1)
		require.Equal(t, claim.Failed, all[0].State)
	})
}

// A manual upload during the upload of the release gets ErrNotActive, and no
// files are read for it.
func TestSyncDuringReleaseIsRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(syncedWorkload)
		c := h.Claim("w", "ada")
		w, _, err := h.Pools.Catalog.Revision(t.Context(), c.Workload, c.Revision)
		require.NoError(t, err)
		reached, unblock := h.RT.Block("scan_tree")
		var g sync.WaitGroup
		g.Go(func() { _, _ = h.Releases.Release(t.Context(), c.ID, release.Request{}) }) // the claim shows the result
		<-reached
		g.Go(func() {
			_, _, err := h.Claims.StateSync.Upload(t.Context(), c, w, "request")
			if !errors.Is(err, claim.ErrNotActive) {
				t.Errorf("the upload: got %v, want %v", err, claim.ErrNotActive)
			}
		})
		synctest.Wait()
		unblock()
		g.Wait()
		require.Equal(t, 1, strings.Count(strings.Join(h.RT.Calls(), "\n"), "scan_tree "+c.Container))
		require.Len(t, h.Events(activity.SyncStarted), 2, "for the claim and for its release")
	})
}

// refusingStore refuses every claim for a quota, after the engine has hung for so long
// that it ends claims.
type refusingStore struct {
	claim.Store
	wait func()
}

func (s refusingStore) Reserve(context.Context, claim.Reservation) (claim.Claim, error) {
	s.wait()
	return claim.Claim{}, &quota.ExceededError{Kind: quota.Claims}
}

// A claim that was refused before it was recorded has that error, also if the engine
// does not respond: there is no record of it that could fail.
func TestRefusalWhileEngineHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(reachedWorkload)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- h.Pools.Engine.Run(ctx) }()
		claims := newService(h, refusingStore{h.DB, func() {
			h.RT.SetDown(true)
			<-time.After(time.Minute)
		}})
		_, _, err := claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada", Wait: time.Second})
		_, isRefused := errors.AsType[*quota.ExceededError](err)
		require.True(t, isRefused, "%v", err)
		require.NotErrorIs(t, err, runtime.ErrUnavailable)
		stop()
		require.NoError(t, <-ended)
	})
}
