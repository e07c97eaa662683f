package membership

import "time"

// SetClock replaces the clocks of a new member.
func (m *Member) SetClock(read func() (mono time.Duration, wall time.Time)) {
	m.lease.clock = func() reading {
		mono, wall := read()
		return reading{mono, wall}
	}
}
