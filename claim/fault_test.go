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
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/internal/flowtest"
	"github.com/hostler/hostler/release"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/snapshot/snapshottest"
)

// meddled is storage in which something happens before a claim is moved.
type meddled struct {
	claim.Store
	before func(claim.Move) error
	after  func(claim.Move) error // nil: nothing
}

func (s meddled) MoveClaim(ctx context.Context, m claim.Move) (claim.Claim, error) {
	if err := s.before(m); err != nil {
		return claim.Claim{}, err
	}
	c, err := s.Store.MoveClaim(ctx, m)
	if err == nil && s.after != nil {
		err = s.after(m)
	}
	return c, err
}

// meddle is the yard's service of claims on such storage.
func meddle(y *flowtest.Yard, before func(claim.Move) error) *claim.Service {
	return service(y, meddled{y.DB, before, nil})
}

// service is the yard's service of claims on another storage.
func service(y *flowtest.Yard, store claim.Store) *claim.Service {
	return claim.NewService(store, y.Pools, y.RT, hooks.NewRunner(y.RT, y.DB), nil, slog.New(slog.DiscardHandler))
}

// When a claim's abortion returns, the claim has ended, though storage failed
// when its maker wrote that down: a release would else go on with a claim that
// was never active.
func TestAbortEndsTheClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(strings.Replace(hooked, "[box, echo, migrated]", "[box, hang], timeout: 5m", 1))
		full := errors.New("disk full")
		var once sync.Once
		claims := meddle(y, func(m claim.Move) (err error) {
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
		y.Until("the hook to run", func() bool { return len(y.Events(activity.HookStarted)) == 1 })
		live, err := y.DB.Claims(t.Context(), claim.Filter{Tenant: "ada"})
		require.NoError(t, err)
		require.NoError(t, claims.Abort(t.Context(), live[0]))
		ended, err := y.DB.Claim(t.Context(), live[0].ID)
		require.NoError(t, err)
		require.Equal(t, claim.Failed, ended.State)
		made.Wait()
	})
}

// Who asks again for a claim that is idle, and is released at that moment, is
// told so, and not that it is held.
func TestAskingTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(strings.Replace(hooked, "max_size: 2", "max_size: 2, claim_idle_ttl: 10m", 1))
		held := y.Claim("w", "ada")
		claims := meddle(y, func(claim.Move) error { y.Release(held); return nil })
		_, _, err := claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada"})
		require.ErrorIs(t, err, claim.ErrReleasing)
	})
}

// synced is a workload whose tenants' state is kept, also when they ask.
const synced = `
id: w
image: box
command: [box, idle]
volumes: { state: { target: /data } }
pool: { min_idle: 0, max_size: 2, reuse: never }
sync: { sink: { type: file }, policy: { manual: true } }
`

// Whoever restores is told when the tenant has claimed meanwhile, and so may
// keep its own state over what was restored.
func TestClaimedWhileRestoring(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(synced)
		for _, note := range []string{"1", "2"} {
			c := y.Claim("w", "ada")
			_, err := y.RT.Exec(t.Context(), c.Container, runtime.Command{Args: []string{"box", "write", "/data/note", note}})
			require.NoError(t, err)
			y.Release(c)
		}
		list, err := y.Claims.Snapshots(t.Context(), "w", "ada")
		require.NoError(t, err)
		require.Len(t, list, 2)
		var c claim.Claim
		var once sync.Once
		y.Bucket.Before(func(call snapshottest.Call) error {
			if call.Op == "create" {
				once.Do(func() { c = y.Claim("w", "ada") })
			}
			return nil
		})
		_, err = y.Claims.Restore(t.Context(), "w", "ada", list[1].ID)
		require.ErrorIs(t, err, claim.ErrHeld)
		require.ErrorContains(t, err, c.ID)
		y.Release(c)
		list, err = y.Claims.Snapshots(t.Context(), "w", "ada")
		require.NoError(t, err)
		require.NotEmpty(t, list[1].RestoredFrom)
		_, err = y.Claims.Restore(t.Context(), "w", "ada", list[1].ID)
		require.NoError(t, err)
	})
}

// A claim that became active stands, though the answer of storage to that was
// lost: its tenant is not told that it was released.
func TestActiveWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(hooked)
		claims := service(y, meddled{y.DB, func(claim.Move) error { return nil }, func(m claim.Move) error {
			if m.To == claim.Active {
				return errors.New("no answer")
			}
			return nil
		}})
		c, created, err := claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada"})
		require.NoError(t, err)
		require.True(t, created)
		require.Equal(t, claim.Active, c.State)
		require.Empty(t, y.Events(activity.ClaimFailed))
	})
}

// late is storage that answers a reservation with an error, and makes it later.
type late struct {
	claim.Store
	made func(func())
}

func (s late) Reserve(ctx context.Context, r claim.Reservation) (claim.Claim, error) {
	s.made(func() { _, _ = s.Store.Reserve(ctx, r) }) // it shows in the claim
	return claim.Claim{}, errors.New("no answer")
}

// A claim whose record shows only after its maker was told of an error is ended
// all the same: its container is nobody's, and other servers would wait for it.
func TestRecordedLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(hooked)
		var g sync.WaitGroup
		claims := service(y, late{y.DB, func(reserve func()) {
			g.Go(func() { <-time.After(5 * time.Second); reserve() })
		}})
		ctx, stop := context.WithCancel(t.Context())
		g.Go(func() { _ = claims.Run(ctx) }) // it returns nil
		_, _, err := claims.Claim(ctx, claim.Request{Workload: "w", Tenant: "ada"})
		require.ErrorContains(t, err, "no answer")
		<-time.After(time.Minute)
		stop()
		g.Wait()
		all, err := y.DB.Claims(t.Context(), claim.Filter{Tenant: "ada", States: claim.States()})
		require.NoError(t, err)
		require.Len(t, all, 1)
		require.Equal(t, claim.Failed, all[0].State)
	})
}

// Who asks for a snapshot while the release takes one is told that the claim is
// not active any more, and nothing is read for it.
func TestSyncBehindTheRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(synced)
		c := y.Claim("w", "ada")
		w, _, err := y.Pools.Catalog.Revision(t.Context(), c.Workload, c.Revision)
		require.NoError(t, err)
		getting, get := y.RT.Block("get")
		var g sync.WaitGroup
		g.Go(func() { _, _ = y.Releases.Release(t.Context(), c.ID, release.Request{}) }) // its end is in the claim
		<-getting
		g.Go(func() {
			_, _, err := y.Claims.Keeper.Upload(t.Context(), c, w, "request")
			if !errors.Is(err, claim.ErrNotActive) {
				t.Errorf("the upload: got %v, want %v", err, claim.ErrNotActive)
			}
		})
		synctest.Wait()
		get()
		g.Wait()
		require.Equal(t, 1, strings.Count(strings.Join(y.RT.Calls(), "\n"), "get "+c.Container))
		require.Len(t, y.Events(activity.SyncStarted), 2, "for the claim and for its release")
	})
}
