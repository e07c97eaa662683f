package publish

import (
	"sync"
	"time"
)

// gate refuses what this server knows to be beyond the limits, without a
// transaction. It has the allowances as they were after the last publication here.
// Other servers only use more of them, so it refuses nothing that the database
// would permit.
type gate struct {
	mu      sync.Mutex // guards the fields below
	claims  map[string]*gateEntry
	tenants map[string]Allowance
	sweepAt int // the number of claims and tenants at which unused ones are removed
}

// maxWaiting is how many changes of a claim may wait: as many as the burst.
const maxWaiting = int(burst / eventInterval)

// gateEntry is what the gate knows of a claim. It is kept while changes of it wait,
// whatever else happens, so that all of them count for the same one.
type gateEntry struct {
	waiting   int    // changes that are requested and not made
	tenant    string // "" before the first publication
	ended     bool   // the claim has
	allowance Allowance
	pending   int64 // dropped events that are not in the allowance
	reported  bool  // the first dropped event was
	// lookups is how many refused requests were looked up: no more than events are
	// permitted.
	lookups time.Time
}

// minSweep is the number of claims and tenants that are kept in any case.
const minSweep = 1024

// enter returns nil if an event of a size may have room, else the error. The
// caller calls leave when the change is made. If there is no room for a request that
// is not known to be new, it may be a repeated one: it is neither admitted nor
// dropped. The caller finds out, and enters again.
func (g *gate) enter(id string, size int, now time.Time, isNew bool) (limit *LimitError, mayBeRepeated bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := g.entry(id)
	of, wait := "claim", eventInterval
	if c.waiting < maxWaiting {
		byClaim, byTenant := c.allowance, g.tenants[c.tenant]
		if wait = byClaim.Take(now, size); wait == 0 {
			of, wait = "tenant", byTenant.Take(now, size)
		}
	}
	switch {
	case wait == 0:
		c.waiting++
		return nil, false
	case !isNew:
		return nil, true
	}
	return c.drop(id, of, wait), false
}

// turn returns after how long a refused request of a claim may be looked up.
func (g *gate) turn(id string, now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := g.claims[id]
	if c == nil { // it has ended since
		return 0
	}
	c.lookups = within(c.lookups, now).Add(eventInterval)
	return c.lookups.Sub(now) - burst
}

// dropping returns the claims of which events were dropped or may be, with their
// tenants.
func (g *gate) dropping() map[string]string {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := map[string]string{}
	for id, c := range g.claims {
		if c.waiting > 0 || c.pending > 0 || c.allowance.Dropped > 0 {
			all[id] = c.tenant
		}
	}
	return all
}

// leave is called for each enter that returned nil.
func (g *gate) leave(id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := g.entry(id)
	if c.waiting--; c.waiting == 0 && (c.ended || c.tenant == "") {
		delete(g.claims, id)
	}
}

// entry returns what is known of a claim. The caller holds mu.
func (g *gate) entry(id string) *gateEntry {
	if g.claims == nil {
		g.claims, g.tenants, g.sweepAt = map[string]*gateEntry{}, map[string]Allowance{}, minSweep
	}
	c := g.claims[id]
	if c == nil {
		c = new(gateEntry)
		g.claims[id] = c
	}
	return c
}

// drop counts an event that the database refused, and returns the error.
func (g *gate) drop(id, of string, retryAfter time.Duration) *LimitError {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.entry(id).drop(id, of, retryAfter)
}

// drop counts an event that was refused, and returns the error.
func (c *gateEntry) drop(id, of string, retryAfter time.Duration) *LimitError {
	c.pending++
	dropped := c.allowance.Dropped + c.pending
	// pending begins again at 0 while a change that adds it is being made.
	isFirst := dropped == 1 && !c.reported
	c.reported = true
	return &LimitError{Of: of, RetryAfter: retryAfter, Dropped: dropped, claim: id, tenant: c.tenant, isFirst: isFirst}
}

// takeDropped returns the dropped events of a claim that are to be added to its
// allowance.
func (g *gate) takeDropped(id string) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := g.entry(id)
	n := c.pending
	c.pending = 0
	return n
}

// addDropped counts dropped events that were not added.
func (g *gate) addDropped(id string, n int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.entry(id).pending += n
}

// update records the allowances after a publication. Their times are those of the
// database's clock.
func (g *gate) update(r Result, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sweep(now)
	c := g.entry(r.Claim.ID)
	c.tenant = r.Claim.Tenant
	ahead := now.Sub(r.Now)
	c.allowance = c.allowance.latest(r.ByClaim.shifted(ahead))
	g.tenants[c.tenant] = g.tenants[c.tenant].latest(r.ByTenant.shifted(ahead))
}

// sweep removes what is as good as unknown, if there is much.
func (g *gate) sweep(now time.Time) {
	if len(g.claims)+len(g.tenants) < g.sweepAt {
		return
	}
	for id, c := range g.claims {
		if c.waiting == 0 && c.pending == 0 && c.allowance.isUnused(now) {
			delete(g.claims, id)
		}
	}
	for id, a := range g.tenants {
		if a.isUnused(now) {
			delete(g.tenants, id)
		}
	}
	g.sweepAt = max(minSweep, 2*(len(g.claims)+len(g.tenants)))
}

// forget removes a claim that has ended, once none of its changes waits, and returns
// how many events were dropped.
func (g *gate) forget(id string) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := g.entry(id)
	if c.ended = true; c.waiting == 0 {
		delete(g.claims, id)
	}
	return c.allowance.Dropped + c.pending
}

// latest returns the allowance of two that were read in an unknown order.
func (a Allowance) latest(b Allowance) Allowance {
	if b.Events.Before(a.Events) {
		b.Events = a.Events
	}
	if b.Bytes.Before(a.Bytes) {
		b.Bytes = a.Bytes
	}
	b.Dropped = max(a.Dropped, b.Dropped)
	return b
}

// shifted returns the allowance by a clock that is ahead.
func (a Allowance) shifted(by time.Duration) Allowance {
	a.Events, a.Bytes = a.Events.Add(by), a.Bytes.Add(by)
	return a
}

// isUnused reports whether all of the burst is available.
func (a Allowance) isUnused(now time.Time) bool { return !a.Events.After(now) && !a.Bytes.After(now) }
