package claim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/hostler/hostler/hooks/runner"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/workload"
)

// Service assigns containers to tenants.
type Service struct {
	store  Store
	pools  *pool.Pools
	rt     runtime.Runtime
	runner *runner.Runner
	// StateSync transfers tenants' state.
	StateSync *StateSync
	log       *slog.Logger

	mu             sync.Mutex // guards the fields below
	inflight       map[key]*inflightCall
	subscribers    map[string]chan struct{} // by claim: closed by NotifyChanged
	pendingTouches map[string]time.Time     // by claim: touches that could not be stored

	resumeQueue chan func(ctx context.Context) // claims to resume
	sweepSignal chan struct{}                  // holds one signal: a final state could not be recorded
}

// maxResume is the capacity of resumeQueue.
const maxResume = 10000

// maxPendingTouches is the maximum size of pendingTouches.
const maxPendingTouches = 10000

// key identifies a tenant's live claim: there is at most one per workload.
type key struct{ workload, tenant string }

// inflightCall is a claim in progress on this server. Callers for the same
// tenant and workload wait for it.
type inflightCall struct {
	claimID string
	failing bool                    // this server records its failure; guarded by Service.mu
	cancel  context.CancelCauseFunc // cancels the work
	done    chan struct{}           // closed when c and err are set
	c       Claim
	err     error
}

// NewService returns a service. Recover resumes or fails the claims that an
// earlier server left unfinished.
func NewService(store Store, pools *pool.Pools, rt runtime.Runtime, runner *runner.Runner, sinks Sinks, log *slog.Logger) *Service {
	stateSync := &StateSync{store: store, pools: pools, sinks: sinks, rt: rt, log: log, uploads: map[string]*uploadOp{}}
	pools.OpenSink = func(ctx context.Context, cfg *workload.Sync) error {
		_, err := sinks.Open(ctx, cfg)
		return err
	}
	return &Service{
		store: store, pools: pools, rt: rt, runner: runner, StateSync: stateSync, log: log, inflight: map[key]*inflightCall{},
		subscribers: map[string]chan struct{}{}, pendingTouches: map[string]time.Time{},
		resumeQueue: make(chan func(context.Context), maxResume), sweepSignal: make(chan struct{}, 1),
	}
}

// Request is a request for a container.
type Request struct {
	Workload string
	Tenant   string
	// Wait is how long the caller waits for a container. At 0 the caller waits
	// only for a container that is being created or can be created.
	Wait time.Duration
}

