// Package release takes containers back from tenants.
//
// It promises that a release which has begun comes to an end, whoever asked
// for it and whether or not they wait; that pre_release hooks run at most once
// for a claim, and that their failure does not keep the tenant from leaving;
// that releasing twice is harmless; and that a container goes back to the pool
// only when nothing of its tenant runs in it any more, else it is destroyed.
// The steps are in steps.go, in order.
package release

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
)

// Service takes containers back.
type Service struct {
	store  claim.Store
	claims *claim.Service
	pools  *pool.Pools
	rt     runtime.Runtime
	runner *hooks.Runner
	log    *slog.Logger
	failed chan struct{} // holds one signal: a release is to be finished
	kept   chan struct{} // holds one signal: a release was kept back

	mu       sync.Mutex // guards what follows
	inflight map[string]*flight
	closed   error // why nothing is begun any more
}

// flight is a release under way. Callers who ask for the same one wait for it.
type flight struct {
	cancel context.CancelCauseFunc // cuts the work off
	done   chan struct{}           // closed when c and err are set
	c      claim.Claim
	err    error
	// discard is set by whoever wants that, first of all: either the release
	// sees it when it begins, or who set it finds that it has begun.
	discard atomic.Bool
}

// NewService returns a service. Releases that an earlier server left half done
// are finished by Finish.
func NewService(store claim.Store, claims *claim.Service, pools *pool.Pools, rt runtime.Runtime, runner *hooks.Runner, log *slog.Logger) *Service {
	return &Service{
		store: store, claims: claims, pools: pools, rt: rt, runner: runner, log: log, failed: make(chan struct{}, 1),
		kept:     make(chan struct{}, 1),
		inflight: map[string]*flight{},
	}
}

// Request says how to release.
type Request struct {
	// Discard has the container destroyed, so that nothing of what the tenant
	// left in it remains.
	Discard bool
	Reason  string // for the log; empty: the tenant asked for it
	// only says which claim is to be released, as it is when that begins: that
	// of a tenant who is idle, or one that is to be given up. Any other is
	// errShown. nil: whoever asks does so for the tenant.
	only func(claim.Claim) bool
	// giveUp has a claim released whose tenant's state cannot be taken, without
	// another try to take it.
	giveUp bool
}

// Release ends a claim and returns it, released. One that is being made is
// aborted first; one that has ended is returned as it is; one that is being
// released is waited for. The work goes on when ctx ends. Errors:
// claim.ErrNoClaim, those of storage and of the engine, and what Close is called
// with: the claim then stays releasing with its container as it is, and is gone
// on with by and by, or by calling again.
func (s *Service) Release(ctx context.Context, id string, r Request) (claim.Claim, error) {
	for {
		work, f, first := s.enter(ctx, id)
		if r.Discard {
			f.discard.Store(true)
		}
		if first {
			return s.lead(ctx, work, f, id, r)
		}
		if err := s.join(ctx, id, r); err != nil {
			return claim.Claim{}, err
		}
		select {
		case <-f.done:
		case <-ctx.Done():
			return claim.Claim{}, context.Cause(ctx)
		}
		if errors.Is(f.err, errCallerLeft) || errors.Is(f.err, errShown) {
			continue
		}
		if _, kept := errors.AsType[*FailedError](f.err); kept && r.Discard {
			continue // the wish came when the release had failed already
		}
		return f.c, f.err
	}
}

// lead makes the release of flight f and tells those who wait for it.
func (s *Service) lead(ctx, work context.Context, f *flight, id string, r Request) (claim.Claim, error) {
	f.err = errors.New("the release was cut off") // unless it ends
	defer func() {
		f.cancel(nil)
		s.mu.Lock()
		delete(s.inflight, id)
		s.mu.Unlock()
		close(f.done)
	}()
	wait, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(work, func() { stop(context.Cause(work)) })()
	for {
		// It is read within the flight: what was read before may have come to its
		// end since, and the container may be somebody else's.
		if f.c, f.err = s.settled(wait, id, r); f.err != nil || !f.c.State.Live() {
			return f.c, f.err
		}
		if r.only != nil && !r.only(f.c) {
			f.err = errShown
			return f.c, f.err
		}
		f.c, f.err = s.run(work, f, f.c, r)
		if !errors.Is(f.err, errBegun) {
			break
		}
	}
	if f.err != nil {
		s.again()
	}
	return f.c, f.err
}

