package release

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A clock that is put forward, or a machine that stood still, takes no claim
// from a tenant that had no chance to show itself; one that is put back takes
// none either.
func TestActivityWindowAcrossClockJumps(t *testing.T) {
	const ttl = 15 * time.Minute
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var w activityWindow
	w.recordPoll(start)
	require.Equal(t, start.Add(minGrace), w.releaseAt(start.Add(-time.Hour), ttl), "the server was down")
	require.Equal(t, start.Add(2*time.Second), w.releaseAt(start.Add(-time.Hour), 2*time.Second), "who may be idle for less has less")

	now := start
	for range 10 {
		now = now.Add(maxPollInterval)
		w.recordPoll(now)
	}
	idle := now.Add(-time.Second)
	require.Equal(t, idle, w.releaseAt(idle, ttl), "it has been heard all the time")

	now = now.Add(time.Hour)
	w.recordPoll(now)
	require.Equal(t, now.Add(minGrace), w.releaseAt(idle, ttl), "an hour was skipped")

	now = now.Add(-2 * time.Hour)
	w.recordPoll(now)
	touched := now.Add(ttl)
	require.False(t, w.releaseAt(touched, ttl).Before(touched))
	now = now.Add(maxPollInterval)
	w.recordPoll(now)
	require.False(t, w.releaseAt(touched, ttl).Before(touched))
}
