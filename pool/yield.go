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

// quietTime is how long no claim has to be in progress until pools that yielded
// are filled again: the claims of a burst, or of one tenant after another, are
// not interrupted in their gaps.
const quietTime = 100 * time.Millisecond

// maxClaimYield is how long one claim counts as in progress: its hooks may take
// minutes.
const maxClaimYield = 10 * time.Second

// beginClaim records that a claim has a container and is in progress. The
// returned function records its end, as maxClaimYield does.
func (f *Filler) beginClaim() (end func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.claims++
	stop := sync.OnceFunc(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.claims--
		f.lastClaim = time.Now()
		for id := range f.yieldingSince {
			f.creations.AddAfter(id, quietTime)
		}
	})
	timer := time.AfterFunc(maxClaimYield, stop)
	return func() { timer.Stop(); stop() }
}

// yield returns until when a pool that no claim waits for yields to the claims
// in progress; zero: it may begin to create a container. A pool that has yielded
// for maxYield creates one container at a time. No pool waits for another: the
// creation of a container may take long.
func (f *Filler) yield(id string, creating int, now time.Time) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.claims == 0 && now.Sub(f.lastClaim) >= quietTime {
		delete(f.yieldingSince, id)
		return time.Time{}
	}
	since, ok := f.yieldingSince[id]
	if !ok {
		since = now
		f.yieldingSince[id] = since
	}
	if limit := since.Add(maxYield); limit.After(now) {
		if f.claims == 0 {
			return earlier(limit, f.lastClaim.Add(quietTime))
		}
		return limit
	}
	if creating > 0 {
		return now.Add(maxYield) // its end wakes the pool earlier
	}
	f.yieldingSince[id] = now
	return time.Time{}
}
