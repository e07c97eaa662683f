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
	store        claim.Store
	claims       *claim.Service
	pools        *pool.Pools
	rt           runtime.Runtime
	runner       *hooks.Runner
	log          *slog.Logger
	resumeSignal chan struct{} // holds one signal: a release is to be finished
	retrySignal  chan struct{} // holds one signal: a release was kept back

	mu       sync.Mutex // guards what follows
	inflight map[string]*inflightCall
	closed   error // why nothing is begun any more
}

// inflightCall is a release under way. Callers who ask for the same one wait for it.
type inflightCall struct {
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
		store: store, claims: claims, pools: pools, rt: rt, runner: runner, log: log, resumeSignal: make(chan struct{}, 1),
		retrySignal: make(chan struct{}, 1),
		inflight:    map[string]*inflightCall{},
	}
}

// Request says how to release.
type Request struct {
	// Discard has the container destroyed, so that nothing of what the tenant
	// left in it remains.
	Discard bool
	Reason  string // for the log; empty: the tenant asked for it
	// onlyIf says which claim is to be released, as it is when that begins: that
	// of a tenant who is idle, or one that is to be given up. Any other is
	// errNotIdle. nil: whoever asks does so for the tenant.
	onlyIf func(claim.Claim) bool
	// skipUpload has a claim released whose tenant's state cannot be taken, without
	// another try to take it.
	skipUpload bool
}

// Release ends a claim and returns it, released. One that is being made is
// aborted first; one that has ended is returned as it is; one that is being
// released is waited for. The work goes on when ctx ends. Errors:
// claim.ErrClaimNotFound, those of storage and of the engine, and what Close is called
// with: the claim then stays releasing with its container as it is, and is gone
// on with by and by, or by calling again.
func (s *Service) Release(ctx context.Context, id string, r Request) (claim.Claim, error) {
	for {
		workCtx, call, first := s.joinOrStart(ctx, id)
		if r.Discard {
			call.discard.Store(true)
		}
		if first {
			return s.runCall(ctx, workCtx, call, id, r)
		}
		if err := s.addDiscard(ctx, id, r); err != nil {
			return claim.Claim{}, err
		}
		select {
		case <-call.done:
		case <-ctx.Done():
			return claim.Claim{}, context.Cause(ctx)
		}
		if errors.Is(call.err, errCallerCanceled) || errors.Is(call.err, errNotIdle) {
			continue
		}
		if _, retained := errors.AsType[*FailedError](call.err); retained && r.Discard {
			continue // the wish came when the release had failed already
		}
		return call.c, call.err
	}
}

// runCall makes the release of flight f and tells those who wait for it.
func (s *Service) runCall(ctx, workCtx context.Context, call *inflightCall, id string, r Request) (claim.Claim, error) {
	call.err = errors.New("the release was cut off") // unless it ends
	defer func() {
		call.cancel(nil)
		s.mu.Lock()
		delete(s.inflight, id)
		s.mu.Unlock()
		close(call.done)
	}()
	waitCtx, cancelWait := context.WithCancelCause(ctx)
	defer cancelWait(nil)
	defer context.AfterFunc(workCtx, func() { cancelWait(context.Cause(workCtx)) })()
	for {
		// It is read within the flight: what was read before may have come to its
		// end since, and the container may be somebody else's.
		if call.c, call.err = s.awaitSettled(waitCtx, id, r); call.err != nil || !call.c.State.IsLive() {
			return call.c, call.err
		}
		if r.onlyIf != nil && !r.onlyIf(call.c) {
			call.err = errNotIdle
			return call.c, call.err
		}
		call.c, call.err = s.run(workCtx, call, call.c, r)
		if !errors.Is(call.err, errAlreadyReleasing) {
			break
		}
	}
	if call.err != nil {
		s.wake()
	}
	return call.c, call.err
}

var (
	// errAlreadyReleasing says that another server has begun the release, or that the
	// tenant has shown itself.
	errAlreadyReleasing = errors.New("another server has begun the release")
	// errNotIdle says that the claim is not released, for it is none of those that
	// Request.only is for.
	errNotIdle = errors.New("the claim is not idle")
	// errCallerCanceled says that whoever asked first did not wait for its turn.
	errCallerCanceled = errors.New("the caller left while waiting")
)

// wake has Finish and Run look soon.
func (s *Service) wake() {
	select {
	case s.resumeSignal <- struct{}{}:
	default:
	}
	s.WakeRetries()
}

// WakeRetries has Run look soon for releases that some server has kept back.
func (s *Service) WakeRetries() {
	select {
	case s.retrySignal <- struct{}{}:
	default:
	}
}

// awaitSettled is a claim that is not being made any more: one that is, is aborted.
// One that another server releases is waited for.
func (s *Service) awaitSettled(ctx context.Context, id string, r Request) (claim.Claim, error) {
	c, err := s.store.Claim(ctx, id)
	if err == nil && c.State == claim.Pending {
		if err := s.claims.Abort(ctx, c); err != nil {
			return c, fmt.Errorf("abort claim %s: %w", id, err)
		}
		c, err = s.store.Claim(ctx, id)
	}
	if err == nil && c.State == claim.Releasing && s.claims.IsOwnedByPeer(c) {
		if err := s.addDiscard(ctx, id, r); err != nil {
			return c, err
		}
		c, err = s.claims.WaitForPeer(ctx, c)
	}
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", errCallerCanceled, context.Cause(ctx))
	}
	if err != nil {
		return claim.Claim{}, fmt.Errorf("claim %s: %w", id, err)
	}
	return c, nil
}

// addDiscard adds what a second caller wants to the release that is under way.
func (s *Service) addDiscard(ctx context.Context, id string, r Request) error {
	if !r.Discard {
		return nil
	}
	return s.recordDiscard(ctx, id)
}

// recordDiscard records that nothing of a claim is to be kept whose release has begun.
// From then on that stands: every step that takes or gives back asks again.
func (s *Service) recordDiscard(ctx context.Context, id string) error {
	_, err := s.store.UpdateClaim(ctx, claim.Transition{
		ID: id, From: []claim.State{claim.Releasing, claim.ReleaseFailed}, // and it stays with whoever is at it
		If:  func(c claim.Claim) bool { return !c.Discard },
		Set: func(c *claim.Claim) { c.Discard = true },
		Events: []activity.Event{{
			Type: activity.ClaimDiscarded, Message: "nothing of what the tenant left is to be kept",
		}},
	})
	if errors.Is(err, pool.ErrConflict) {
		return nil // it is on record, or the release has ended, or will see the wish when it begins
	}
	if err == nil {
		s.claims.StateSync.AbortUpload(id)
	}
	return err
}

// isInProgress says whether this server is at the release of a claim.
func (s *Service) isInProgress(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inflight[id] != nil
}

// joinOrStart joins the flight of a claim, or begins one, whose work outlives ctx.
func (s *Service) joinOrStart(ctx context.Context, id string) (workCtx context.Context, call *inflightCall, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if call := s.inflight[id]; call != nil {
		return nil, call, false
	}
	workCtx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	if s.closed != nil {
		cancel(s.closed)
	}
	call = &inflightCall{cancel: cancel, done: make(chan struct{})}
	s.inflight[id] = call
	return workCtx, call, true
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
	for _, call := range s.inflight {
		call.cancel(cause)
	}
}
