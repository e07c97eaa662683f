package release_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/internal/flowtest"
	"github.com/hostler/hostler/release"
)

// readOnly is storage that can be read and, while it is full, not written.
type readOnly struct {
	claim.Store
	full *atomic.Bool
}

func (s readOnly) MoveClaim(ctx context.Context, m claim.Move) (claim.Claim, error) {
	if s.full.Load() {
		return claim.Claim{}, errors.New("the disk is full")
	}
	return s.Store.MoveClaim(ctx, m)
}

// A tenant that shows itself while that cannot be recorded is not idle for it.
func TestHeardWhileTheDiskIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(strings.Replace(file, "reuse: wipe", "reuse: wipe, claim_idle_ttl: 10m", 1))
		alive, quiet := y.Claim("w", "alive"), y.Claim("w", "quiet")
		var full atomic.Bool
		db := readOnly{y.DB, &full}
		log, runner := slog.New(slog.DiscardHandler), hooks.NewRunner(y.RT, y.DB)
		claims := claim.NewService(db, y.Pools, y.RT, runner, nil, log)
		y.Releases = release.NewService(db, claims, y.Pools, y.RT, runner, log)
		running(t, y)
		full.Store(true)
		time.AfterFunc(62*time.Minute, func() { full.Store(false) })
		for begun := time.Now(); time.Since(begun) < 2*time.Hour; {
			_, err := claims.Touch(t.Context(), alive.ID)
			require.Equal(t, full.Load(), err != nil)
			<-time.After(4 * time.Minute)
		}
		for c, state := range map[string]claim.State{quiet.ID: claim.Released, alive.ID: claim.Active} {
			now, err := y.DB.Claim(t.Context(), c)
			require.NoError(t, err)
			require.Equal(t, state, now.State)
		}
	})
}
