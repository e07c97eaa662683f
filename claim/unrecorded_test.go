package claim_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/internal/flowtest"
	"github.com/hostler/hostler/store"
)

// interrupted is storage that is away for a minute from when the first hook
// ends.
type interrupted struct {
	*store.DB
	back atomic.Pointer[time.Time]
}

var errInterrupted = errors.New("the database is away")

func (s *interrupted) away() bool {
	at := s.back.Load()
	return at != nil && time.Now().Before(*at)
}

func (s *interrupted) RunEnded(ctx context.Context, r hooks.Run) error {
	at := time.Now().Add(time.Minute)
	s.back.CompareAndSwap(nil, &at)
	if s.away() {
		return errInterrupted
	}
	return s.DB.RunEnded(ctx, r)
}

func (s *interrupted) MoveClaim(ctx context.Context, m claim.Move) (claim.Claim, error) {
	if s.away() {
		return claim.Claim{}, errInterrupted
	}
	return s.DB.MoveClaim(ctx, m)
}

// An attempt whose end could not be recorded ends with its claim: it has one
// start and one end, and nobody is told that it still runs.
func TestRunEndsWithItsClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(hooked)
		y.Idle("w", 1)
		db := &interrupted{DB: y.DB}
		claims := claim.NewService(db, y.Pools, y.RT, hooks.NewRunner(y.RT, db), nil, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- claims.Run(ctx) }()
		_, _, err := claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada"})
		require.ErrorIs(t, err, errInterrupted)
		<-time.After(10 * time.Minute)
		runs, err := y.DB.Runs(t.Context(), hooks.RunFilter{Point: hooks.PostClaim})
		require.NoError(t, err)
		require.Len(t, runs, 1)
		require.Equal(t, hooks.Unknown, runs[0].State)
		require.NotNil(t, runs[0].EndedAt)
		require.Len(t, y.Events(activity.HookStarted), 1)
		require.Len(t, y.Events(activity.HookFailed, activity.HookCompleted), 1)
		list, err := y.DB.Claim(t.Context(), runs[0].Claim)
		require.NoError(t, err)
		require.Equal(t, claim.Failed, list.State)
		cancel()
		require.NoError(t, <-done)
	})
}
