package claim

import (
	"context"
	"fmt"
	"time"
)

// peerOwnedError is returned when another server works on the claim.
type peerOwnedError struct{ claim Claim }

func (e *peerOwnedError) Error() string {
	return fmt.Sprintf("claim %s is %s on another server", e.claim.ID, e.claim.State)
}

// IsOwnedByPeer reports whether another server works on the claim. The claims
// of a server that has failed are taken over.
func (s *Service) IsOwnedByPeer(c Claim) bool {
	return (c.State == Pending || c.State == Releasing) && c.Owner != s.store.Self()
}

// pollInterval is how often a claim that another server works on is read when
// no event arrives: a takeover does not emit one.
const pollInterval = time.Second

// WaitForPeer returns the claim when no other server works on it anymore.
func (s *Service) WaitForPeer(ctx context.Context, c Claim) (Claim, error) {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	// There may be no further event for the claim, for example after a takeover.
	// Other waiters read it again.
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

// subscribe returns a channel that is closed by the next NotifyChanged for the
// claim.
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

// NotifyChanged wakes the WaitForPeer calls for the claim: a server has changed
// it.
func (s *Service) NotifyChanged(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.subscribers[id]; c != nil {
		close(c)
		delete(s.subscribers, id)
	}
}

// notifyAll wakes all WaitForPeer calls.
func (s *Service) notifyAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.subscribers {
		close(c)
	}
	clear(s.subscribers)
}

// AbortLocal cancels the acquisition of a claim on this server. It is called
// when it is recorded that the claim failed. A failure that this server records
// itself cancels nothing: it has a cause of its own.
func (s *Service) AbortLocal(id string) {
	s.NotifyChanged(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, call := range s.inflight {
		if call.claimID == id && !call.failing {
			call.cancel(ErrAborted)
		}
	}
}

// markFailing records that this server records the failure of a claim.
func (s *Service) markFailing(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, call := range s.inflight {
		if call.claimID == id {
			call.failing = true
		}
	}
}
