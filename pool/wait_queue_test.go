package pool

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// signalled reports whether a Waiter was signaled, and consumes the signal.
func signalled(w *Waiter) bool {
	select {
	case <-w.Ready():
		return true
	default:
		return false
	}
}

// Only the first Waiter is signaled, and Remove signals the next one, so that no
// signal is lost.
func TestWaitQueueOrder(t *testing.T) {
	q := NewWaitQueue()
	a, b, c := q.Add("w"), q.Add("w"), q.Add("w")
	require.Equal(t, 3, q.Waiting("w"))
	require.True(t, signalled(a), "the first Waiter is signaled when it is added: an earlier signal is not lost")
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

// The queues of different workloads are independent; NotifyAll signals all
// Waiters of one.
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
