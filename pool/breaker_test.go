package pool

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// If creation fails, it is retried with backoff, up to a minute; a changed spec
// is tried immediately.
func TestBreakerBackoff(t *testing.T) {
	b := Breaker{Workload: "w"}
	now, want := time.Now(), time.Second
	for i := range 12 {
		b.recordFailure(now, "r1", errors.New("no such image"), false)
		require.Equal(t, i+1, b.Failures)
		require.InDelta(t, want.Seconds(), b.RetryAt.Sub(now).Seconds(), want.Seconds()*jitter+0.001)
		require.True(t, b.isOpen(now))
		want = min(2*want, maxBackoff)
		now = b.RetryAt
		require.False(t, b.isOpen(now))
	}
	s := b.of("r1").status(1, false)
	require.Equal(t, FillFailing, s.State)
	require.Equal(t, "no such image", s.LastError)
	require.NotNil(t, s.NextTry)

	require.Zero(t, b.of("r2").Failures)
	b.recordFailure(now, "r2", errors.New("no such image"), false)
	require.Equal(t, 1, b.Failures)
	require.Equal(t, BackingOff, b.of("r2").status(0, false).State)
	require.Equal(t, FillDraining, b.of("r2").status(0, true).State)
	require.Equal(t, FillIdle, b.of("r3").status(0, false).State)
	require.Equal(t, Filling, b.of("r3").status(2, false).State)
}

// Containers that are started together and fail together are one failure: a
// burst must not open the breaker immediately.
func TestBreakerCountsABurstOnce(t *testing.T) {
	b := Breaker{Workload: "w"}
	now := time.Now()
	for range 4 {
		b.recordFailure(now, "r", errors.New("no such image"), false)
	}
	require.Equal(t, 1, b.Failures)
}

// A clock that was set back does not keep a pool empty until it has caught up.
func TestBreakerAfterClockWasSetBack(t *testing.T) {
	b := Breaker{Workload: "w"}
	now := time.Now()
	b.recordFailure(now, "r", errors.New("no such image"), false)
	require.True(t, b.isOpen(now))
	require.False(t, b.isOpen(now.Add(-time.Hour)))
}
