package claim

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/internal/flow"
	"github.com/hostler/hostler/pool"
)

// Recover takes up, of the claims with these ids, what a server that is no more
// left half made. A claim whose hooks have begun is for Run to finish: all that
// comes before them is done, and what they have done is on record. Any other
// fails with its container: nobody waits for its answer, and nobody knows how
// far its container was made ready.
func (s *Service) Recover(ctx context.Context, ids []string) error {
	for _, id := range ids {
		if err := s.resume(ctx, id); err != nil {
			return fmt.Errorf("take claim %s over: %w", id, err)
		}
	}
	return nil
}

// resume makes a pending claim this server's to work on. It does so within the
// tenant's flight: who asks for the claim here meanwhile would think that
// nobody works on it.
func (s *Service) resume(ctx context.Context, id string) error {
	c, err := s.store.Claim(ctx, id)
	if err != nil || c.State != Pending {
		return err // others are releases: whoever finishes those adopts them
	}
	k := key{c.Workload, c.Tenant}
	workCtx, call, err := s.startWhenFree(ctx, k, id)
	if err != nil {
		return err
	}
	queued := false
	abort := func() {
		call.err = &peerOwnedError{c} // whoever has waited looks again
		s.finishCall(call, k)
	}
	defer func() {
		if !queued {
			abort()
		}
	}()
	c, err = s.store.UpdateClaim(ctx, Transition{ID: id, From: []State{Pending}, To: Pending})
	if errors.Is(err, pool.ErrConflict) {
		return nil
	}
	if err != nil {
		return err
	}
	hooksStarted, err := s.runner.HasStarted(ctx, hooks.PostClaim, c.Subject())
	if err != nil {
		return err
	}
	if !hooksStarted {
		_, err = s.store.UpdateClaim(ctx, failTransition(id, serverStoppedReason, nil))
		if errors.Is(err, pool.ErrConflict) {
			return nil
		}
		return err
	}
	resume := func(ctx context.Context) {
		defer s.finishCall(call, k)
		defer context.AfterFunc(ctx, func() { call.cancel(context.Cause(ctx)) })()
		call.c, call.err = s.resumeHooks(workCtx, c)
	}
	select {
	case s.resumeQueue <- resume:
		queued = true
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// startWhenFree begins a flight for k when no other is under way.
func (s *Service) startWhenFree(ctx context.Context, k key, id string) (context.Context, *inflightCall, error) {
	for {
		workCtx, call, first := s.joinOrStart(ctx, k, id)
		if first {
			return workCtx, call, nil
		}
		select {
		case <-call.done:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
}

// serverStoppedReason is why a claim failed that nobody works on any more.
const serverStoppedReason = "the server stopped while the claim was being made"

// Run finishes the claims that Recover takes up, and ends those of this server
// that nobody makes, until ctx ends. It returns when each of the former is
// active or has failed. Who asks for one meanwhile waits for it.
func (s *Service) Run(ctx context.Context) error {
	var g errgroup.Group
	defer g.Wait() //nolint:errcheck // the functions return nil
	g.Go(func() error { s.sweepLoop(ctx); return nil })
	for {
		select {
		case <-ctx.Done():
			return nil
		case resume := <-s.resumeQueue:
			g.Go(func() error { resume(ctx); return nil })
		}
	}
}

// resumeHooks goes on where the hooks of a claim were left.
func (s *Service) resumeHooks(workCtx context.Context, c Claim) (Claim, error) {
	a := &acquisition{
		Service: s, request: Request{Workload: c.Workload, Tenant: c.Tenant},
		claim: c, hooksStarted: true, timings: flow.Timings{},
	}
	err := a.load(workCtx)
	if err == nil {
		a.current = a.w
		err = a.activate(workCtx)
	}
	if err != nil {
		s.log.Warn("a claim of the last server could not be finished", "claim", c.ID, "error", err)
		c, _, err = a.fail(workCtx, err)
		return c, err
	}
	return a.claim, nil
}
