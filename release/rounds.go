package release

import (
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// rounds are what a loop of this package does for claims, again and again:
// each beside the others, and none waited for, so that one which takes hours
// holds up nobody else's.
type rounds struct {
	// limit is how many there are at once. One workload has half of it at most,
	// and the last quarter is for those who have none.
	limit int
	group errgroup.Group
	room  chan struct{} // holds one signal: who found none may begin

	mu   sync.Mutex        // guards what follows
	busy map[string]string // the claims that something is done for now, with their workloads
	last map[string]round  // what was done last, whatever became of it
	full bool              // somebody found no room
}

// round is when something was done for a claim, and for how many times since
// it was due.
type round struct {
	at time.Time
	n  int
}

func newRounds(limit int) *rounds {
	return &rounds{
		limit: limit, room: make(chan struct{}, 1),
		busy: map[string]string{}, last: map[string]round{},
	}
}

// begin does something for a claim, if nothing is being done for it and there
// is room.
func (r *rounds) begin(id, workload string, do func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := 0
	for _, w := range r.busy {
		if w == workload {
			of++
		}
	}
	if _, ok := r.busy[id]; ok {
		return
	}
	if len(r.busy) >= r.limit || of >= r.limit/2 || of > 0 && len(r.busy) >= r.limit-r.limit/4 {
		r.full = true
		return
	}
	r.busy[id] = workload
	r.group.Go(func() error {
		defer r.end(id)
		do()
		return nil
	})
}

// end makes room.
func (r *rounds) end(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.busy, id)
	r.last[id] = round{time.Now(), r.last[id].n + 1}
	if r.full {
		r.full = false
		select {
		case r.room <- struct{}{}:
		default:
		}
	}
}

// tried is when something was last done for the claim.
func (r *rounds) tried(id string) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last[id].at
}

// due is when to begin with what a claim wants done at a time. What has been
// tried since then has failed, and is tried again ever more seldom.
func (r *rounds) due(id string, at time.Time) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.last[id]
	if last.n == 0 {
		return at
	}
	if last.at.Before(at) {
		r.last[id] = round{at: last.at}
		return at
	}
	return last.at.Add(min(firstRetry<<min(last.n-1, 10), longestRetry))
}

// keep forgets the claims that are not listed.
func (r *rounds) keep(listed map[string]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.last {
		if !listed[id] {
			delete(r.last, id)
		}
	}
}

// wait returns when nothing is being done any more.
func (r *rounds) wait() { _ = r.group.Wait() } // the functions return nil
