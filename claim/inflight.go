package claim

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/hostler/hostler/internal/singleflight"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/workload"
)

// key identifies a tenant's live claim: there is at most one per workload.
type key struct{ workload, tenant string }

// calls are the claims in progress on this server. Callers for the same tenant
// and workload share one.
type (
	calls = singleflight.Group[key, *progress, Claim]
	call  = singleflight.Call[*progress, Claim]
)

// progress is what is known of a claim in progress.
type progress struct {
	claimID string
	// environment is that of the caller who has begun it.
	environment map[string]string
	failing     atomic.Bool // this server records its failure
	hasReturned atomic.Bool
	unrecorded  atomic.Bool // what is on record may not be its end
}

// findCall returns the call that works on a claim, or nil.
func (s *Service) findCall(id string) *call {
	return s.calls.FindFunc(func(p *progress) bool { return p.claimID == id })
}

// errCallerCanceled is returned when the caller canceled while it waited.
var errCallerCanceled = errors.New("canceled by the caller while waiting")

// ErrAborted is the error of a claim that was released before it was active.
var ErrAborted = errors.New("the claim was released before it was active")

// runCall runs a call and publishes its result to the waiters.
func (s *Service) runCall(ctx context.Context, call *call, r Request, w *workload.Workload, record pool.Record) (Claim, bool, error) {
	defer s.endCall(call)
	if err := context.Cause(call.Context()); err != nil {
		call.SetResult(Claim{}, err)
		call.Arg.hasReturned.Store(true)
		return Claim{}, false, err // the server stops
	}
	c, created, err := s.acquire(ctx, call.Context(), call.Arg.claimID, r, w, record)
	shared := err
	if call.Context().Err() == nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		// Whichever step was in progress, it ended because this caller canceled.
		shared = fmt.Errorf("%w: %w", errCallerCanceled, err)
	}
	call.SetResult(c, shared)
	call.Arg.hasReturned.Store(true)
	return c, created, err
}

// Abort cancels a pending claim for its release, and returns when its failure
// is recorded. An active claim is unchanged.
func (s *Service) Abort(ctx context.Context, c Claim) error {
	if call := s.findCall(c.ID); call != nil {
		call.Cancel(ErrAborted)
		if err := call.Wait(ctx); err != nil {
			return err
		}
	}
	// If the call could not record its end, this does.
	_, err := s.store.UpdateClaim(ctx, Fail(c.ID, ErrAborted.Error()))
	if errors.Is(err, pool.ErrConflict) {
		return nil
	}
	return err
}

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

// WaitForPeer returns the claim when no other server works on it anymore. The event of
// its end wakes it, or NotifyChanged where this server takes the claim over.
func (s *Service) WaitForPeer(ctx context.Context, c Claim) (Claim, error) {
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
	if call := s.findCall(id); call != nil && !call.Arg.failing.Load() {
		call.Cancel(ErrAborted)
	}
}

// markFailing records that this server records the failure of a claim.
func (s *Service) markFailing(id string) {
	if call := s.findCall(id); call != nil {
		call.Arg.failing.Store(true)
	}
}
