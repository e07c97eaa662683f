package claim_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/internal/flowtest"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/snapshot/snapshottest"
)

// meddled is storage in which something happens before a claim is moved.
type meddled struct {
	claim.Store
	before func(claim.Move) error
}

func (s meddled) MoveClaim(ctx context.Context, m claim.Move) (claim.Claim, error) {
	if err := s.before(m); err != nil {
		return claim.Claim{}, err
	}
	return s.Store.MoveClaim(ctx, m)
}

// meddle is the yard's service of claims on such storage.
func meddle(y *flowtest.Yard, before func(claim.Move) error) *claim.Service {
	return claim.NewService(meddled{y.DB, before}, y.Pools, y.RT, hooks.NewRunner(y.RT, y.DB), nil, slog.New(slog.DiscardHandler))
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
