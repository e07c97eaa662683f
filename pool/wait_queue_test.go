package pool

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// signaled reports whether a Waiter was signaled, and consumes the signal.
func signaled(w *Waiter) bool {
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
	a, b, c := q.Add("w", time.Now()), q.Add("w", time.Now()), q.Add("w", time.Now())
	require.Equal(t, 3, q.Waiting("w"))
	require.True(t, signaled(a), "the first Waiter is signaled when it is added: an earlier signal is not lost")
	require.False(t, signaled(b))

	q.NotifyFirst("w")
	require.True(t, signaled(a))
	require.False(t, signaled(b))

	b.Remove()
	require.False(t, signaled(c), "the first has not changed")
	signaled(a)
	a.Remove()
	require.True(t, signaled(c))
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
	a, b, other := q.Add("w", time.Now()), q.Add("w", time.Now()), q.Add("v", time.Now())
	signaled(a)
	signaled(other)
	q.NotifyAll("w")
	require.True(t, signaled(a))
	require.True(t, signaled(b))
	require.False(t, signaled(other))
	require.Equal(t, 1, b.Position())
}

// A claim that was given a container and has to try another keeps its place.
func TestWaitQueueKeepsPlaces(t *testing.T) {
	q, start := NewWaitQueue(), time.Now()
	first := q.Add("w", start)
	second := q.Add("w", start.Add(1))
	first.Remove()
	require.True(t, signaled(second))
	again := q.Add("w", start)
	require.True(t, again.IsFirst())
	require.True(t, signaled(again))
	require.False(t, second.IsFirst())
}
