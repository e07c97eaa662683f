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

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/workload"
)

// Service hands out containers.
type Service struct {
	store  Store
	pools  *pool.Pools
	rt     runtime.Runtime
	runner *hooks.Runner
	// StateSync moves tenants' state.
	StateSync *StateSync
	log       *slog.Logger

	mu             sync.Mutex // guards what follows
	inflight       map[key]*inflightCall
	subscribers    map[string]chan struct{} // by claim: closed when something is heard
	pendingTouches map[string]time.Time     // by claim: a touch that storage refused

	resumeQueue chan func(ctx context.Context) // the claims to be finished
	sweepSignal chan struct{}                  // holds one signal: a claim's end could not be recorded
}

// maxResume is how many claims that another server left may wait for Run.
const maxResume = 10000

// maxPendingTouches is of how many claims a touch is remembered that storage refused.
const maxPendingTouches = 10000

// key is what a tenant has at most one live claim of.
type key struct{ workload, tenant string }

// inflightCall is a claim that is being made. Callers who ask for the same one wait
// for it instead of making another.
type inflightCall struct {
	claimID string
	cancel  context.CancelCauseFunc // ends the work
	done    chan struct{}           // closed when c and err are set
	c       Claim
	err     error
}

// NewService returns a service. Claims that an earlier server left half made
// are ended by Recover.
func NewService(store Store, pools *pool.Pools, rt runtime.Runtime, runner *hooks.Runner, sinks Sinks, log *slog.Logger) *Service {
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

// Request asks for a container.
type Request struct {
	Workload string
	Tenant   string
	// Wait is how long the caller will wait for a container when none can be
	// had at once. At 0 it waits only for one that is already being made, or
	// can be.
	Wait time.Duration
}

// tenantPattern is what a tenant may be called: what is safe in paths, labels,
// queries and object names.
var tenantPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@+:-]{0,127}$`)

func checkTenant(name string) error {
	if !tenantPattern.MatchString(name) {
		return fmt.Errorf("%w %q: it takes 1 to 128 letters, digits and . _ @ + : - and begins with a letter or digit", ErrInvalidTenant, name)
	}
	return nil
}

// errCallerCanceled says that the caller left while it waited for a container.
var errCallerCanceled = errors.New("the caller left while waiting")

// ErrAborted is why a claim failed that was released before it was active.
var ErrAborted = errors.New("the claim was released before it was active")

// Claim returns the tenant's claim on a workload, active. When the tenant
// holds one already it is returned as it is, with created false, and nothing
// runs; when one is being made, Claim waits for that one.
//
// The work goes on when ctx ends, once a container is reserved: the claim then
// stands, and asking again returns it. Errors: ErrInvalidTenant, pool.ErrWorkloadNotFound,
// *UnavailableError, *FailedError.
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
		// What the other caller was not willing to wait for, this one may be.
		_, unavailable := errors.AsType[*UnavailableError](call.err)
		if errors.Is(call.err, errCallerCanceled) || unavailable && time.Since(start) < r.Wait {
			continue
		}
		return c, created, err
	}
}

// joinOrStart joins the flight for k, or begins one for the claim of that id, whose
// work outlives ctx.
func (s *Service) joinOrStart(ctx context.Context, k key, id string) (workCtx context.Context, call *inflightCall, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if call := s.inflight[k]; call != nil {
		return nil, call, false
	}
	workCtx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	call = &inflightCall{
		claimID: id, cancel: cancel, done: make(chan struct{}),
		err: errors.New("the making of the claim was cut off"), // unless it ends
	}
	s.inflight[k] = call
	return workCtx, call, true
}

// runCall makes the claim of flight f and tells those who wait for it.
func (s *Service) runCall(ctx, workCtx context.Context, call *inflightCall, r Request, w *workload.Workload, record pool.Record) (Claim, bool, error) {
	defer s.finishCall(call, key{r.Workload, r.Tenant})
	c, created, err := s.acquire(ctx, workCtx, call.claimID, r, w, record)
	call.c, call.err = c, err
	if workCtx.Err() == nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		// Whatever was in progress then, it ended because this caller left.
		call.err = fmt.Errorf("%w: %w", errCallerCanceled, err)
	}
	return c, created, err
}

// finishCall ends a flight.
func (s *Service) finishCall(call *inflightCall, k key) {
	call.cancel(nil)
	s.mu.Lock()
	delete(s.inflight, k)
	s.mu.Unlock()
	close(call.done)
}

// Abort ends the making of a claim, as its release does, and returns when its
// end is recorded. A claim that has become active is left as it is.
func (s *Service) Abort(ctx context.Context, c Claim) error {
	s.mu.Lock()
	call := s.inflight[key{c.Workload, c.Tenant}]
	s.mu.Unlock()
	if call != nil && call.claimID == c.ID {
		call.cancel(ErrAborted)
		select {
		case <-call.done: // and if its end could not be recorded, it is now
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	_, err := s.store.UpdateClaim(ctx, failTransition(c.ID, ErrAborted.Error(), nil))
	if errors.Is(err, pool.ErrConflict) {
		return nil
	}
	return err
}

// Touch notes that the tenant of an active claim still uses it, for pools with
// a claim_idle_ttl. A claim that is not active any more is returned as it is.
// What storage refuses to note is not held against the tenant by this server.
func (s *Service) Touch(ctx context.Context, id string) (Claim, error) {
	now := time.Now().UTC()
	c, err := s.store.UpdateClaim(ctx, Transition{
		ID: id, From: []State{Active}, To: Active, Set: func(c *Claim) { c.TouchedAt = &now },
	})
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

// LastSeen is when the tenant of an active claim last showed itself, to this
// server also while that could not be recorded.
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

// Close ends the making of every claim, and the uploads under way: the server
// stops. Releases are closed before: one whose upload is cut off without that
// would think that the upload has failed.
func (s *Service) Close(cause error) {
	s.StateSync.cancelUploads(cause)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, call := range s.inflight {
		call.cancel(cause)
	}
}

// newID makes a claim id that sorts by time.
func newID() string { return uuid.Must(uuid.NewV7()).String() }
