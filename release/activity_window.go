package release

import "time"

const (
	// minGrace is the minimum time that tenants have to show activity once the
	// server can observe it again.
	minGrace = time.Minute
	// maxPollGap is the longest regular interval between two polls. A longer one
	// means that the loop was interrupted.
	maxPollGap = 2 * max(maxPollInterval, maxBackoff)
)

// activityWindow records since when the server can observe the activity of
// tenants. It cannot while it is down, suspended with its machine, or without a
// database; a clock that is set forward looks the same. The absence of activity
// in that time does not make a tenant idle. The zero value has observed
// nothing.
type activityWindow struct {
	lastPoll, since time.Time // wall clock, as in the claims
}

// recordPoll records a poll at now.
func (w *activityWindow) recordPoll(now time.Time) {
	now = now.Round(0)
	if now.Sub(w.lastPoll) > maxPollGap {
		w.since = now
	}
	w.lastPoll = now
}

// releaseAt returns when to release a claim whose tenant is idle at the given
// time.
func (w *activityWindow) releaseAt(idle time.Time, ttl time.Duration) time.Time {
	if earliest := w.since.Add(min(ttl, minGrace)); idle.Before(earliest) {
		return earliest
	}
	return idle
}
