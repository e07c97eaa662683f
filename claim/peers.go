package claim

import (
	"context"
	"fmt"
	"time"
)

// peerOwnedError says that another server makes the claim.
type peerOwnedError struct{ claim Claim }

func (e *peerOwnedError) Error() string {
	return fmt.Sprintf("claim %s is %s with another server", e.claim.ID, e.claim.State)
}

// IsOwnedByPeer says whether another server works on the claim. One that has died
// is taken over, and its claims with it.
func (s *Service) IsOwnedByPeer(c Claim) bool {
	return (c.State == Pending || c.State == Releasing) && c.Owner != s.store.Self()
}

// pollInterval is how often a claim that another server works on is looked at when
// nothing is heard: that it was taken over is no event.
const pollInterval = time.Second

// WaitForPeer returns the claim when no other server works on it any more.
func (s *Service) WaitForPeer(ctx context.Context, c Claim) (Claim, error) {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	// Nothing may ever be heard of it again. Others who wait look once more.
	defer s.NotifyChanged(c.ID)
	for {
		changed := s.subscribe(c.ID)
		current, err := s.store.Claim(ctx, c.ID)
		if err != nil || !s.IsOwnedByPeer(current) {
			return current, err
		}
		select {
		case <-changed:
		case <-tick.C:
		case <-ctx.Done():
			return current, context.Cause(ctx)
		}
	}
}

// subscribe returns a channel that is closed when something is Heard of the claim.
func (s *Service) subscribe(id string) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.subscribers[id]
	if c == nil {
		c = make(chan struct{})
		s.subscribers[id] = c
	}
	return c
}

// NotifyChanged wakes those who Await the claim: some server has changed it.
func (s *Service) NotifyChanged(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.subscribers[id]; c != nil {
		close(c)
		delete(s.subscribers, id)
	}
}

// AbortLocal says that some server has recorded that the claim failed. If it is
// being made here, nothing more is done for it.
func (s *Service) AbortLocal(id string) {
	s.NotifyChanged(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, call := range s.inflight {
		if call.claimID == id {
			call.cancel(ErrAborted)
		}
	}
}
