package membership

import (
	"sync"
	"time"
)

const (
	// graceTime is how long this server does not judge others after an outage of
	// the database or a jump of its clock. A server that does not renew during it
	// no longer trusts its lease.
	graceTime = LeaseTime
	// maxRenewalGap is the time between two renewals without an outage of the
	// database. After a longer one the others may have missed theirs too.
	maxRenewalGap = HeartbeatInterval + renewTimeout
	// maxClockDrift is how much further than this machine's clock the database's
	// clock may advance between two renewals. More is a jump. A jump that is not
	// detected, because the renewals were slow, is below TakeoverMargin.
	maxClockDrift = 500 * time.Millisecond
)

// reading is one reading of this machine's clocks.
type reading struct {
	mono time.Duration // stops while the machine is suspended
	wall time.Time     // can be set
}

// clock reads this machine's clocks.
type clock func() reading

// newClock returns the real clock.
func newClock() clock {
	start := time.Now()
	return func() reading {
		now := time.Now()
		return reading{now.Sub(start), now.Round(0)}
	}
}

// since returns the time between two readings, by the clock that shows more.
func (r reading) since(earlier reading) time.Duration {
	return max(r.mono-earlier.mono, r.wall.Sub(earlier.wall))
}

// lease is this server's view of its own lease.
type lease struct {
	clock clock

	mu         sync.Mutex    // guards the fields below
	valid      bool          // it was renewed once
	left       bool          // this server left, or was fenced
	begin, end reading       // of the last successful renewal
	time       time.Time     // of that renewal, by the database's clock
	graceUntil time.Duration // monotonic; other servers are not judged before
}

// renewed records a successful renewal that began at begin, and its time by the
// database's clock.
func (l *lease) renewed(begin reading, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock()
	gap := now.since(l.begin)
	if !l.valid || gap > maxRenewalGap || at.Sub(l.time) > gap+maxClockDrift {
		l.graceUntil = now.mono + graceTime
	}
	l.valid, l.begin, l.end, l.time = true, begin, now, at
}

// giveUp ends the lease for good.
func (l *lease) giveUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left = true
}

// isHeld reports whether no other server can have taken over from this one.
func (l *lease) isHeld() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.isHeldAt(l.clock())
}

func (l *lease) isHeldAt(now reading) bool {
	return l.valid && !l.left && now.since(l.begin) < LeaseTime
}

// othersTime returns the time by the database's clock, or an earlier one, at
// which this server may treat leases of others as expired. It is the zero time if
// it may not judge them. A jump of the database's clock since the last renewal has
// no effect on it.
func (l *lease) othersTime() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock()
	if !l.isHeldAt(now) || now.mono < l.graceUntil {
		return time.Time{}
	}
	return l.time.Add(now.mono - l.end.mono)
}

// hasExpired reports whether another server, which the database lists as
// expired, left or had expired at asOf.
func (r Replica) hasExpired(asOf time.Time) bool {
	return r.HasLeft() || r.ExpiresAt.Before(asOf.Add(-TakeoverMargin))
}
