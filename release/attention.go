package release

import "time"

const (
	// welcome is how long tenants have at the least to show themselves once they
	// can be heard again.
	welcome = time.Minute
	// lateLook is how late a look for idle claims is when it was kept from
	// coming: more than what the loop waits by itself.
	lateLook = 2 * max(longestLook, longestRetry)
)

// attention knows since when tenants can be heard. They could not while the
// server was down, stood still with its machine, or had no database; and a clock
// that is put forward looks the same. Not to have heard of them in that time
// says nothing about them. The zero value has heard of nobody.
type attention struct {
	last, since time.Time // by the clock on the wall, as what claims say
}

// look notes a look at now.
func (a *attention) look(now time.Time) {
	now = now.Round(0)
	if now.Sub(a.last) > lateLook {
		a.since = now
	}
	a.last = now
}

// due is when a claim is released whose tenant is idle at a time.
func (a *attention) due(idle time.Time, ttl time.Duration) time.Time {
	if heard := a.since.Add(min(ttl, welcome)); idle.Before(heard) {
		return heard
	}
	return idle
}
