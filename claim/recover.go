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

// Recover resumes the claims with these ids, which a terminated server left
// unfinished. A claim whose hooks have started is queued for Run: all steps
// before the hooks are done, and the results of the hooks are recorded. Any
// other claim fails with its container, because no caller waits for it and the
// state of its container is unknown.
func (s *Service) Recover(ctx context.Context, ids []string) error {
	for _, id := range ids {
		if err := s.resume(ctx, id); err != nil {
			return fmt.Errorf("take over claim %s: %w", id, err)
		}
	}
	return nil
}

// resume makes this server the owner of a pending claim. It holds the tenant's
// call, because a concurrent claim on this server would otherwise
// treat the record as stale.
func (s *Service) resume(ctx context.Context, id string) error {
	c, err := s.store.Claim(ctx, id)
	if err != nil || c.State != Pending {
		return err // releases are taken over by package release
	}
	call, err := s.startWhenFree(ctx, key{c.Workload, c.Tenant}, id)
	if err != nil {
		return err
	}
	queued := false
	defer func() {
		if !queued {
			call.SetResult(Claim{}, &peerOwnedError{c}) // the waiting callers read it again
			s.endCall(call)                             // the claim may be this server's now
		}
	}()
	c, err = s.store.UpdateClaim(ctx, Own(id, Pending))
	if errors.Is(err, pool.ErrConflict) {
		return nil
	}
	if err != nil {
		return err
	}
	s.NotifyChanged(id) // it was another server's, and a takeover has no event
	started, err := s.startedPoints(ctx, c)
	if err != nil {
		return err
	}
	if len(started) == 0 {
		_, err = s.store.UpdateClaim(ctx, Fail(id, serverStoppedReason))
		if errors.Is(err, pool.ErrConflict) {
			return nil
		}
		return err
	}
	endWork := s.pools.BeginClaim() // now: the pools may be filled before Run runs
	resume := func(ctx context.Context) {
		defer s.endCall(call)
		defer endWork()
		defer context.AfterFunc(ctx, func() { call.Cancel(context.Cause(ctx)) })()
		call.SetResult(s.resumeHooks(call.Context(), c, started))
		call.Arg.hasReturned.Store(true)
	}
	select {
	case s.resumeQueue <- resume:
		queued = true
		return nil
	case <-ctx.Done():
		endWork()
		return context.Cause(ctx)
	}
}

// startedPoints returns the points of the claim whose hooks have records.
func (s *Service) startedPoints(ctx context.Context, c Claim) (map[hooks.Point]bool, error) {
	started := map[hooks.Point]bool{}
	for _, p := range []hooks.Point{hooks.PostStart, hooks.PostClaim} {
		has, err := s.runner.HasStarted(ctx, p, c.Subject())
		if err != nil {
			return nil, err
		}
		if has {
			started[p] = true
		}
	}
	return started, nil
}

// startWhenFree starts a call for k when no other is in progress.
func (s *Service) startWhenFree(ctx context.Context, k key, id string) (*call, error) {
	for {
		call, first := s.calls.Join(ctx, k, &progress{claimID: id})
		if first {
			return call, nil
		}
		if err := call.Wait(ctx); err != nil {
			return nil, err
		}
	}
}

// serverStoppedReason is the failure reason of a claim that no server works on.
const serverStoppedReason = "the server stopped during the claim"

// Run resumes the claims that Recover queued, and fails stale claims of this
// server, until ctx ends. It returns when each resumed claim is active or has
// failed. A caller who requests a resumed claim waits for it.
func (s *Service) Run(ctx context.Context) error {
	var g errgroup.Group
	defer g.Wait() //nolint:errcheck // the functions return nil
	g.Go(func() error { return s.sweeper.Run(ctx) })
	for {
		select {
		case <-ctx.Done():
			return nil
		case resume := <-s.resumeQueue:
			g.Go(func() error { resume(ctx); return nil })
		}
	}
}

// resumeHooks resumes the hooks of a claim, then activates it.
func (s *Service) resumeHooks(workCtx context.Context, c Claim, started map[hooks.Point]bool) (Claim, error) {
	a := &acquisition{
		Service: s, request: Request{Workload: c.Workload, Tenant: c.Tenant},
		claim: c, started: started, flow: flow.New(workCtx, workCtx, "claim"),
	}
	err := a.readRevision(workCtx)
	if err == nil {
		a.current = a.w
		err = a.activate()
	}
	if err != nil {
		s.log.Warn("resuming claim failed", "claim", c.ID, "error", err)
		c, _, err = a.fail(workCtx, err)
		return c, err
	}
	return a.claim, nil
}
