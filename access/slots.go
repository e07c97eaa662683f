package access

import (
	"errors"
	"fmt"
	"sync"
)

// ErrTooManyTransfers means that as many files are in use at once as may be, of the
// claim or of the server.
var ErrTooManyTransfers = errors.New("too many files are in use at once")

// slots bound uses at once.
type slots struct {
	perClaim, total int

	mu   sync.Mutex     // guards what follows
	used map[string]int // by claim
	all  int
}

func newSlots(perClaim, total int) slots {
	return slots{perClaim: perClaim, total: total, used: map[string]int{}}
}

// take takes a slot of a claim until end is called, once. It does not wait.
func (s *slots) take(claim string) (end func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.used[claim] >= s.perClaim:
		return nil, fmt.Errorf("%w: %d of the claim", ErrTooManyTransfers, s.perClaim)
	case s.all >= s.total:
		return nil, fmt.Errorf("%w: %d of this server", ErrTooManyTransfers, s.total)
	}
	s.used[claim]++
	s.all++
	return sync.OnceFunc(func() { s.give(claim) }), nil
}

func (s *slots) give(claim string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if s.used[claim]--; s.used[claim] == 0 {
		delete(s.used, claim)
	}
}
