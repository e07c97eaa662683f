package pool

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// If creation fails, it is retried with backoff, up to a minute; a changed spec
// is tried immediately.
func TestBreakerBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreakers()
		errCreate := errors.New("no such image")
		want := time.Second
		for i := range 12 {
			k := b.recordFailure("w", "r1", errCreate, false)
			require.Equal(t, i+1, k.failures)
			require.InDelta(t, want.Seconds(), time.Until(k.retryAt).Seconds(), want.Seconds()*jitter+0.001)
			want = min(2*want, maxBackoff)
			<-time.After(time.Until(k.retryAt)) // fake time
		}
		s := b.get("w", "r1").status(1, false)
		require.Equal(t, FillFailing, s.State)
		require.Equal(t, "no such image", s.LastError)
		require.NotNil(t, s.NextTry)

		require.Zero(t, b.get("w", "r2").failures)
		require.Equal(t, 1, b.recordFailure("w", "r2", errCreate, false).failures)
		require.Equal(t, BackingOff, b.get("w", "r2").status(0, false).State)
		require.Equal(t, FillDraining, b.get("w", "r2").status(0, true).State)

		require.Equal(t, 1, b.recordSuccess("w").failures)
		require.Equal(t, FillIdle, b.get("w", "r2").status(0, false).State)
		require.Equal(t, Filling, b.get("w", "r2").status(2, false).State)
	})
}

// Containers that are started together and fail together are one failure: a
// burst must not open the breaker immediately.
func TestBreakerCountsABurstOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreakers()
		for range 4 {
			b.recordFailure("w", "r", errors.New("no such image"), false)
		}
		require.Equal(t, 1, b.get("w", "r").failures)
	})
}
