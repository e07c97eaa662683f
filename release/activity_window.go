package release

import "time"

const (
	// minGrace is how long tenants have at the least to show themselves once they
	// can be heard again.
	minGrace = time.Minute
	// maxPollGap is how late a look for idle claims is when it was kept from
	// coming: more than what the loop waits by itself.
	maxPollGap = 2 * max(maxPollInterval, maxBackoff)
)

// activityWindow knows since when tenants can be heard. They could not while the
// server was down, stood still with its machine, or had no database; and a clock
// that is put forward looks the same. Not to have heard of them in that time
// says nothing about them. The zero value has heard of nobody.
type activityWindow struct {
	lastPoll, since time.Time // by the clock on the wall, as what claims say
}

// recordPoll notes a look at now.
func (w *activityWindow) recordPoll(now time.Time) {
	now = now.Round(0)
	if now.Sub(w.lastPoll) > maxPollGap {
		w.since = now
	}
	w.lastPoll = now
}

// releaseAt is when a claim is released whose tenant is idle at a time.
func (w *activityWindow) releaseAt(idle time.Time, ttl time.Duration) time.Time {
	if earliest := w.since.Add(min(ttl, minGrace)); idle.Before(earliest) {
		return earliest
	}
	return idle
}
