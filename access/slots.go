package access

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrTooManyTransfers means that as many files are in use at once as may be.
var ErrTooManyTransfers = errors.New("too many files are in use at once")

// tooManyRetry is when to try again after a TooManyError.
const tooManyRetry = time.Second

// TooManyError means that as many uses of a kind are in progress as may be.
type TooManyError struct {
	Err   error         // of the kind: ErrTooManyTransfers or runtime.ErrTooManyConnections
	Of    string        // the claim, the tenant or this server
	Limit int           // how many may be in progress
	Retry time.Duration // after this time another one may be tried
}

// Error is for programs of tenants: it names no other tenant.
func (e *TooManyError) Error() string { return fmt.Sprintf("%s: %d of %s", e.Err, e.Limit, e.Of) }

// Unwrap returns the error of the kind.
func (e *TooManyError) Unwrap() error { return e.Err }

// bounds are how many uses of a kind may be in progress at once.
type bounds struct{ perClaim, perTenant, total int }

// slots bound the uses of a kind.
type slots struct {
	bounds
	err error // when there are too many

	// mu guards the fields below.
	mu       sync.Mutex
	byClaim  map[string]int
	byTenant map[string]int
	all      int
}

func newSlots(err error, b bounds) *slots {
	return &slots{bounds: b, err: err, byClaim: map[string]int{}, byTenant: map[string]int{}}
}

// take takes a slot until end is called. It does not wait.
func (s *slots) take(g Grant) (end func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	claimID, tenant := g.Claim.ID, g.Claim.Tenant
	for _, limit := range []struct {
		of         string
		used, most int
	}{
		{"the claim", s.byClaim[claimID], s.perClaim},
		{"the tenant", s.byTenant[tenant], s.perTenant},
		{"this server", s.all, s.total},
	} {
		if limit.used >= limit.most {
			return nil, &TooManyError{Err: s.err, Of: limit.of, Limit: limit.most, Retry: tooManyRetry}
		}
	}
	s.byClaim[claimID]++
	s.byTenant[tenant]++
	s.all++
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all--
		giveBack(s.byClaim, claimID)
		giveBack(s.byTenant, tenant)
	}), nil
}

func giveBack(used map[string]int, key string) {
	if used[key]--; used[key] == 0 {
		delete(used, key)
	}
}
