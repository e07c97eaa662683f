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
	failed chan struct{} // holds one signal: a release could not be finished

	mu       sync.Mutex // guards what follows
	inflight map[string]*flight
	hooked   map[string]hooked // claims whose pre_release has been begun
}

// flight is a release under way. Callers who ask for the same one wait for it.
type flight struct {
	done chan struct{} // closed when c and err are set
	c    claim.Claim
	err  error
}

// NewService returns a service. Releases that an earlier server left half done
// are finished by Recover.
func NewService(store claim.Store, claims *claim.Service, pools *pool.Pools, rt runtime.Runtime, runner *hooks.Runner, log *slog.Logger) *Service {
	return &Service{
		store: store, claims: claims, pools: pools, rt: rt, runner: runner, log: log, failed: make(chan struct{}, 1),
		inflight: map[string]*flight{}, hooked: map[string]hooked{},
	}
}

// SkipHooks says that pre_release has been begun for the claim before, by the
// server that ran until this one started: none of its hooks runs twice.
func (s *Service) SkipHooks(claim string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hooked[claim] = interrupted
}

// hooked is what became of the pre_release hooks of a claim.
type hooked struct {
	runs     []hooks.Run
	warnings []string
	spoiled  string // why the container cannot go back to the pool
}

// interrupted is what is known of hooks that have begun, until they end.
var interrupted = hooked{
	warnings: []string{"the server stopped while pre_release hooks ran; they are not run again"},
	spoiled:  "a hook may not have ended",
}

// Request says how to release.
type Request struct {
	// Discard has the container destroyed, so that nothing of what the tenant
	// left in it remains.
	Discard bool
	Reason  string // for the log; empty: the tenant asked for it
}

// Release ends a claim and returns it, released. One that is being made is
// aborted first; one that has ended is returned as it is; one that is being
// released is waited for. The work goes on when ctx ends. Errors:
// claim.ErrNoClaim, and those of storage and of the engine: the claim then stays
// releasing with its container as it is, and is gone on with by and by, or by
// calling again.
func (s *Service) Release(ctx context.Context, id string, r Request) (claim.Claim, error) {
	f, first := s.enter(id)
	if !first {
		if err := s.join(ctx, id, r); err != nil {
			return claim.Claim{}, err
		}
		select {
		case <-f.done:
			return f.c, f.err
		case <-ctx.Done():
			return claim.Claim{}, context.Cause(ctx)
		}
	}
	f.err = errors.New("the release was cut off") // unless it ends
	defer func() {
		s.mu.Lock()
		delete(s.inflight, id)
		s.mu.Unlock()
		close(f.done)
	}()
	// It is read within the flight: what was read before may have come to its
	// end since, and the container may be somebody else's.
	if f.c, f.err = s.settled(ctx, id); f.err != nil || !f.c.State.Live() {
		return f.c, f.err
	}
	f.c, f.err = s.run(context.WithoutCancel(ctx), f.c, r)
	if f.err != nil {
		select {
		case s.failed <- struct{}{}:
		default:
		}
	}
	return f.c, f.err
}

// settled is a claim that is not being made any more: one that is, is aborted.
func (s *Service) settled(ctx context.Context, id string) (claim.Claim, error) {
	c, err := s.store.Claim(ctx, id)
	if err == nil && c.State == claim.Pending {
		if err := s.claims.Abort(ctx, c); err != nil {
			return c, fmt.Errorf("abort claim %s: %w", id, err)
		}
		c, err = s.store.Claim(ctx, id)
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
	_, err := s.store.MoveClaim(ctx, claim.Move{
		ID: id, From: []claim.State{claim.Releasing}, To: claim.Releasing,
		Set: func(c *claim.Claim) { c.Discard = true },
	})
	if errors.Is(err, pool.ErrMoved) {
		return nil // it has ended, or has yet to begin: its own wish counts
	}
	return err
}

// enter joins the flight of a claim, or begins one.
func (s *Service) enter(id string) (f *flight, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.inflight[id]; f != nil {
		return f, false
	}
	f = &flight{done: make(chan struct{})}
	s.inflight[id] = f
	return f, true
}

// Recover finishes the releases that an earlier server, or an engine that went
// away, left half done. It tries each once and joins what goes wrong.
func (s *Service) Recover(ctx context.Context) error {
	left, err := s.store.Claims(ctx, claim.Filter{States: []claim.State{claim.Releasing}})
	if err != nil {
		return fmt.Errorf("list the releases under way: %w", err)
	}
	var all error
	for _, c := range left {
		if ctx.Err() != nil {
			return all
		}
		if _, err := s.Release(ctx, c.ID, Request{Reason: c.Reason, Discard: c.Discard}); err != nil {
			all = errors.Join(all, fmt.Errorf("finish the release of claim %s: %w", c.ID, err))
		}
	}
	return all
}
