package gate

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Limits of the checks that a server makes at once.
const (
	maxChecks        = 64
	maxChecksOfClaim = 16
)

// errBusy means that a check has waited too long for its turn.
var errBusy = errors.New("too many requests wait for a decision")

// slots bounds the checks at once.
type slots struct {
	all     chan struct{}
	ofClaim int

	mu     *sync.Mutex // guards claims
	claims map[string]*claimSlots
}

// claimSlots bounds those of one claim. users counts the checks that hold it or wait
// for it; without one it is removed.
type claimSlots struct {
	held  chan struct{}
	users int
}

func newSlots(all, ofClaim int) slots {
	return slots{all: make(chan struct{}, all), ofClaim: ofClaim, mu: new(sync.Mutex), claims: map[string]*claimSlots{}}
}

// acquire waits for the turn of a check of a claim, at most for a time. First for that
// among the claim's: a claim with many checks takes no place from the others.
func (s slots) acquire(ctx context.Context, claim string, wait time.Duration) (release func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	own := s.enter(claim)
	if !take(ctx, own.held) {
		s.leave(claim, own)
		return nil, errBusy
	}
	if !take(ctx, s.all) {
		<-own.held
		s.leave(claim, own)
		return nil, errBusy
	}
	return func() {
		<-s.all
		<-own.held
		s.leave(claim, own)
	}, nil
}

func take(ctx context.Context, c chan struct{}) bool {
	select {
	case c <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (s slots) enter(claim string) *claimSlots {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.claims[claim]
	if own == nil {
		own = &claimSlots{held: make(chan struct{}, s.ofClaim)}
		s.claims[claim] = own
	}
	own.users++
	return own
}

func (s slots) leave(claim string, own *claimSlots) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if own.users--; own.users == 0 {
		delete(s.claims, claim)
	}
}

// Limits of the records of refusals: a tenant can be refused as often as it likes.
const (
	recordBurst    = 20
	recordInterval = time.Minute // between two records after the burst
	maxAllowances  = 4096
)

// allowances bounds the records of each claim.
type allowances struct {
	now func() time.Time

	mu     sync.Mutex // guards claims
	claims map[string]allowance
}

// allowance is the number of records that a claim had left at a time.
type allowance struct {
	left float64
	at   time.Time
}

// take reports whether a refusal of a claim is recorded.
func (a *allowances) take(claim string) bool {
	now := a.now()
	a.mu.Lock()
	defer a.mu.Unlock()
	c, ok := a.claims[claim]
	if !ok {
		if a.claims == nil {
			a.claims = map[string]allowance{}
		}
		if len(a.claims) >= maxAllowances && !a.forget(now) {
			return false
		}
		c = allowance{recordBurst, now}
	}
	c = c.since(now)
	isGranted := c.left >= 1
	if isGranted {
		c.left--
	}
	a.claims[claim] = c
	return isGranted
}

// since returns the allowance at a later time.
func (c allowance) since(now time.Time) allowance {
	return allowance{min(recordBurst, c.left+now.Sub(c.at).Seconds()/recordInterval.Seconds()), now}
}

// forget removes the allowances that are full again, and reports whether one was.
func (a *allowances) forget(now time.Time) bool {
	before := len(a.claims)
	for claim, c := range a.claims {
		if c.since(now).left >= recordBurst {
			delete(a.claims, claim)
		}
	}
	return len(a.claims) < before
}
