package release

import (
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// keyedTasks are the tasks that a loop runs for claims, at most one per claim.
// They run concurrently, so that one which takes hours does not block others.
type keyedTasks struct {
	// limit is the number of concurrent tasks. One workload gets at most half of
	// it, and the last quarter is for workloads without a task.
	limit    int
	group    errgroup.Group
	slotFree chan struct{} // holds one signal: a task that found no slot can start

	mu         sync.Mutex         // guards the fields below
	running    map[string]string  // the claims with a running task, with their workloads
	last       map[string]lastRun // the last run per claim, whatever its result
	atCapacity bool               // a task found no slot
}

// lastRun is the time of the last run for a claim, and the number of runs since
// it became due.
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

// start starts a task for a claim, if it has none and a slot is free.
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

// finish frees the slot of a task.
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

// lastAttempt returns the time of the last run for the claim.
func (t *keyedTasks) lastAttempt(id string) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last[id].at
}

// dueAt returns when to start a task that is due at the given time. If it has
// run since then, it has failed, and is retried with backoff.
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

// retain removes the claims that are not listed.
func (t *keyedTasks) retain(listed map[string]bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id := range t.last {
		if !listed[id] {
			delete(t.last, id)
		}
	}
}

// wait waits for all tasks.
func (t *keyedTasks) wait() { _ = t.group.Wait() } // the functions return nil
