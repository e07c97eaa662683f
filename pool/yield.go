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
			f.retryAt[id] = earlier(f.retryAt[id], f.lastClaim.Add(quietTime))
		}
		f.signal() // to wait for that time
	})
	timer := time.AfterFunc(maxClaimYield, stop)
	return func() { timer.Stop(); stop() }
}

// yield returns until when a pool that no claim waits for yields to the claims
// in progress, or zero and how many containers it may begin to create: all, or
// one once it has yielded for maxYield. No pool waits for another: the creation
// of a container may take long.
func (f *Filler) yield(id string, now time.Time) (until time.Time, share int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.claims == 0 && now.Sub(f.lastClaim) >= quietTime {
		delete(f.yieldingSince, id)
		return time.Time{}, parallelCreates
	}
	since, ok := f.yieldingSince[id]
	if !ok {
		since = now
		f.yieldingSince[id] = since
	}
	if limit := since.Add(maxYield); limit.After(now) {
		if f.claims == 0 {
			return earlier(limit, f.lastClaim.Add(quietTime)), 0
		}
		return limit, 0
	}
	f.yieldingSince[id] = now
	return time.Time{}, 1
}
