package claim

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestProgressIsRecordedAtIntervals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		records := make(chan int64, 10)
		p := startProgress(func(n int64) { records <- n })
		p.update(5)
		advance(progressBegin - time.Nanosecond)
		require.Empty(t, records)
		advance(time.Nanosecond)
		require.EqualValues(t, 5, <-records)
		p.update(7)
		for _, next := range []time.Duration{2 * progressBegin, 4 * progressBegin, progressMax, progressMax} {
			advance(next - time.Nanosecond)
			require.Empty(t, records)
			advance(time.Nanosecond)
			require.EqualValues(t, 7, <-records)
		}
		p.stop()
		advance(time.Hour)
		require.Empty(t, records)
	})
}

// advance waits until a time has passed and all that it caused is done.
func advance(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
