package pool

import (
	"slices"
	"sync"
)

// Queue is the line of claims that wait for a container, one for each
// workload, first come first served. It lives in memory: a claim waits for as
// long as its caller does. The database decides who gets a container; the
// queue only says whose turn it is to ask.
type Queue struct {
	mu    sync.Mutex // guards lines
	lines map[string][]*Ticket
}

// NewQueue returns an empty queue.
func NewQueue() *Queue { return &Queue{lines: map[string][]*Ticket{}} }

// Ticket is a place in a line.
type Ticket struct {
	queue    *Queue
	workload string
	turn     chan struct{} // holds one signal, so that none is lost
}

// Enter takes the last place in the workload's line. The caller must Leave.
func (q *Queue) Enter(workload string) *Ticket {
	t := &Ticket{queue: q, workload: workload, turn: make(chan struct{}, 1)}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lines[workload] = append(q.lines[workload], t)
	if len(q.lines[workload]) == 1 {
		t.signal()
	}
	return t
}

// Wake tells the first in the workload's line to ask again.
func (q *Queue) Wake(workload string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if line := q.lines[workload]; len(line) > 0 {
		line[0].signal()
	}
}

// Shake tells everybody in the workload's line to look whether waiting still
// makes sense.
func (q *Queue) Shake(workload string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, t := range q.lines[workload] {
		t.signal()
	}
}

// Waiting is how many wait in the workload's line.
func (q *Queue) Waiting(workload string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.lines[workload])
}

// Turn receives whenever the ticket should ask (when First) or reconsider.
func (t *Ticket) Turn() <-chan struct{} { return t.turn }

// Place is how many wait before this ticket; -1 when it has left.
func (t *Ticket) Place() int {
	t.queue.mu.Lock()
	defer t.queue.mu.Unlock()
	return slices.Index(t.queue.lines[t.workload], t)
}

// First says whether nobody waits before this ticket.
func (t *Ticket) First() bool { return t.Place() == 0 }

// Leave gives the place up and tells whoever is first now. Leaving twice is
// harmless.
func (t *Ticket) Leave() {
	q := t.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	line := slices.DeleteFunc(q.lines[t.workload], func(o *Ticket) bool { return o == t })
	if len(line) == 0 {
		delete(q.lines, t.workload)
		return
	}
	q.lines[t.workload] = line
	line[0].signal()
}

// signal marks the ticket; the caller holds the queue's lock.
func (t *Ticket) signal() {
	select {
	case t.turn <- struct{}{}:
	default:
	}
}
