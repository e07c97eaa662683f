package pool

import (
	"slices"
	"sync"
)

// WaitQueue is the line of claims that wait for a container, one for each
// workload, first come first served. It lives in memory: a claim waits for as
// long as its caller does. The database decides who gets a container; the
// queue only says whose turn it is to ask.
type WaitQueue struct {
	mu      sync.Mutex // guards lines
	waiters map[string][]*Waiter
}

// NewWaitQueue returns an empty queue.
func NewWaitQueue() *WaitQueue { return &WaitQueue{waiters: map[string][]*Waiter{}} }

// Waiter is a place in a line.
type Waiter struct {
	queue    *WaitQueue
	workload string
	ready    chan struct{} // holds one signal, so that none is lost
}

// Add takes the last place in the workload's line. The caller must Leave.
func (q *WaitQueue) Add(workload string) *Waiter {
	w := &Waiter{queue: q, workload: workload, ready: make(chan struct{}, 1)}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiters[workload] = append(q.waiters[workload], w)
	if len(q.waiters[workload]) == 1 {
		w.signal()
	}
	return w
}

// NotifyFirst tells the first in the workload's line to ask again.
func (q *WaitQueue) NotifyFirst(workload string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if waiters := q.waiters[workload]; len(waiters) > 0 {
		waiters[0].signal()
	}
}

// NotifyAll tells everybody in the workload's line to look whether waiting still
// makes sense.
func (q *WaitQueue) NotifyAll(workload string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, w := range q.waiters[workload] {
		w.signal()
	}
}

// Waiting is how many wait in the workload's line.
func (q *WaitQueue) Waiting(workload string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiters[workload])
}

// Ready receives whenever the ticket should ask (when First) or reconsider.
func (w *Waiter) Ready() <-chan struct{} { return w.ready }

// Position is how many wait before this ticket; -1 when it has left.
func (w *Waiter) Position() int {
	w.queue.mu.Lock()
	defer w.queue.mu.Unlock()
	return slices.Index(w.queue.waiters[w.workload], w)
}

// IsFirst says whether nobody waits before this ticket.
func (w *Waiter) IsFirst() bool { return w.Position() == 0 }

// Remove gives the place up and tells whoever is first now. Leaving twice is
// harmless.
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

// signal marks the ticket; the caller holds the queue's lock.
func (w *Waiter) signal() {
	select {
	case w.ready <- struct{}{}:
	default:
	}
}
