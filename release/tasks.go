package release

import (
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// keyedTasks are what a loop of this package does for claims, again and again:
// each beside the others, and none waited for, so that one which takes hours
// holds up nobody else's.
type keyedTasks struct {
	// limit is how many there are at once. One workload has half of it at most,
	// and the last quarter is for those who have none.
	limit    int
	group    errgroup.Group
	slotFree chan struct{} // holds one signal: who found none may begin

	mu         sync.Mutex         // guards what follows
	running    map[string]string  // the claims that something is done for now, with their workloads
	last       map[string]lastRun // what was done last, whatever became of it
	atCapacity bool               // somebody found no room
}

// lastRun is when something was done for a claim, and for how many times since
// it was due.
type lastRun struct {
	at    time.Time
	count int
}

func newKeyedTasks(limit int) *keyedTasks {
	return &keyedTasks{
		limit: limit, slotFree: make(chan struct{}, 1),
		running: map[string]string{}, last: map[string]lastRun{},
	}
}

// start does something for a claim, if nothing is being done for it and there
// is room.
func (t *keyedTasks) start(id, workload string, do func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	ofWorkload := 0
	for _, w := range t.running {
		if w == workload {
			ofWorkload++
		}
	}
	if _, ok := t.running[id]; ok {
		return
	}
	if len(t.running) >= t.limit || ofWorkload >= t.limit/2 || ofWorkload > 0 && len(t.running) >= t.limit-t.limit/4 {
		t.atCapacity = true
		return
	}
	t.running[id] = workload
	t.group.Go(func() error {
		defer t.finish(id)
		do()
		return nil
	})
}

// finish makes room.
func (t *keyedTasks) finish(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.running, id)
	t.last[id] = lastRun{time.Now(), t.last[id].count + 1}
	if t.atCapacity {
		t.atCapacity = false
		select {
		case t.slotFree <- struct{}{}:
		default:
		}
	}
}

// lastAttempt is when something was last done for the claim.
func (t *keyedTasks) lastAttempt(id string) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last[id].at
}

// dueAt is when to begin with what a claim wants done at a time. What has been
// tried since then has failed, and is tried again ever more seldom.
func (t *keyedTasks) dueAt(id string, at time.Time) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := t.last[id]
	if last.count == 0 {
		return at
	}
	if last.at.Before(at) {
		t.last[id] = lastRun{at: last.at}
		return at
	}
	return last.at.Add(min(minBackoff<<min(last.count-1, 10), maxBackoff))
}

// retain forgets the claims that are not listed.
func (t *keyedTasks) retain(listed map[string]bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id := range t.last {
		if !listed[id] {
			delete(t.last, id)
		}
	}
}

// wait returns when nothing is being done any more.
func (t *keyedTasks) wait() { _ = t.group.Wait() } // the functions return nil
