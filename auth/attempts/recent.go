package attempts

import (
	"net/netip"
	"time"
)

// Recent is the time that a Summary is about.
const Recent = 5 * time.Minute

// Summary is what has failed in the time Recent.
type Summary struct {
	Failures int // credentials that were not accepted
	// Limited is the address that was the last one to become limited; invalid
	// without one.
	Limited netip.Prefix
}

// Summary returns what has failed lately.
func (l *Limiter) Summary() Summary {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.recent.summary(time.Now())
}

// recent counts failures by the minute.
type recent struct {
	minutes   [int(Recent / time.Minute)]minute
	limited   netip.Prefix
	limitedAt time.Time
}

type minute struct {
	number   int64 // since 1970
	failures int
}

func (r *recent) add(now time.Time) {
	number := now.Unix() / 60
	m := &r.minutes[number%int64(len(r.minutes))]
	if m.number != number {
		*m = minute{number: number}
	}
	m.failures++
}

func (r *recent) summary(now time.Time) Summary {
	var s Summary
	for _, m := range r.minutes {
		if now.Unix()/60-m.number < int64(len(r.minutes)) {
			s.Failures += m.failures
		}
	}
	if now.Sub(r.limitedAt) < Recent {
		s.Limited = r.limited
	}
	return s
}
