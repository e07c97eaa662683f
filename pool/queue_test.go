package pool

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// signalled says whether a ticket has been told to ask, and takes the signal.
func signalled(t *Ticket) bool {
	select {
	case <-t.Turn():
		return true
	default:
		return false
	}
}

// First come, first served: only the first is told, and whoever leaves hands
// the turn on, so that no signal is lost.
func TestQueueIsFair(t *testing.T) {
	q := NewQueue()
	a, b, c := q.Enter("w"), q.Enter("w"), q.Enter("w")
	require.Equal(t, 3, q.Waiting("w"))
	require.True(t, signalled(a), "the first asks once more: what came before it entered is not lost")
	require.False(t, signalled(b))

	q.Wake("w")
	require.True(t, signalled(a))
	require.False(t, signalled(b))

	b.Leave()
	require.False(t, signalled(c), "the first has not changed")
	signalled(a)
	a.Leave()
	require.True(t, signalled(c))
	require.True(t, c.First())
	require.Equal(t, -1, a.Place())

	c.Leave()
	c.Leave()
	require.Zero(t, q.Waiting("w"))
	q.Wake("w")
}

// Lines of different workloads do not touch each other; Shake tells everybody.
func TestQueueLines(t *testing.T) {
	q := NewQueue()
	a, b, other := q.Enter("w"), q.Enter("w"), q.Enter("v")
	signalled(a)
	signalled(other)
	q.Shake("w")
	require.True(t, signalled(a))
	require.True(t, signalled(b))
	require.False(t, signalled(other))
	require.Equal(t, 1, b.Place())
}
