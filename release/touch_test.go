package release_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/release"
	"github.com/hostler/hostler/release/schedule"
)

// readOnlyStore is a store that rejects updates while it is full.
type readOnlyStore struct {
	claim.Store
	full *atomic.Bool
}

func (s readOnlyStore) UpdateClaim(ctx context.Context, m claim.Transition) (claim.Claim, error) {
	if s.full.Load() {
		return claim.Claim{}, errors.New("the disk is full")
	}
	return s.Store.UpdateClaim(ctx, m)
}

// A tenant whose touches cannot be stored is not idle.
func TestTouchRememberedWhenStoreFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(hookedWorkload, "reuse: wipe", "reuse: wipe, claim_idle_ttl: 10m"))
		alive, quiet := h.Claim("w", "alive"), h.Claim("w", "quiet")
		var full atomic.Bool
		db := readOnlyStore{h.DB, &full}
		log, runner := slog.New(slog.DiscardHandler), flowtest.HookRunner(h.RT, h.DB, nil)
		synctest.Wait() // the harness's own service has swept
		claims := claim.NewService(db, h.Pools, h.RT, runner, nil, log)
		h.Releases = release.NewService(db, claims, h.Pools, h.RT, runner, log)
		runSchedule(t, h, schedule.New(db, claims, h.Pools, h.RT, h.Releases, log))
		full.Store(true)
		time.AfterFunc(62*time.Minute, func() { full.Store(false) })
		for start := time.Now(); time.Since(start) < 2*time.Hour; {
			_, err := claims.Touch(t.Context(), alive.ID)
			require.Equal(t, full.Load(), err != nil)
			<-time.After(4 * time.Minute)
		}
		for c, state := range map[string]claim.State{quiet.ID: claim.Released, alive.ID: claim.Active} {
			current, err := h.DB.Claim(t.Context(), c)
			require.NoError(t, err)
			require.Equal(t, state, current.State)
		}
	})
}

// A touch whose caller cancels is not stored, and says nothing about storage: it
// does not keep the claims of others.
func TestCanceledTouchDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(hookedWorkload, "reuse: wipe", "reuse: wipe, claim_idle_ttl: 10m"))
		c := h.Claim("w", "ada")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		<-time.After(time.Minute)
		_, err := h.Claims.Touch(ctx, c.ID)
		require.Error(t, err)
		require.Equal(t, c.LastActive(), h.Claims.LastSeen(c))
		_, err = h.Claims.Touch(t.Context(), "unknown")
		require.ErrorIs(t, err, claim.ErrClaimNotFound)
		require.Equal(t, c.LastActive(), h.Claims.LastSeen(c))
	})
}
