package pool

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// signalled says whether a ticket has been told to ask, and takes the signal.
func signalled(w *Waiter) bool {
	select {
	case <-w.Ready():
		return true
	default:
		return false
	}
}

// First come, first served: only the first is told, and whoever leaves hands
// the turn on, so that no signal is lost.
func TestWaitQueueOrder(t *testing.T) {
	q := NewWaitQueue()
	a, b, c := q.Add("w"), q.Add("w"), q.Add("w")
	require.Equal(t, 3, q.Waiting("w"))
	require.True(t, signalled(a), "the first asks once more: what came before it entered is not lost")
	require.False(t, signalled(b))

	q.NotifyFirst("w")
	require.True(t, signalled(a))
	require.False(t, signalled(b))

	b.Remove()
	require.False(t, signalled(c), "the first has not changed")
	signalled(a)
	a.Remove()
	require.True(t, signalled(c))
	require.True(t, c.IsFirst())
	require.Equal(t, -1, a.Position())

	c.Remove()
	c.Remove()
	require.Zero(t, q.Waiting("w"))
	q.NotifyFirst("w")
}

// Lines of different workloads do not touch each other; Shake tells everybody.
func TestWaitQueuePerWorkload(t *testing.T) {
	q := NewWaitQueue()
	a, b, other := q.Add("w"), q.Add("w"), q.Add("v")
	signalled(a)
	signalled(other)
	q.NotifyAll("w")
	require.True(t, signalled(a))
	require.True(t, signalled(b))
	require.False(t, signalled(other))
	require.Equal(t, 1, b.Position())
}