var (
	// errBegun says that another server has begun the release, or that the
	// tenant has shown itself.
	errBegun = errors.New("another server has begun the release")
	// errShown says that the claim is not released, for it is none of those that
	// Request.only is for.
	errShown = errors.New("the claim is not idle")
	// errCallerLeft says that whoever asked first did not wait for its turn.
	errCallerLeft = errors.New("the caller left while waiting")
)

// again has Finish and Run look soon.
func (s *Service) again() {
	select {
	case s.failed <- struct{}{}:
	default:
	}
	s.Kept()
}

// Kept has Run look soon for releases that some server has kept back.
func (s *Service) Kept() {
	select {
	case s.kept <- struct{}{}:
	default:
	}
}

// settled is a claim that is not being made any more: one that is, is aborted.
// One that another server releases is waited for.
func (s *Service) settled(ctx context.Context, id string, r Request) (claim.Claim, error) {
	c, err := s.store.Claim(ctx, id)
	if err == nil && c.State == claim.Pending {
		if err := s.claims.Abort(ctx, c); err != nil {
			return c, fmt.Errorf("abort claim %s: %w", id, err)
		}
		c, err = s.store.Claim(ctx, id)
	}
	if err == nil && c.State == claim.Releasing && s.claims.Elsewhere(c) {
		if err := s.join(ctx, id, r); err != nil {
			return c, err
		}
		c, err = s.claims.Await(ctx, c)
	}
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", errCallerLeft, context.Cause(ctx))
	}
	if err != nil {
		return claim.Claim{}, fmt.Errorf("claim %s: %w", id, err)
	}
	return c, nil
}

// join adds what a second caller wants to the release that is under way.
func (s *Service) join(ctx context.Context, id string, r Request) error {
	if !r.Discard {
		return nil
	}
	return s.wish(ctx, id)
}

// wish records that nothing of a claim is to be kept whose release has begun.
// From then on that stands: every step that takes or gives back asks again.
func (s *Service) wish(ctx context.Context, id string) error {
	_, err := s.store.MoveClaim(ctx, claim.Move{
		ID: id, From: []claim.State{claim.Releasing, claim.ReleaseFailed}, // and it stays with whoever is at it
		If:  func(c claim.Claim) bool { return !c.Discard },
		Set: func(c *claim.Claim) { c.Discard = true },
		Events: []activity.Event{{
			Type: activity.ClaimDiscarded, Message: "nothing of what the tenant left is to be kept",
		}},
	})
	if errors.Is(err, pool.ErrMoved) {
		return nil // it is on record, or the release has ended, or will see the wish when it begins
	}
	if err == nil {
		s.claims.Keeper.Discard(id)
	}
	return err
}

// underWay says whether this server is at the release of a claim.
func (s *Service) underWay(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inflight[id] != nil
}

// enter joins the flight of a claim, or begins one, whose work outlives ctx.
func (s *Service) enter(ctx context.Context, id string) (work context.Context, f *flight, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.inflight[id]; f != nil {
		return nil, f, false
	}
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	if s.closed != nil {
		cancel(s.closed)
	}
	f = &flight{cancel: cancel, done: make(chan struct{})}
	s.inflight[id] = f
	return work, f, true
}

// Close cuts off the releases under way, and those that are asked for later:
// the server stops. Their claims stay releasing, with their containers as they
// are, and the next server goes on with them. The hooks of a point that has
// begun are not cut off: what a tenant's state depends on must not be left half
// done, and what still runs when the process ends runs on in its container.
func (s *Service) Close(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = cause
	for _, f := range s.inflight {
		f.cancel(cause)
	}
}
