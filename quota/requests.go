package quota

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// How requests are limited.
const (
	// maxBuckets bounds the scopes that send requests at the same time. More are
	// refused: each has a credential, or a claim.
	maxBuckets = 20_000
	// pollInterval is how old the overrides may be that requests are limited by.
	pollInterval = time.Second
	pollTimeout  = 500 * time.Millisecond
	// retryRefused is when to send a request again where that is not known.
	retryRefused = time.Minute
)

// Sender is who sends a request. The zero value has no limit.
type Sender struct {
	Key    string // as KeyOf returns it; empty without a credential
	Tenant string // of a credential of one tenant
	// IsOperator means that only a limit of the key's own applies.
	IsOperator bool
}

// requests limit the requests of this server.
type requests struct {
	mu      sync.Mutex // guards the fields below
	buckets map[Scope]*bucket
	swept   time.Time        // when full buckets were last removed
	limits  map[Scope]Limits // the overrides
	version int64            // of the overrides
	polled  time.Time        // when the version was last asked for
}

// bucket is the token bucket of a scope.
type bucket struct {
	limiter *rate.Limiter
	limit   int64
}

// AllowRequest returns an error if a request exceeds a quota of its sender.
func (s *Service) AllowRequest(ctx context.Context, from Sender) error {
	if from.Key == "" && from.Tenant == "" {
		return nil
	}
	now := time.Now()
	s.follow(ctx, now)
	err := s.requests.allow(now, from, s.defaults)
	if err != nil {
		s.onRefusal(err)
		return err
	}
	return nil
}

// follow reads the overrides if they have changed. One request at a time does so,
// and the others are limited by the former ones: also while the database is
// unavailable.
func (s *Service) follow(ctx context.Context, now time.Time) {
	r := &s.requests
	r.mu.Lock()
	isDue, known, isFirst := now.Sub(r.polled) >= pollInterval, r.version, r.limits == nil
	if isDue {
		r.polled = now
	}
	r.mu.Unlock()
	if !isDue {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pollTimeout) // a client may not keep it from being read
	defer cancel()
	// The version is read first: a change in between is read again.
	version, err := s.store.QuotaVersion(ctx)
	if err != nil || version == known && !isFirst {
		return
	}
	overrides, err := s.store.QuotaOverrides(ctx)
	if err != nil {
		return
	}
	limits := make(map[Scope]Limits)
	for _, o := range overrides {
		if o.Limits.RequestsPerSecond != nil {
			limits[o.Scope] = o.Limits
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if version > r.version || r.limits == nil {
		r.limits, r.version = limits, version
	}
}

// allow takes a token from each bucket of the sender, or from none.
func (r *requests) allow(now time.Time, from Sender, defaults Defaults) *ExceededError {
	r.mu.Lock()
	defer r.mu.Unlock()
	var taken []*rate.Reservation
	for _, scope := range []Scope{{Key, from.Key}, {Tenant, from.Tenant}} {
		limit, ok := r.limitOf(scope, from, defaults)
		if !ok {
			continue
		}
		refused := &ExceededError{Scope: scope, Kind: Requests, Limit: limit, RetryAfter: retryRefused}
		if b := r.bucketOf(scope, limit, now); b != nil {
			got := b.limiter.ReserveN(now, 1)
			if got.OK() && got.DelayFrom(now) <= 0 {
				taken = append(taken, got)
				continue
			}
			if got.OK() {
				refused.RetryAfter = got.DelayFrom(now)
			}
			taken = append(taken, got)
		}
		for _, t := range taken {
			t.CancelAt(now)
		}
		return refused
	}
	return nil
}

// limitOf returns the limit of requests of a scope, if it has one for the sender.
func (r *requests) limitOf(scope Scope, from Sender, defaults Defaults) (int64, bool) {
	if scope.Name == "" {
		return 0, false
	}
	own := r.limits[scope]
	if !from.IsOperator {
		return own.Over(defaults[scope.Level]).Of(Requests)
	}
	if scope.Level != Key {
		return 0, false
	}
	return own.Of(Requests)
}

// bucketOf returns the bucket of a scope. It is nil if there are too many. Only a
// full bucket is removed: what a new one permits, it would have permitted too.
func (r *requests) bucketOf(scope Scope, limit int64, now time.Time) *bucket {
	if b := r.buckets[scope]; b != nil {
		if b.limit != limit {
			b.limit = limit
			b.limiter.SetLimitAt(now, rate.Limit(limit))
			b.limiter.SetBurstAt(now, burstOf(limit))
		}
		return b
	}
	if len(r.buckets) >= maxBuckets && now.Sub(r.swept) >= pollInterval {
		r.swept = now
		for s, b := range r.buckets {
			if b.limiter.TokensAt(now) >= float64(b.limiter.Burst()) {
				delete(r.buckets, s)
			}
		}
	}
	if len(r.buckets) >= maxBuckets {
		return nil
	}
	b := &bucket{rate.NewLimiter(rate.Limit(limit), burstOf(limit)), limit}
	r.buckets[scope] = b
	return b
}

// burstOf returns how many requests are permitted at once.
func burstOf(limit int64) int { return int(2 * limit) }
