package claim_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/store"
	"github.com/hostler/hostler/workload"
)

// interruptedStore is a store that is unavailable for a minute from the end of
// the first hook.
type interruptedStore struct {
	*store.DB
	backAt atomic.Pointer[time.Time]
}

var errStoreInterrupted = errors.New("database unavailable")

func (s *interruptedStore) isDown() bool {
	at := s.backAt.Load()
	return at != nil && time.Now().Before(*at)
}

func (s *interruptedStore) RunEnded(ctx context.Context, r hooks.Run) error {
	at := time.Now().Add(time.Minute)
	s.backAt.CompareAndSwap(nil, &at)
	if s.isDown() {
		return errStoreInterrupted
	}
	return s.DB.RunEnded(ctx, r)
}

func (s *interruptedStore) UpdateClaim(ctx context.Context, m claim.Transition) (claim.Claim, error) {
	if s.isDown() {
		return claim.Claim{}, errStoreInterrupted
	}
	return s.DB.UpdateClaim(ctx, m)
}

// An attempt whose end could not be recorded ends with its claim: it has one
// start and one end, and is not listed as running.
func TestUnrecordedHookRunEndsWithClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(hookedWorkload)
		h.AwaitIdle("w", 1)
		db := &interruptedStore{DB: h.DB}
		claims := claim.NewService(db, h.Pools, h.RT, flowtest.HookRunner(h.RT, db, nil), nil, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- claims.Run(ctx) }()
		_, _, err := claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada"})
		require.ErrorIs(t, err, errStoreInterrupted)
		<-time.After(10 * time.Minute)
		runs, err := h.DB.Runs(t.Context(), hooks.RunFilter{Point: hooks.PostClaim})
		require.NoError(t, err)
		require.Len(t, runs, 1)
		require.Equal(t, hooks.Unknown, runs[0].State)
		require.NotNil(t, runs[0].EndedAt)
		require.Len(t, h.Events(activity.HookStarted), 1)
		require.Len(t, h.Events(activity.HookFailed, activity.HookCompleted), 1)
		list, err := h.DB.Claim(t.Context(), runs[0].Claim)
		require.NoError(t, err)
		require.Equal(t, claim.Failed, list.State)
		cancel()
		require.NoError(t, <-done)
	})
}

// A claim whose hooks had begun continues with their file, also if the workload
// was applied since, without hooks at that point.
func TestCrashBeforeHooksAreRemoved(t *testing.T) {
	for _, p := range []hooks.Point{hooks.PostStart, hooks.PostClaim} {
		synctest.Test(t, func(t *testing.T) {
			h := flowtest.New(t)
			source := flowtest.Edit(smallWorkload(1), "min_idle: 0", "min_idle: 1")
			hooked := source + fmt.Sprintf("hooks: { %s: [{ name: a, builtin: log }, { name: b, builtin: log }] }\n", p)
			revision := h.Apply(hooked).Record.Revision
			h.AwaitIdle("w", 1)
			c, err := h.DB.Reserve(t.Context(), claim.Reservation{Claim: "partial", Workload: "w", Tenant: "ada", Revision: revision})
			require.NoError(t, err)
			begun := hooks.Run{
				ID: "0", Attempt: 1, Hook: "a", Point: p, Kind: hooks.KindBuiltin, Workload: "w", Container: c.Container, Claim: c.ID, Tenant: "ada",
				File: workload.FileID([]byte(hooked)), StartedAt: time.Now(),
			}
			require.NoError(t, h.DB.RunStarted(t.Context(), begun))
			begun.State = hooks.Succeeded
			require.NoError(t, h.DB.RunEnded(t.Context(), begun))
			require.Equal(t, revision, h.Apply(source).Record.Revision)
			h.Restart()
			synctest.Wait()
			c, err = h.DB.Claim(t.Context(), c.ID)
			require.NoError(t, err)
			require.Equal(t, claim.Active, c.State)
			runs, err := h.DB.Runs(t.Context(), hooks.RunFilter{Claim: c.ID})
			require.NoError(t, err)
			require.Len(t, runs, 2)
			require.Equal(t, "b", runs[1].Hook)
			require.Equal(t, hooks.Succeeded, runs[1].State)
		})
	}
}
