package credential

import (
	"sync"
	"time"

	"github.com/hostler/hostler/auth"
)

// follower is a request that ends with its principal's credential.
type follower struct {
	principal *auth.Principal

	mu    sync.Mutex // held while end runs
	end   func(cause error)
	ended bool
}

// finish calls end, unless the follower has ended.
func (f *follower) finish(cause error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.ended {
		f.ended = true
		f.end(cause)
	}
}

// stop waits for end, if that runs, and prevents it.
func (f *follower) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
}

// followers are the requests that are followed. Each has its place only until it is
// stopped, by the request's end.
type followers struct {
	mu  sync.Mutex // guards all
	all map[*follower]struct{}
}

func (f *followers) add(one *follower) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all[one] = struct{}{}
}

func (f *followers) remove(one *follower) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.all, one)
}

// list returns those that a condition is true for.
func (f *followers) list(condition func(*follower) bool) (list []*follower) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for one := range f.all {
		if condition(one) {
			list = append(list, one)
		}
	}
	return list
}

// Follow implements auth.Authenticator.
func (s *Service) Follow(p *auth.Principal, end func(cause error)) (stop func()) {
	f := &follower{principal: p, end: end}
	s.followers.add(f)
	s.check([]*follower{f}) // what changed before it was added
	return func() {
		s.followers.remove(f)
		f.stop()
	}
}

// checkAll ends the requests whose credentials are not accepted as they were.
func (s *Service) checkAll() {
	s.check(s.followers.list(func(*follower) bool { return true }))
}

// checkExpired ends those whose credentials have expired.
func (s *Service) checkExpired() {
	now := time.Now()
	s.check(s.followers.list(func(f *follower) bool { return hasExpired(f.principal.Expires, now) }))
}

func (s *Service) check(list []*follower) {
	now := time.Now()
	for _, f := range list {
		s.mu.RLock()
		cause := originOf(f.principal).check(&s.memory, now)
		s.mu.RUnlock()
		if cause != nil {
			s.followers.remove(f)
			f.finish(cause)
		}
	}
}
