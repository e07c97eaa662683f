package publish

import (
	"fmt"
	"time"
)

// The limits of a claim, and of a tenant with all of its claims: ten seconds of
// the rates can be used at once.
const (
	eventInterval = 200 * time.Millisecond // between events
	bytesPerSec   = 32 << 10
	burst         = 10 * time.Second // 50 events, 320 KiB
	// minSetBack is how far a clock is set back at least if that is noticed. Changes
	// of a tenant's claims may read the clock in one order and use the allowance in
	// another one: what lies between is no reason for a new burst.
	minSetBack = time.Minute
)

// Allowance is how much of the limits has been used: the times at which all of
// the burst is available again. The zero Allowance has used nothing.
type Allowance struct {
	Events  time.Time
	Bytes   time.Time
	Dropped int64 // events of the claim that were refused
}

// Take uses the allowance for an event of a size, and returns 0. If there is no
// room it uses nothing, and returns after how long there is.
func (a *Allowance) Take(now time.Time, size int) (retryAfter time.Duration) {
	events := within(a.Events, now).Add(eventInterval)
	bytes := within(a.Bytes, now).Add(time.Duration(size) * time.Second / bytesPerSec)
	if wait := max(events.Sub(now), bytes.Sub(now)) - burst; wait > 0 {
		return wait
	}
	a.Events, a.Bytes = events, bytes
	return 0
}

// within returns t, or now if nothing is used. A time that is much later than a
// used burst is one from before the clock was set back.
func within(t, now time.Time) time.Time {
	if t.Before(now) || t.After(now.Add(burst+minSetBack)) {
		return now
	}
	return t
}

// LimitError indicates that an event was dropped because the claim, or its tenant,
// publishes too many.
type LimitError struct {
	// Of is claim or tenant.
	Of         string
	RetryAfter time.Duration
	// Dropped is how many events of the claim were dropped so far.
	Dropped int64

	claim, tenant string
	isFirst       bool // this server has dropped none of the claim before
}

// Error implements error.
func (e *LimitError) Error() string {
	return fmt.Sprintf("the %s publishes too many events: at most 50 at once, and then 5 and 32 KiB a second; %d of the claim were dropped", e.Of, e.Dropped)
}
