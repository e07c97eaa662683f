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
	// Keeper moves tenants' state.
	Keeper *Keeper
	log    *slog.Logger

	mu       sync.Mutex // guards what follows
	inflight map[key]*flight
	awaited  map[string]chan struct{} // by claim: closed when something is heard
	unsaved  map[string]time.Time     // by claim: a touch that storage refused

	left       chan func(ctx context.Context) // the claims to be finished
	unrecorded chan struct{}                  // holds one signal: a claim's end could not be recorded
}

// maxLeft is how many claims that another server left may wait for Run.
const maxLeft = 10000

// maxUnsaved is of how many claims a touch is remembered that storage refused.
const maxUnsaved = 10000

// key is what a tenant has at most one live claim of.
type key struct{ workload, tenant string }

// flight is a claim that is being made. Callers who ask for the same one wait
// for it instead of making another.
type flight struct {
	claim  string
	cancel context.CancelCauseFunc // ends the work
	done   chan struct{}           // closed when c and err are set
	c      Claim
	err    error
}

// NewService returns a service. Claims that an earlier server left half made
// are ended by Recover.
func NewService(store Store, pools *pool.Pools, rt runtime.Runtime, runner *hooks.Runner, sinks Sinks, log *slog.Logger) *Service {
	keeper := &Keeper{store: store, pools: pools, sinks: sinks, rt: rt, log: log, busy: map[string]*keeping{}}
	pools.OpenSink = func(ctx context.Context, sync *workload.Sync) error {
		_, err := sinks.For(ctx, sync)
		return err
	}
	return &Service{
		store: store, pools: pools, rt: rt, runner: runner, Keeper: keeper, log: log, inflight: map[key]*flight{},
		awaited: map[string]chan struct{}{}, unsaved: map[string]time.Time{},
		left: make(chan func(context.Context), maxLeft), unrecorded: make(chan struct{}, 1),
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

// tenantName is what a tenant may be called: what is safe in paths, labels,
// queries and object names.
var tenantName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@+:-]{0,127}$`)

func checkTenant(name string) error {
	if !tenantName.MatchString(name) {
		return fmt.Errorf("%w %q: it takes 1 to 128 letters, digits and . _ @ + : - and begins with a letter or digit", ErrTenant, name)
	}
	return nil
}

// errCallerLeft says that the caller left while it waited for a container.
var errCallerLeft = errors.New("the caller left while waiting")

// ErrAborted is why a claim failed that was released before it was active.
var ErrAborted = errors.New("the claim was released before it was active")

// Claim returns the tenant's claim on a workload, active. When the tenant
// holds one already it is returned as it is, with created false, and nothing
// runs; when one is being made, Claim waits for that one.
//
// The work goes on when ctx ends, once a container is reserved: the claim then
// stands, and asking again returns it. Errors: ErrTenant, pool.ErrNoWorkload,
// *UnavailableError, *FailedError.
func (s *Service) Claim(ctx context.Context, r Request) (c Claim, created bool, err error) {
	if err := checkTenant(r.Tenant); err != nil {
		return Claim{}, false, err
	}
	begin := time.Now()
	for {
		w, record, err := s.pools.Catalog.Current(ctx, r.Workload)
		if err != nil {
			return Claim{}, false, err
		}
		work, f, first := s.enter(ctx, key{r.Workload, r.Tenant}, newID())
		if first {
			c, created, err = s.lead(ctx, work, f, r, w, record)
		} else {
			select {
			case <-f.done:
				c, created, err = f.c, false, f.err
			case <-ctx.Done():
				return Claim{}, false, context.Cause(ctx)
			}
		}
		if other, ok := errors.AsType[*elsewhereError](err); ok {
			if _, err := s.Await(ctx, other.claim); err != nil {
				return Claim{}, false, err
			}
			continue
		}
		if first {
			return c, created, err
		}
		// What the other caller was not willing to wait for, this one may be.
		_, unavailable := errors.AsType[*UnavailableError](f.err)
		if errors.Is(f.err, errCallerLeft) || unavailable && time.Since(begin) < r.Wait {
			continue
		}
		return c, created, err
	}
}

// enter joins the flight for k, or begins one for the claim of that id, whose
// work outlives ctx.
func (s *Service) enter(ctx context.Context, k key, id string) (work context.Context, f *flight, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.inflight[k]; f != nil {
		return nil, f, false
	}
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	f = &flight{
		claim: id, cancel: cancel, done: make(chan struct{}),
		err: errors.New("the making of the claim was cut off"), // unless it ends
	}
	s.inflight[k] = f
	return work, f, true
}

// lead makes the claim of flight f and tells those who wait for it.
func (s *Service) lead(ctx, work context.Context, f *flight, r Request, w *workload.Workload, record pool.Record) (Claim, bool, error) {
	defer s.land(f, key{r.Workload, r.Tenant})
	c, created, err := s.make(ctx, work, f.claim, r, w, record)
	f.c, f.err = c, err
	if work.Err() == nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		// Whatever was in progress then, it ended because this caller left.
		f.err = fmt.Errorf("%w: %w", errCallerLeft, err)
	}
	return c, created, err
}

// land ends a flight.
func (s *Service) land(f *flight, k key) {
	f.cancel(nil)
	s.mu.Lock()
	delete(s.inflight, k)
	s.mu.Unlock()
	close(f.done)
}

// Abort ends the making of a claim, as its release does, and returns when its
// end is recorded. A claim that has become active is left as it is.
func (s *Service) Abort(ctx context.Context, c Claim) error {
	s.mu.Lock()
	f := s.inflight[key{c.Workload, c.Tenant}]
	s.mu.Unlock()
	if f != nil && f.claim == c.ID {
		f.cancel(ErrAborted)
		select {
		case <-f.done: // and if its end could not be recorded, it is now
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	_, err := s.store.MoveClaim(ctx, failure(c.ID, ErrAborted.Error(), nil))
	if errors.Is(err, pool.ErrMoved) {
		return nil
	}
	return err
}

// Touch notes that the tenant of an active claim still uses it, for pools with
// a claim_idle_ttl. A claim that is not active any more is returned as it is.
// What storage refuses to note is not held against the tenant by this server.
func (s *Service) Touch(ctx context.Context, id string) (Claim, error) {
	now := time.Now().UTC()
	c, err := s.store.MoveClaim(ctx, Move{
		ID: id, From: []State{Active}, To: Active, Set: func(c *Claim) { c.TouchedAt = &now },
	})
	if errors.Is(err, pool.ErrMoved) {
		return s.store.Claim(ctx, id)
	}
	if err != nil && !errors.Is(err, ErrNoClaim) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.unsaved) >= maxUnsaved {
			clear(s.unsaved)
		}
		s.unsaved[id] = now
	}
	return c, err
}

// LastHeard is when the tenant of an active claim last showed itself, to this
// server also while that could not be recorded.
func (s *Service) LastHeard(c Claim) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := c.LastActive()
	if at, ok := s.unsaved[c.ID]; ok && at.After(last) {
		return at
	}
	delete(s.unsaved, c.ID)
	return last
}

// Close ends the making of every claim, and the uploads under way: the server
// stops. Releases are closed before: one whose upload is cut off without that
// would think that the upload has failed.
func (s *Service) Close(cause error) {
	s.Keeper.close(cause)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.inflight {
		f.cancel(cause)
	}
}

// newID makes a claim id that sorts by time.
func newID() string { return uuid.Must(uuid.NewV7()).String() }
