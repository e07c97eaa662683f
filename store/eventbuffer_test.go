package store

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
)

// After a failover to a standby that missed the last commits, their numbers are
// given again. The buffer drops the lost events, however it learns of that, and
// nothing else.
func TestBufferIsAheadOfLog(t *testing.T) {
	event := func(seq int64, workload string) activity.Event {
		return activity.Event{Seq: seq, Type: activity.PoolScaled, Time: time.Unix(seq, 0), Workload: workload}
	}
	old := []activity.Event{event(1, "old"), event(2, "old"), event(3, "old"), event(4, "lost"), event(5, "lost")}
	real4, real5 := event(4, "real"), event(5, "real")
	for name, c := range map[string]struct {
		learn func(*eventBuffer)
		want  []activity.Event
	}{
		"a commit of this server":    {func(b *eventBuffer) { b.add([]activity.Event{real4}) }, append(old[:3:3], real4)},
		"the log ends before":        {func(b *eventBuffer) { b.verify(5, 3, old[:3]) }, old[:3]},
		"the log has others":         {func(b *eventBuffer) { b.verify(5, 5, append(old[:3:3], real4, real5)) }, old[:3]},
		"the log has lost nothing":   {func(b *eventBuffer) { b.verify(5, 5, old) }, old},
		"a commit during the check":  {func(b *eventBuffer) { b.verify(3, 3, old[:3]) }, old},
		"a commit that was received": {func(b *eventBuffer) { b.add(old[3:]) }, old},
	} {
		t.Run(name, func(t *testing.T) {
			b := newEventBuffer()
			b.add(old)
			b.add([]activity.Event{event(7, "early")})
			c.learn(b)
			isRewound := len(c.want) < len(old)
			require.Equal(t, isRewound, b.rewinds == 1)
			if !isRewound {
				b.add([]activity.Event{event(6, "late")}) // and so 7
				c.want = append(c.want[:5:5], event(6, "late"), event(7, "early"))
			}
			p, ok, err := b.page(activity.Filter{}, 0, 10)
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, activity.Page{Items: c.want, Next: int64(len(c.want)), Rewinds: b.rewinds}, p)
		})
	}
}
