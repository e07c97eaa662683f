package pool

import (
	"slices"
	"sync"
	"time"
)

// WaitQueue has a first-in, first-out queue of the claims that wait for a
// container, for each workload. It is in memory: a claim waits no longer than
// its caller. The database decides which claim gets a container; the queue only
// decides which claim tries next.
type WaitQueue struct {
	mu      sync.Mutex // guards waiters
	waiters map[string][]*Waiter
}

// NewWaitQueue returns an empty queue.
func NewWaitQueue() *WaitQueue { return &WaitQueue{waiters: map[string][]*Waiter{}} }

// Waiter is an entry in the queue of a workload.
type Waiter struct {
	queue     *WaitQueue
	workload  string
	since     time.Time
	reserving bool          // guarded by the queue's lock
	ready     chan struct{} // buffers one signal, so that none is lost
}

// Add adds a Waiter to the workload's queue, after those that wait since an earlier
// time. The caller must Remove it.
func (q *WaitQueue) Add(workload string, since time.Time) *Waiter {
	w := &Waiter{queue: q, workload: workload, since: since, ready: make(chan struct{}, 1)}
	q.mu.Lock()
	defer q.mu.Unlock()
	waiters := q.waiters[workload]
	at := len(waiters)
	for at > 0 && since.Before(waiters[at-1].since) {
		at--
	}
	q.waiters[workload] = slices.Insert(waiters, at, w)
	if at == 0 {
		w.signal()
	}
	return w
}

// NotifyFirst signals the first Waiter in the workload's queue to try again.
func (q *WaitQueue) NotifyFirst(workload string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if waiters := q.waiters[workload]; len(waiters) > 0 {
		waiters[0].signal()
	}
}

// NotifyAll signals all Waiters in the workload's queue to check whether they
// should still wait.
func (q *WaitQueue) NotifyAll(workload string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, w := range q.waiters[workload] {
		w.signal()
	}
}

// NotifyEvery signals the first Waiter of each queue.
func (q *WaitQueue) NotifyEvery() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, waiters := range q.waiters {
		waiters[0].signal()
	}
}

// Waiting returns the length of the workload's queue.
func (q *WaitQueue) Waiting(workload string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiters[workload])
}

// Reserving returns how many Waiters of the workload's queue are reserving a
// container: they may have it, and are not removed yet.
func (q *WaitQueue) Reserving(workload string) (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, w := range q.waiters[workload] {
		if w.reserving {
			n++
		}
	}
	return n
}

// SetReserving records whether the Waiter is reserving a container. No room is
// made for it then. After an attempt that has failed, the caller wakes the
// filler.
func (w *Waiter) SetReserving(is bool) {
	w.queue.mu.Lock()
	defer w.queue.mu.Unlock()
	w.reserving = is
}

// Ready returns the channel that receives a signal whenever the Waiter should
// try to reserve a container (if IsFirst) or check whether to wait.
func (w *Waiter) Ready() <-chan struct{} { return w.ready }

// Position returns how many Waiters are before this one; -1 after Remove.
func (w *Waiter) Position() int {
	w.queue.mu.Lock()
	defer w.queue.mu.Unlock()
	return slices.Index(w.queue.waiters[w.workload], w)
}

// IsFirst reports whether the Waiter is the first in its queue.
func (w *Waiter) IsFirst() bool { return w.Position() == 0 }

// Remove removes the Waiter and signals the one that is first now. A second call
// does nothing else.
func (w *Waiter) Remove() {
	q := w.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	waiters := slices.DeleteFunc(q.waiters[w.workload], func(o *Waiter) bool { return o == w })
	if len(waiters) == 0 {
		delete(q.waiters, w.workload)
		return
	}
	q.waiters[w.workload] = waiters
	waiters[0].signal()
}

// signal signals the Waiter; the caller must hold the queue's lock.
func (w *Waiter) signal() {
	select {
	case w.ready <- struct{}{}:
	default:
	}
}
