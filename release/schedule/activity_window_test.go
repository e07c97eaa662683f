package schedule

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// After a clock jump forward or a suspended machine, tenants have minGrace to
// show activity before their claims are released. A clock that is set back
// releases no claim either.
func TestActivityWindowAcrossClockJumps(t *testing.T) {
	const ttl = 15 * time.Minute
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var w activityWindow
	w.record(start)
	require.Equal(t, start.Add(minGrace), w.releaseAt(start.Add(-time.Hour), ttl), "the server was down")
	require.Equal(t, start.Add(2*time.Second), w.releaseAt(start.Add(-time.Hour), 2*time.Second), "a shorter ttl has a shorter grace")

	now := start
	for range 10 {
		now = now.Add(maxBackoff / 2)
		w.record(now)
	}
	idle := now.Add(-time.Second)
	require.Equal(t, idle, w.releaseAt(idle, ttl), "it was observed without interruption")

	now = now.Add(time.Hour)
	w.record(now)
	require.Equal(t, now.Add(minGrace), w.releaseAt(idle, ttl), "an hour was skipped")

	now = now.Add(-2 * time.Hour)
	w.record(now)
	touched := now.Add(ttl)
	require.False(t, w.releaseAt(touched, ttl).Before(touched))
	now = now.Add(maxBackoff / 2)
	w.record(now)
	require.False(t, w.releaseAt(touched, ttl).Before(touched))
}
