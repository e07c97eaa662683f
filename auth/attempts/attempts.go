// Package attempts limits invalid credentials by the address that sends them.
//
// It promises that an address which has sent too many gets auth.TooManyError for the
// next ones, for a time that doubles; that what is valid stays accepted from it,
// because others may share the address; and that its table has a bound, however many
// addresses there are. No request waits.
//
// Guessing a key is infeasible with or without a limit: keys are long. The limit
// bounds what guesses cost: the events and log lines that others write of them, and
// the signatures and the issuers' keys that tokens need at once. Package auth/attempts
// therefore limits failures, never the lookup of a key. Which credentials are valid
// is left to the Authenticator that it decorates.
package attempts

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

	"github.com/hostler/hostler/auth"
)

// Limits of one address.
const (
	maxFailures    = 10          // within window
	window         = time.Minute // in which failures add up
	firstDelay     = time.Second
	maxDelay       = time.Minute
	quiet          = 10 * time.Minute // without a failure: the address is as if it were new
	maxAddresses   = 10_000           // in each of two tables
	ipv6Subscriber = 64               // the bits that a network gives to one subscriber
)

// Reason is why a request was not authenticated, for metrics.
type Reason string

// The reasons.
const (
	Missing     Reason = "missing"     // it has no credential
	Invalid     Reason = "invalid"     // the credential is not accepted
	Limited     Reason = "limited"     // nor is it, and its address has sent too many
	Unavailable Reason = "unavailable" // the credential cannot be checked
)

// Reasons returns all reasons.
func Reasons() []Reason { return []Reason{Missing, Invalid, Limited, Unavailable} }

// Options are the options of a Limiter.
type Options struct {
	// OnFailure is called for each request that is not authenticated. It must not
	// block. Nil: nothing is called.
	OnFailure func(Reason)
}

// Limiter is an Authenticator that limits failures.
type Limiter struct {
	auth.Authenticator
	onFailure func(Reason)

	// mu guards what follows.
	mu sync.Mutex
	// counted are addresses with less than maxFailures; limited those with more. The
	// two are apart, so that an address is not taken out of the second by failures of
	// others that fill the first.
	counted *table[count]
	limited *table[limit]
	recent  recent
}

// count is how often an address has failed since a time.
type count struct {
	since    time.Time
	failures int
}

// limit is until when failures of an address are refused.
type limit struct {
	until time.Time
	delay time.Duration
}

var _ auth.Authenticator = (*Limiter)(nil)

// New returns a Limiter of the failures of inner.
func New(inner auth.Authenticator, o Options) *Limiter {
	l := &Limiter{
		Authenticator: inner, onFailure: o.OnFailure,
		counted: newTable[count](maxAddresses), limited: newTable[limit](maxAddresses),
	}
	if l.onFailure == nil {
		l.onFailure = func(Reason) {}
	}
	return l
}

type waitKey struct{}

// Authenticate implements auth.Authenticator.
func (l *Limiter) Authenticate(ctx context.Context, r auth.Request) (*auth.Principal, error) {
	client, ok := clientOf(r)
	var wait time.Duration
	if ok {
		if wait = l.wait(client); wait > 0 {
			ctx = context.WithValue(ctx, waitKey{}, wait)
		}
	}
	p, err := l.Authenticator.Authenticate(ctx, r)
	if err == nil {
		return p, nil
	}
	reason := reasonOf(err)
	if wait > 0 && reason != Missing {
		reason, err = Limited, &auth.TooManyError{RetryAfter: wait}
	}
	l.fail(client, ok, reason)
	l.onFailure(reason)
	return nil, err
}

func reasonOf(err error) Reason {
	if _, ok := errors.AsType[*auth.TooManyError](err); ok {
		return Limited
	}
	switch {
	case errors.Is(err, auth.ErrNoCredential):
		return Missing
	case errors.Is(err, auth.ErrInvalidCredential):
		return Invalid
	}
	return Unavailable
}

// clientOf returns whose failures are counted together. A Unix socket has none: its
// peer is known.
func clientOf(r auth.Request) (client netip.Prefix, ok bool) {
	if r.UID != nil || !r.Address.IsValid() {
		return client, false
	}
	address := r.Address.Unmap()
	bits := address.BitLen()
	if address.Is6() {
		bits = ipv6Subscriber
	}
	client, err := address.Prefix(bits)
	return client, err == nil
}

// wait returns for how long failures of a client are refused.
func (l *Limiter) wait(client netip.Prefix) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	limit := l.limited.get(client)
	if limit == nil {
		return 0
	}
	return time.Until(limit.until)
}

// fail counts a failure. Those of a client that is limited at this moment change
// nothing: a program that retries must not extend the time for others behind its
// address.
func (l *Limiter) fail(client netip.Prefix, ok bool, reason Reason) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if reason == Invalid || reason == Limited {
		l.recent.add(now)
	}
	if !ok || reason != Invalid {
		return
	}
	if limited := l.limited.get(client); limited != nil {
		if now.Before(limited.until) {
			return // it was checked while another one failed
		}
		if now.Sub(limited.until) < quiet {
			delay := min(2*limited.delay, maxDelay)
			l.limited.put(client, limit{until: now.Add(delay), delay: delay})
			return
		}
		l.limited.remove(client)
	}
	counted := count{since: now}
	if earlier := l.counted.get(client); earlier != nil && now.Sub(earlier.since) < window {
		counted = *earlier
	}
	if counted.failures++; counted.failures < maxFailures {
		l.counted.put(client, counted)
		return
	}
	l.counted.remove(client)
	l.limited.put(client, limit{until: now.Add(firstDelay), delay: firstDelay})
	l.recent.limited, l.recent.limitedAt = client, now
}
