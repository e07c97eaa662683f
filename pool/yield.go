package pool

import (
	"sync"
	"time"
)

// maxYield is how long a container that no claim waits for is not created while
// claims are in progress on this server: creating one takes an engine on two
// cores half a second, and makes the hooks of a claim two to three times as
// slow.
const maxYield = 2 * time.Second

// beginClaim records that a claim has a container and is in progress. The
// returned function records its end, and wakes the pools that yielded to the
// last one.
func (f *Filler) beginClaim() (end func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.claims++
	return sync.OnceFunc(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.claims--; f.claims > 0 || len(f.yieldingSince) == 0 {
			return
		}
		for id := range f.yieldingSince {
			f.dirty[id] = true
		}
		clear(f.yieldingSince)
		f.signal()
	})
}

// yield returns until when a pool that no claim waits for yields to the claims
// in progress, or zero and how many containers it may begin to create: all, or
// one at a time of all pools once it has yielded for maxYield.
func (f *Filler) yield(id string, now time.Time) (until time.Time, share int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.claims == 0 {
		return time.Time{}, parallelCreates
	}
	since, ok := f.yieldingSince[id]
	if !ok {
		since = now
		f.yieldingSince[id] = since
	}
	if until := since.Add(maxYield); until.After(now) {
		return until, 0
	}
	if f.creating > 0 {
		return now.Add(maxYield), 0
	}
	f.yieldingSince[id] = now
	return time.Time{}, 1
}
