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
	"github.com/hostler/hostler/internal/singleflight"
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
	calls       calls
	saves       sync.Map // by claim: the releases whose hooks of pre_release precede an upload
}

// calls are the releases in progress on this server, by claim. Each has a flag
// that callers with Request.Discard set before anything else: either the release
// reads it when it starts, or the caller finds that it has started.
type (
	calls = singleflight.Group[string, *atomic.Bool, claim.Claim]
	call  = singleflight.Call[*atomic.Bool, claim.Claim]
)

// NewService returns a service. Package schedule completes the releases that an
// earlier server left unfinished.
func NewService(store claim.Store, claims *claim.Service, pools *pool.Pools, rt runtime.Runtime, runner *runner.Runner, log *slog.Logger) *Service {
	return &Service{
		store: store, claims: claims, pools: pools, rt: rt, runner: runner, log: log, interrupted: make(chan struct{}, 1),
	}
}

// Request holds the options of a release.
type Request struct {
	// Discard destroys the container, so that no files of the tenant remain.
	Discard bool
	Reason  string // for the events; empty: requested
	// Traceparent is the valid traceparent header of the caller, or "".
	Traceparent string
	// OnlyIf reports whether a claim is to be released, given its record at that
	// time: an idle one, or one whose retention has expired. Any other claim is
	// ErrNotIdle. nil: the release is requested for the tenant.
	OnlyIf func(claim.Claim) bool
	// Releasing is called once it is recorded that the claim is releasing, unless
	// another call has started the release on this server. nil does nothing.
	Releasing func()
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
		call, first := s.calls.Join(ctx, id, new(atomic.Bool))
		if r.Discard {
			call.Arg.Store(true)
		}
		if first {
			return s.runCall(ctx, call, id, r)
		}
		if err := s.addDiscard(ctx, id, r); err != nil {
			return claim.Claim{}, err
		}
		if err := call.Wait(ctx); err != nil {
			return claim.Claim{}, err
		}
		c, err := call.Result()
		if errors.Is(err, errCallerCanceled) || errors.Is(err, ErrNotIdle) {
			continue
		}
		if _, retained := errors.AsType[*FailedError](err); retained && r.Discard {
			continue // the release failed before it could read the discard
		}
		return c, err
	}
}

// runCall runs a call and publishes its result to the waiters.
func (s *Service) runCall(ctx context.Context, call *call, id string, r Request) (c claim.Claim, err error) {
	isDone := false
	defer func() {
		call.End()
		if !isDone { // most failures have no event: the claim stays as it is
			s.wake()
		}
	}()
	waitCtx, cancelWait := context.WithCancelCause(ctx)
	defer cancelWait(nil)
	defer context.AfterFunc(call.Context(), func() { cancelWait(context.Cause(call.Context())) })()
	c, err = s.settleAndRun(waitCtx, call, id, r)
	isDone = err == nil
	call.SetResult(c, err)
	return c, err
}

// settleAndRun releases the claim once no other flow works on it. It waits for
// that with ctx, and works with the call's context.
func (s *Service) settleAndRun(ctx context.Context, call *call, id string, r Request) (claim.Claim, error) {
	for {
		// The claim is read within the call: an earlier record may be outdated,
		// and its container assigned to another tenant.
		c, err := s.awaitSettled(ctx, id, r)
		if err != nil || !c.State.IsLive() {
			return c, err
		}
		if r.OnlyIf != nil && !r.OnlyIf(c) {
			return c, ErrNotIdle
		}
		c, err = s.run(call.Context(), c, r, call.Arg)
		if errors.Is(err, errAlreadyReleasing) {
			continue
		}
		return c, err
	}
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

// wake signals that an interrupted release may exist.
func (s *Service) wake() {
	select {
	case s.interrupted <- struct{}{}:
	default:
	}
}

// Interrupted returns a channel that receives when a release was interrupted, or
// this server has taken one over.
func (s *Service) Interrupted() <-chan struct{} { return s.interrupted }

// awaitSettled returns a claim that is no longer pending, and that no other
// server is releasing.
func (s *Service) awaitSettled(ctx context.Context, id string, r Request) (claim.Claim, error) {
	c, err := s.settle(ctx, id, r)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", errCallerCanceled, context.Cause(ctx))
	}
	if errors.Is(err, claim.ErrClaimNotFound) {
		return claim.Claim{}, err // it has the id
	}
	if err != nil {
		return claim.Claim{}, fmt.Errorf("claim %s: %w", id, err)
	}
	return c, nil
}

// settle aborts a pending claim, and waits for a release on another server.
func (s *Service) settle(ctx context.Context, id string, r Request) (claim.Claim, error) {
	c, err := s.store.Claim(ctx, id)
	if err == nil && c.State == claim.Pending {
		if err := s.claims.Abort(ctx, c); err != nil {
			return c, fmt.Errorf("abort: %w", err)
		}
		c, err = s.store.Claim(ctx, id)
	}
	if err != nil || c.State != claim.Releasing || !s.claims.IsOwnedByPeer(c) {
		return c, err
	}
	if err := s.addDiscard(ctx, id, r); err != nil {
		return c, err
	}
	return s.claims.WaitForPeer(ctx, c)
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
func (s *Service) IsInProgress(id string) bool { return s.calls.Find(id) != nil }

// Close cancels the releases in progress, and later ones, because the server
// stops. Their claims stay releasing, with their containers unchanged, and the
// next server resumes them. The hooks of a point that has started are not
// canceled, because the tenant's state may depend on their completion. A hook
// that still runs when the process exits continues in its container.
func (s *Service) Close(cause error) {
	s.calls.Close(cause)
}
