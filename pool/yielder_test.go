package pool

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A pool yields the longer the more usable containers it has.
func TestYieldTime(t *testing.T) {
	for _, test := range []struct {
		usable, minIdle int
		want            time.Duration
	}{
		{0, 0, 250 * time.Millisecond},
		{0, 1, 250 * time.Millisecond},
		{0, 500, 250 * time.Millisecond},
		{1, 2, 1125 * time.Millisecond},
		{1, 500, 687500 * time.Microsecond},
		{3, 4, 1562500 * time.Microsecond},
		{4, 500, 2 * time.Second},
		{499, 500, 2 * time.Second},
	} {
		require.Equal(t, test.want, yieldTime(test.usable, test.minIdle), "%d of %d", test.usable, test.minIdle)
	}
}

// The end of a claim wakes the pools that yield, and no other, once no claim has
// been in progress for quietTime.
func TestQuietWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		woken := map[string]int{}
		y := newYielder(func(id string) { woken[id]++ })
		end := y.begin()
		for _, id := range []string{"lacks", "recorded", "full"} {
			require.Equal(t, time.Now().Add(2*time.Second), y.until(id, 4, 4))
		}
		y.restart("recorded")
		y.forget("full")
		y.restart("full")
		for range 100 { // claims without a gap
			next := y.begin()
			end()
			end = next
			<-time.After(10 * time.Millisecond)
		}
		end()
		<-time.After(50 * time.Millisecond)
		y.begin()()
		<-time.After(99 * time.Millisecond)
		synctest.Wait()
		require.Empty(t, woken)
		require.Equal(t, time.Now().Add(time.Millisecond), y.until("lacks", 4, 4), "not later than the quiet time")
		<-time.After(2 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, map[string]int{"lacks": 1, "recorded": 1}, woken)
		require.Zero(t, y.until("new", 4, 4))
	})
}

// A pool that has yielded may create containers until one is recorded, so what
// fails, or finds no slot, is not postponed again.
func TestYieldedPoolStaysDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newYielder(func(string) {})
		defer y.begin()()
		require.NotZero(t, y.until("w", 4, 4))
		<-time.After(2 * time.Second)
		synctest.Wait()
		require.Zero(t, y.until("w", 4, 4))
		<-time.After(time.Second)
		synctest.Wait()
		require.Zero(t, y.until("w", 4, 4))
		y.restart("w")
		require.Equal(t, time.Now().Add(2*time.Second), y.until("w", 4, 4))
	})
}

// A pool that has lacked containers since an earlier burst of claims yields to the
// next one.
func TestEachBurstIsYieldedTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newYielder(func(string) {})
		end := y.begin()
		require.False(t, y.until("w", 4, 4).IsZero(), "the first burst")
		end()
		<-time.After(time.Minute) // the pool is still not full: its breaker is open
		synctest.Wait()
		require.True(t, y.until("w", 4, 4).IsZero())
		defer y.begin()()
		require.False(t, y.until("w", 4, 4).IsZero(), "the second burst, at its first claim")
	})
}
