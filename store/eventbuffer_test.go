package store

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
)

// Events that retention has removed from between others leave a gap, and nothing
// that is in memory is lost or given twice because of it.
func TestBufferWithGaps(t *testing.T) {
	event := func(seq int64) activity.Event {
		return activity.Event{Seq: seq, Type: activity.PoolScaled, Time: time.Unix(seq, 0)}
	}
	b := newEventBuffer()
	b.reset(6, withPlaceholders([]activity.Event{event(2), event(5)}, 1, 6))
	b.add([]activity.Event{event(7), event(10)})
	_, ok, err := b.page(activity.Filter{}, 1, 10)
	require.NoError(t, err)
	require.False(t, ok, "8 and 9 are not known")
	b.add(withPlaceholders([]activity.Event{event(9), event(10)}, 6, 10)) // 7 was removed in the meantime
	p, ok, err := b.page(activity.Filter{}, 1, 10)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, activity.Page{Items: []activity.Event{event(2), event(5), event(7), event(9), event(10)}, Next: 10}, p)
	b.verify(10, 10, withPlaceholders([]activity.Event{event(10)}, 1, 10))
	b.remove([]int64{1, 5, 9, 11})
	p, ok, err = b.page(activity.Filter{}, 2, 2)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, activity.Page{Items: []activity.Event{event(7), event(10)}, Next: 10}, p, "no rewind")
	_, ok, err = b.page(activity.Filter{}, 0, 2)
	require.NoError(t, err)
	require.False(t, ok, "it begins after 1")
}

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

// A page that does not reach an event that the log is known to have is not served from
// memory, until the event has come or turns out to be lost.
func TestBufferIsBehindLog(t *testing.T) {
	event := func(seq int64) activity.Event {
		return activity.Event{Seq: seq, Type: activity.PoolScaled, Time: time.Unix(seq, 0)}
	}
	b := newEventBuffer()
	b.add([]activity.Event{event(1)})
	hasPage := func() bool {
		p, ok, err := b.page(activity.Filter{}, 0, 10)
		require.NoError(t, err)
		return ok && p.Next == b.newestKnown()
	}
	require.True(t, hasPage())
	b.expect(2)
	require.False(t, hasPage())
	b.add([]activity.Event{event(2)})
	require.True(t, hasPage())
	b.expect(9)
	b.verify(9, 9, nil)
	require.False(t, hasPage())
	b.verify(9, 8, []activity.Event{event(2)})
	require.Equal(t, 1, b.rewinds, "some followers may have read what is lost")
	require.True(t, hasPage())
}
