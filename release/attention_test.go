package release

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A clock that is put forward, or a machine that stood still, takes no claim
// from a tenant that had no chance to show itself; one that is put back takes
// none either.
func TestAttention(t *testing.T) {
	const ttl = 15 * time.Minute
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var a attention
	a.look(begin)
	require.Equal(t, begin.Add(welcome), a.due(begin.Add(-time.Hour), ttl), "the server was down")
	require.Equal(t, begin.Add(2*time.Second), a.due(begin.Add(-time.Hour), 2*time.Second), "who may be idle for less has less")

	now := begin
	for range 10 {
		now = now.Add(longestLook)
		a.look(now)
	}
	idle := now.Add(-time.Second)
	require.Equal(t, idle, a.due(idle, ttl), "it has been heard all the time")

	now = now.Add(time.Hour)
	a.look(now)
	require.Equal(t, now.Add(welcome), a.due(idle, ttl), "an hour was skipped")

	now = now.Add(-2 * time.Hour)
	a.look(now)
	touched := now.Add(ttl)
	require.False(t, a.due(touched, ttl).Before(touched))
	now = now.Add(longestLook)
	a.look(now)
	require.False(t, a.due(touched, ttl).Before(touched))
}
