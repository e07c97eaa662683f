package claim

import (
	"context"
	"fmt"
	"time"
)

// elsewhereError says that another server makes the claim.
type elsewhereError struct{ claim Claim }

func (e *elsewhereError) Error() string {
	return fmt.Sprintf("claim %s is %s with another server", e.claim.ID, e.claim.State)
}

// Elsewhere says whether another server works on the claim. One that has died
// is taken over, and its claims with it.
func (s *Service) Elsewhere(c Claim) bool {
	return (c.State == Pending || c.State == Releasing) && c.Owner != s.store.Self()
}

// looking is how often a claim that another server works on is looked at when
// nothing is heard: that it was taken over is no event.
const looking = time.Second

// Await returns the claim when no other server works on it any more.
func (s *Service) Await(ctx context.Context, c Claim) (Claim, error) {
	tick := time.NewTicker(looking)
	defer tick.Stop()
	// Nothing may ever be heard of it again. Others who wait look once more.
	defer s.Heard(c.ID)
	for {
		news := s.news(c.ID)
		now, err := s.store.Claim(ctx, c.ID)
		if err != nil || !s.Elsewhere(now) {
			return now, err
		}
		select {
		case <-news:
		case <-tick.C:
		case <-ctx.Done():
			return now, context.Cause(ctx)
		}
	}
}

// news returns a channel that is closed when something is Heard of the claim.
func (s *Service) news(id string) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.awaited[id]
	if c == nil {
		c = make(chan struct{})
		s.awaited[id] = c
	}
	return c
}

// Heard wakes those who Await the claim: some server has changed it.
func (s *Service) Heard(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.awaited[id]; c != nil {
		close(c)
		delete(s.awaited, id)
	}
}

// Ended says that some server has recorded that the claim failed. If it is
// being made here, nothing more is done for it.
func (s *Service) Ended(id string) {
	s.Heard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.inflight {
		if f.claim == id {
			f.cancel(ErrAborted)
		}
	}
}
