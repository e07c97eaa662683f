// Package release returns containers from tenants to their pools.
//
// It promises that a started release completes, even if its caller does not
// wait; that pre_release hooks run at most once for a claim, and that their
// failure does not block the release; that a repeated release is harmless; and
// that a container returns to the pool only when no process of its tenant runs
// in it, and is destroyed otherwise. The steps are in steps.go, in order.
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
	"github.com/hostler/hostler/hooks/runner"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
)

// Service releases claims.
type Service struct {
	store       claim.Store
	claims      *claim.Service
	pools       *pool.Pools
	rt          runtime.Runtime
	runner      *runner.Runner
	log         *slog.Logger
	interrupted chan struct{} // holds one signal: an interrupted release exists
	failed      chan struct{} // holds one signal: a release has failed

	mu       sync.Mutex // guards the fields below
	inflight map[string]*inflightCall
	closed   error // why no release is started anymore
}

// inflightCall is a release in progress. Other callers for the same claim wait
// for it.
type inflightCall struct {
	cancel context.CancelCauseFunc // cancels the work
	done   chan struct{}           // closed when c and err are set
	c      claim.Claim
	err    error
	// discard is set by callers with Request.Discard before anything else.
	// Either the release reads it when it starts, or the caller finds that it
	// has started.
	discard atomic.Bool
}

// NewService returns a service. Package schedule completes the releases that an
// earlier server left unfinished.
func NewService(store claim.Store, claims *claim.Service, pools *pool.Pools, rt runtime.Runtime, runner *runner.Runner, log *slog.Logger) *Service {
	return &Service{
		store: store, claims: claims, pools: pools, rt: rt, runner: runner, log: log, interrupted: make(chan struct{}, 1), failed: make(chan struct{}, 1),
		inflight: map[string]*inflightCall{},
	}
}

// Request holds the options of a release.
type Request struct {
	// Discard destroys the container, so that no files of the tenant remain.
	Discard bool
	Reason  string // for the events; empty: requested
	// OnlyIf reports whether a claim is to be released, given its record at that
	// time: an idle one, or one whose retention has expired. Any other claim is
	// ErrNotIdle. nil: the release is requested for the tenant.
	OnlyIf func(claim.Claim) bool
	// SkipUpload releases a claim whose state cannot be uploaded, without
	// another attempt.
	SkipUpload bool
}

// Release ends a claim and returns it, released. A pending claim is aborted
// first; an ended claim is returned unchanged; a release in progress is waited
// for. The work continues when ctx ends. Errors: claim.ErrClaimNotFound, those
// of storage and of the engine, and the cause given to Close: the claim then
// stays releasing with its container unchanged, and the release is resumed
// later or by another call.
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
		if errors.Is(call.err, errCallerCanceled) || errors.Is(call.err, ErrNotIdle) {
			continue
		}
		if _, retained := errors.AsType[*FailedError](call.err); retained && r.Discard {
			continue // the release failed before it could read the discard
		}
		return call.c, call.err
	}
}

// runCall runs an inflight call and publishes its result to the waiters.
func (s *Service) runCall(ctx, workCtx context.Context, call *inflightCall, id string, r Request) (claim.Claim, error) {
	call.err = errors.New("the release was interrupted") // replaced by the result
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
		// The claim is read within the call: an earlier record may be outdated,
		// and its container assigned to another tenant.
		if call.c, call.err = s.awaitSettled(waitCtx, id, r); call.err != nil || !call.c.State.IsLive() {
			return call.c, call.err
		}
		if r.OnlyIf != nil && !r.OnlyIf(call.c) {
			call.err = ErrNotIdle
			return call.c, call.err
		}
		call.c, call.err = s.run(workCtx, call, call.c, r)
		if !errors.Is(call.err, errAlreadyReleasing) {
			break
		}
	}
	if call.err != nil {
		s.wake() // most failures have no event: the claim stays as it is
	}
	return call.c, call.err
}

var (
	// errAlreadyReleasing is returned when another server has started the
	// release, or when the tenant has become active.
	errAlreadyReleasing = errors.New("another server has started the release")
	// ErrNotIdle is returned when Request.OnlyIf excludes the claim.
	ErrNotIdle = errors.New("the claim is not idle")
	// errCallerCanceled is returned when the first caller canceled while
	// waiting.
	errCallerCanceled = errors.New("canceled by the caller while waiting")
)

// wake signals that an interrupted or failed release exists.
func (s *Service) wake() {
	signal(s.interrupted)
	s.WakeRetries()
}

// WakeRetries signals that a release has failed, on any server.
func (s *Service) WakeRetries() { signal(s.failed) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Interrupted returns a channel that receives when a release was interrupted, or
// this server has taken one over.
func (s *Service) Interrupted() <-chan struct{} { return s.interrupted }

// Failed returns a channel that receives when a release has failed.
func (s *Service) Failed() <-chan struct{} { return s.failed }

// awaitSettled returns a claim that is no longer pending: a pending claim is
// aborted. It waits for a release on another server.
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

// addDiscard adds the discard of a second caller to the release in progress.
func (s *Service) addDiscard(ctx context.Context, id string, r Request) error {
	if !r.Discard {
		return nil
	}
	return s.recordDiscard(ctx, id)
}

// recordDiscard records that the state of a releasing claim is discarded. That
// is final: every later step of the release reads it again.
func (s *Service) recordDiscard(ctx context.Context, id string) error {
	discard := claim.Note(id, func(c *claim.Claim) { c.Discard = true }, claim.Releasing, claim.ReleaseFailed)
	discard.If = func(c claim.Claim) bool { return !c.Discard }
	discard.Events = []activity.Event{{Type: activity.ClaimDiscarded, Message: "state of the tenant discarded"}}
	_, err := s.store.UpdateClaim(ctx, discard)
	if errors.Is(err, pool.ErrConflict) {
		return nil // it is recorded, or the release has ended, or will read it when it starts
	}
	return err
}

// IsInProgress reports whether this server is releasing a claim.
func (s *Service) IsInProgress(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inflight[id] != nil
}

// joinOrStart joins the inflight call for a claim, or starts one whose work
// outlives ctx.
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

// Close cancels the releases in progress, and later ones, because the server
// stops. Their claims stay releasing, with their containers unchanged, and the
// next server resumes them. The hooks of a point that has started are not
// canceled, because the tenant's state may depend on their completion. A hook
// that still runs when the process exits continues in its container.
func (s *Service) Close(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = cause
	for _, call := range s.inflight {
		call.cancel(cause)
	}
}
