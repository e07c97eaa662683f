package schedule

import (
	"sync"
	"time"
)

const (
	// minGrace is the minimum time that tenants have to show activity once the
	// server can observe it again.
	minGrace = time.Minute
	// maxListGap is the longest interval between two lists over which the server is
	// known to have observed the activity.
	maxListGap = 2 * max(minGrace, maxBackoff)
)

// activityWindow records since when the server can observe the activity of
// tenants. It cannot while it is down, suspended with its machine, or without a
// database; a clock that is set forward looks the same. The absence of activity
// in that time does not make a tenant idle. The zero value has observed
// nothing.
type activityWindow struct {
	mu          sync.Mutex // guards the fields below
	last, since time.Time  // wall clock, as in the claims
}

// record records that the server observes activity at now.
func (w *activityWindow) record(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now = now.Round(0)
	if now.Sub(w.last) > maxListGap {
		w.since = now
	}
	w.last = now
}

// observeAt returns when to list the claims for one that is due at a time: minGrace
// before, if that is far. The two lists show whether its tenant could be observed
// between them.
func (w *activityWindow) observeAt(now, due time.Time) time.Time {
	if due.Sub(now) > maxListGap {
		return due.Add(-minGrace)
	}
	return due
}

// releaseAt returns when to release a claim whose tenant is idle at the given
// time.
func (w *activityWindow) releaseAt(idle time.Time, ttl time.Duration) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if earliest := w.since.Add(min(ttl, minGrace)); idle.Before(earliest) {
		return earliest
	}
	return idle
}