// tenantPattern matches valid tenant names, which are safe in paths, labels,
// queries and object names.
var tenantPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@+:-]{0,127}$`)

func checkTenant(name string) error {
	if !tenantPattern.MatchString(name) {
		return fmt.Errorf("%w %q: 1 to 128 letters, digits and . _ @ + : - are allowed, starting with a letter or digit", ErrInvalidTenant, name)
	}
	return nil
}

// errCallerCanceled is returned when the caller canceled while it waited.
var errCallerCanceled = errors.New("canceled by the caller while waiting")

// ErrAborted is the error of a claim that was released before it was active.
var ErrAborted = errors.New("the claim was released before it was active")

// Claim returns the tenant's active claim on a workload. An existing claim is
// returned unchanged, with created false, and nothing runs. When a claim is in
// progress, Claim waits for it.
//
// Once a container is reserved, the work continues when ctx ends: the claim
// becomes active, and a repeated call returns it. Errors: ErrInvalidTenant,
// pool.ErrWorkloadNotFound, *UnavailableError, *FailedError.
func (s *Service) Claim(ctx context.Context, r Request) (c Claim, created bool, err error) {
	if err := checkTenant(r.Tenant); err != nil {
		return Claim{}, false, err
	}
	start := time.Now()
	for {
		w, record, err := s.pools.Catalog.Current(ctx, r.Workload)
		if err != nil {
			return Claim{}, false, err
		}
		workCtx, call, first := s.joinOrStart(ctx, key{r.Workload, r.Tenant}, newID())
		if first {
			c, created, err = s.runCall(ctx, workCtx, call, r, w, record)
		} else {
			select {
			case <-call.done:
				c, created, err = call.c, false, call.err
			case <-ctx.Done():
				return Claim{}, false, context.Cause(ctx)
			}
		}
		if other, ok := errors.AsType[*peerOwnedError](err); ok {
			if _, err := s.WaitForPeer(ctx, other.claim); err != nil {
				return Claim{}, false, err
			}
			continue
		}
		if first {
			return c, created, err
		}
		// The other caller's wait time may have been shorter than this one's.
		_, unavailable := errors.AsType[*UnavailableError](call.err)
		if errors.Is(call.err, errCallerCanceled) || unavailable && time.Since(start) < r.Wait {
			continue
		}
		return c, created, err
	}
}

// joinOrStart joins the inflight call for k, or starts one for the claim with
// the given id. The work of a new call outlives ctx.
func (s *Service) joinOrStart(ctx context.Context, k key, id string) (workCtx context.Context, call *inflightCall, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if call := s.inflight[k]; call != nil {
		return nil, call, false
	}
	workCtx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	call = &inflightCall{
		claimID: id, cancel: cancel, done: make(chan struct{}),
		err: errors.New("the claim was interrupted"), // replaced by the result
	}
	s.inflight[k] = call
	return workCtx, call, true
}

// runCall runs an inflight call and publishes its result to the waiters.
func (s *Service) runCall(ctx, workCtx context.Context, call *inflightCall, r Request, w *workload.Workload, record pool.Record) (Claim, bool, error) {
	defer s.finishCall(call, key{r.Workload, r.Tenant})
	c, created, err := s.acquire(ctx, workCtx, call.claimID, r, w, record)
	call.c, call.err = c, err
	if workCtx.Err() == nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		// Whichever step was in progress, it ended because this caller canceled.
		call.err = fmt.Errorf("%w: %w", errCallerCanceled, err)
	}
	return c, created, err
}

// finishCall removes an inflight call and wakes its waiters.
func (s *Service) finishCall(call *inflightCall, k key) {
	call.cancel(nil)
	s.mu.Lock()
	delete(s.inflight, k)
	s.mu.Unlock()
	close(call.done)
}

// Abort cancels a pending claim for its release, and returns when its failure
// is recorded. An active claim is unchanged.
func (s *Service) Abort(ctx context.Context, c Claim) error {
	s.mu.Lock()
	call := s.inflight[key{c.Workload, c.Tenant}]
	s.mu.Unlock()
	if call != nil && call.claimID == c.ID {
		call.cancel(ErrAborted)
		select {
		case <-call.done: // if its end was not recorded, it is below
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	_, err := s.store.UpdateClaim(ctx, Fail(c.ID, ErrAborted.Error()))
	if errors.Is(err, pool.ErrConflict) {
		return nil
	}
	return err
}

// Touch records that the tenant of an active claim still uses it, for pools
// with a claim_idle_ttl. A claim that is not active anymore is returned
// unchanged. A touch that could not be stored is remembered by this server.
func (s *Service) Touch(ctx context.Context, id string) (Claim, error) {
	now := time.Now().UTC()
	touch := Own(id, Active)
	touch.Set = func(c *Claim) { c.TouchedAt = &now }
	c, err := s.store.UpdateClaim(ctx, touch)
	if errors.Is(err, pool.ErrConflict) {
		return s.store.Claim(ctx, id)
	}
	if err != nil && !errors.Is(err, ErrClaimNotFound) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.pendingTouches) >= maxPendingTouches {
			clear(s.pendingTouches)
		}
		s.pendingTouches[id] = now
	}
	return c, err
}

// LastSeen returns when the tenant of an active claim was last active. It
// includes touches that could not be stored by this server.
func (s *Service) LastSeen(c Claim) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := c.LastActive()
	if at, ok := s.pendingTouches[c.ID]; ok && at.After(last) {
		return at
	}
	delete(s.pendingTouches, c.ID)
	return last
}

// Close cancels every claim and every upload in progress, because the server
// stops. Releases must be closed before: a release that is not closed would
// treat its canceled upload as failed.
func (s *Service) Close(cause error) {
	s.StateSync.cancelUploads(cause)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, call := range s.inflight {
		call.cancel(cause)
	}
}

// newID returns a claim id that sorts by time.
func newID() string { return uuid.Must(uuid.NewV7()).String() }
