package claim

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestProgressIsRecordedAtIntervals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var records []int64
		p := startProgress(func(n int64) { records = append(records, n) })
		p.update(5)
		advance(progressBegin - time.Nanosecond)
		require.Empty(t, records)
		advance(time.Nanosecond)
		require.Equal(t, []int64{5}, records)
		p.update(7)
		advance(2 * progressBegin)
		require.Equal(t, []int64{5, 7}, records)
		advance(4*progressBegin + 2*progressMax)
		require.Equal(t, []int64{5, 7, 7, 7, 7}, records)
		p.stop()
		advance(time.Hour)
		require.Len(t, records, 5)
	})
}

// advance waits until a time has passed and all that it caused is done.
func advance(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
