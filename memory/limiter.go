package memory

import (
	"sync"
	"time"
)

// How often a claim may put and delete on one server: each is a durable commit.
const (
	changeBurst     = 50
	changeInterval  = 50 * time.Millisecond // 20 a second after the burst
	limiterMinSweep = 1024                  // claims
)

// limiter bounds the changes of each claim. It remembers a claim only while a
// burst would be refused, so that its size follows the rate of requests.
type limiter struct {
	mu    sync.Mutex           // guards the fields below
	full  map[string]time.Time // when a claim may make a whole burst again
	sweep int                  // the size at which claims are forgotten
}

// allow reports whether a claim may make a change now, and counts it.
func (l *limiter) allow(claim string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	full := l.full[claim]
	if full.Before(now) {
		full = now
	}
	full = full.Add(changeInterval)
	if full.Sub(now) > changeBurst*changeInterval {
		return false
	}
	if l.full == nil {
		l.full = map[string]time.Time{}
	}
	l.full[claim] = full
	if len(l.full) > l.sweep {
		for id, at := range l.full {
			if !at.After(now) {
				delete(l.full, id)
			}
		}
		l.sweep = max(limiterMinSweep, 2*len(l.full))
	}
	return true
}
