package pool

import (
	"sync"
	"time"
)

// How long the creation of a container that no claim waits for is postponed
// while claims are in progress on this server: creating one takes an engine on
// two cores half a second, and makes the hooks of a claim two to three times as
// slow. It is minYield for a pool without a usable container, which its next
// claim would have to wait for, and maxYield for a pool with yieldStock of them.
const (
	minYield   = 250 * time.Millisecond
	maxYield   = 2 * time.Second
	yieldStock = 4
)

// quietTime is how long no claim has to be in progress until pools that yield
// are filled again: the claims of a burst, or of one tenant after another, are
// not interrupted in their gaps.
const quietTime = 100 * time.Millisecond

// maxClaimYield is how long one claim counts as in progress: its hooks may take
// minutes.
const maxClaimYield = 10 * time.Second

// yielder postpones the creation of containers while claims are in progress on
// this server. Those of other servers do not count: it does not see when they
// end. It is safe for concurrent use.
type yielder struct {
	wake func(workload string) // has the pool's containers created

	mu      sync.Mutex // guards the fields below
	claims  int        // claims in progress
	lastEnd time.Time  // when the last one ended
	// since has the pools that lack containers: since when each has yielded for
	// the next one.
	since map[string]time.Time
}

func newYielder(wake func(workload string)) *yielder {
	return &yielder{wake: wake, since: map[string]time.Time{}}
}

// begin records that a claim is in progress. The returned function records its
// end, as maxClaimYield does.
func (y *yielder) begin() (end func()) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.claims++
	stop := sync.OnceFunc(y.end)
	timer := time.AfterFunc(maxClaimYield, stop)
	return func() { timer.Stop(); stop() }
}

func (y *yielder) end() {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.claims--
	y.lastEnd = time.Now()
	if y.claims == 0 && len(y.since) > 0 {
		time.AfterFunc(quietTime, y.wakeIfQuiet)
	}
}

// wakeIfQuiet wakes the pools that yield, unless another claim has begun. They
// are not woken by every claim: each check of a pool costs the database.
func (y *yielder) wakeIfQuiet() {
	y.mu.Lock()
	var ids []string
	if y.isQuiet(time.Now()) {
		for id := range y.since {
			ids = append(ids, id)
		}
	}
	y.mu.Unlock()
	for _, id := range ids {
		y.wake(id)
	}
}

// isQuiet reports whether no claim has been in progress for quietTime. The
// caller holds mu.
func (y *yielder) isQuiet(now time.Time) bool {
	return y.claims == 0 && now.Sub(y.lastEnd) >= quietTime
}

// until returns until when a pool with so many usable containers yields; zero:
// its next container may be created. No pool waits for another, and none for the
// end of its last creation: one that hangs must not keep a pool empty.
func (y *yielder) until(id string, usable, minIdle int) time.Time {
	y.mu.Lock()
	defer y.mu.Unlock()
	now := time.Now()
	if y.isQuiet(now) {
		delete(y.since, id) // the next burst is another one
		return time.Time{}
	}
	since, ok := y.since[id]
	if !ok {
		since = now
		y.since[id] = since
	}
	due := since.Add(yieldTime(usable, minIdle))
	if !due.After(now) {
		return time.Time{}
	}
	if y.claims == 0 {
		due = earlier(due, y.lastEnd.Add(quietTime))
	}
	return due
}

// yieldTime returns for how long a pool yields.
func yieldTime(usable, minIdle int) time.Duration {
	full := min(max(minIdle, 1), yieldStock)
	return minYield + (maxYield-minYield)*time.Duration(min(usable, full))/time.Duration(full)
}

// restart sets the time to now, for the container after the one that was
// recorded.
func (y *yielder) restart(id string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if _, ok := y.since[id]; ok {
		y.since[id] = time.Now()
	}
}

// forget ends the yielding of a pool that lacks no container.
func (y *yielder) forget(id string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	delete(y.since, id)
}
