package backoff

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A wait doubles with each failure up to the limit, however many there are.
func TestDelay(t *testing.T) {
	p := Policy{Min: time.Second, Max: 10 * time.Second}
	for failures, seconds := range map[int]int{0: 1, 1: 1, 2: 2, 3: 4, 4: 8, 5: 10, 6: 10, math.MaxInt: 10} {
		require.Equal(t, time.Duration(seconds)*time.Second, p.Delay(failures), failures)
	}
	longest := Policy{Min: time.Second, Max: math.MaxInt64}
	require.Equal(t, time.Duration(math.MaxInt64), longest.Delay(1000))
	require.Equal(t, time.Second, Policy{Min: time.Hour, Max: time.Second}.Delay(1))
}

// Jitter makes a wait shorter or longer by at most its fraction.
func TestJitter(t *testing.T) {
	p := Policy{Min: time.Second, Max: time.Minute, Jitter: 0.2}
	waits := map[time.Duration]bool{}
	for range 100 {
		wait := p.Delay(2)
		require.InDelta(t, 2, wait.Seconds(), 0.4)
		waits[wait] = true
	}
	require.Greater(t, len(waits), 50)
	for random, want := range map[float64]time.Duration{0: 1600 * time.Millisecond, 0.5: 2 * time.Second} {
		p.Rand = func() float64 { return random }
		require.Equal(t, want, p.Delay(2))
	}
}

// Retries waits longer after each failure, from the beginning after a success,
// and not after its context has ended.
func TestRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := Policy{Min: time.Second, Max: 3 * time.Second}.Retries()
		ctx, cancel := context.WithCancelCause(t.Context())
		start := time.Now()
		for _, want := range []int{1, 3, 6, 9} {
			require.NoError(t, r.Sleep(ctx))
			require.Equal(t, time.Duration(want)*time.Second, time.Since(start))
		}
		r.Reset()
		require.Equal(t, time.Second, r.Next())
		errStopped := errors.New("stopped")
		cancel(errStopped)
		require.ErrorIs(t, r.Sleep(ctx), errStopped)
		require.Equal(t, 9*time.Second, time.Since(start))
	})
}
