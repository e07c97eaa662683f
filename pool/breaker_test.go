package pool

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A workload whose containers cannot be made is tried ever more slowly, up to
// a minute, and a changed spec is tried at once.
func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreakers()
		broken := errors.New("no such image")
		want := time.Second
		for i := range 12 {
			k := b.fail("w", "r1", broken, false)
			require.Equal(t, i+1, k.failures)
			require.InDelta(t, want.Seconds(), time.Until(k.next).Seconds(), want.Seconds()*jitter+0.001)
			want = min(2*want, longestPause)
			<-time.After(time.Until(k.next)) // fake time
		}
		s := b.get("w", "r1").status(1, false)
		require.Equal(t, FillFailing, s.State)
		require.Equal(t, "no such image", s.LastError)
		require.NotNil(t, s.NextTry)

		require.Zero(t, b.get("w", "r2").failures)
		require.Equal(t, 1, b.fail("w", "r2", broken, false).failures)
		require.Equal(t, BackingOff, b.get("w", "r2").status(0, false).State)
		require.Equal(t, FillStopped, b.get("w", "r2").status(0, true).State)

		require.Equal(t, 1, b.succeed("w").failures)
		require.Equal(t, FillIdle, b.get("w", "r2").status(0, false).State)
		require.Equal(t, Filling, b.get("w", "r2").status(2, false).State)
	})
}

// Containers that were begun together and fail together are one failure: a
// burst must not open the breaker at once.
func TestBreakerCountsABurstOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreakers()
		for range 4 {
			b.fail("w", "r", errors.New("no such image"), false)
		}
		require.Equal(t, 1, b.get("w", "r").failures)
	})
}
