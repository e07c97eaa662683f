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
	"github.com/hostler/hostler/internal/workqueue"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/quota"
	"github.com/hostler/hostler/runtime"
)

// Service assigns containers to tenants.
type Service struct {
	store  Store
	pools  *pool.Pools
	rt     runtime.Runtime
	runner *runner.Runner
	// StateSync transfers tenants' state.
	StateSync *StateSync
	// Activated is called for each claim that this server makes active, with its
	// record. It must not block. It is set before the first claim; nil does
	// nothing.
	Activated func(Claim)
	// Sealer encrypts secret parameters. It is set before the first claim; nil
	// refuses claims that have one.
	Sealer Sealer
	// EnvironmentKey is the key of what is on record of environments. All servers
	// on a database have the same. It is set before the first claim.
	EnvironmentKey []byte
	log            *slog.Logger

	calls    calls    // claims in progress on this server
	archives archives // of this server

	mu            sync.Mutex               // guards the fields below
	subscribers   map[string]chan struct{} // by claim: closed by NotifyChanged
	touchFailedAt time.Time                // when a touch could last not be stored

	resumeQueue chan func(ctx context.Context) // claims to resume
	sweeper     *workqueue.Loop
}

// maxResume is the capacity of resumeQueue.
const maxResume = 10000

// NewService returns a service. Recover resumes or fails the claims that an
// earlier server left unfinished.
func NewService(store Store, pools *pool.Pools, rt runtime.Runtime, runner *runner.Runner, sinks Sinks, log *slog.Logger) *Service {
	stateSync := &StateSync{store: store, pools: pools, sinks: sinks, rt: rt, log: log, uploads: map[string]*uploadOp{}}
	s := &Service{
		store: store, pools: pools, rt: rt, runner: runner, StateSync: stateSync, log: log,
		subscribers: map[string]chan struct{}{}, resumeQueue: make(chan func(context.Context), maxResume),
	}
	s.sweeper = s.newSweeper()
	return s
}

// Request is a request for a container.
type Request struct {
	Workload string
	Tenant   string
	// Wait is how long the caller waits for a container. At 0 the caller waits
	// only for a container that is being created or can be created, DefaultWait at
	// most.
	Wait time.Duration
	// NoWait is set if the caller gets a container that is idle, or none.
	NoWait bool
	// Traceparent is the valid traceparent header of the caller, or "".
	Traceparent string
	// Actor is who claims: see activity.Actor.
	Actor string
	// ID is that of the request, so that a repeated one is known to have created the
	// claim; empty for none.
	ID string
	// Labels are for the tenant and for lists.
	Labels map[string]string
	// Parameters are those that the workload declares.
	Parameters map[string]string
	// Environment is that of the main process, over the workload's. It reaches no
	// hook, and is not stored.
	Environment map[string]string
	// ExpiresIn limits how long the claim lasts, whatever its use; 0 for no limit.
	ExpiresIn time.Duration
}

// TenantPattern matches valid tenant names, which are safe in paths, labels,
// queries and object names. They have at most MaxTenant characters.
const (
	TenantPattern = `^[A-Za-z0-9][A-Za-z0-9._@+:-]{0,127}$`
	MaxTenant     = 128
)

var tenantPattern = regexp.MustCompile(TenantPattern)

func checkTenant(name string) error {
	if !tenantPattern.MatchString(name) {
		return fmt.Errorf("%w %q: 1 to 128 letters, digits and . _ @ + : - are allowed, starting with a letter or digit", ErrInvalidTenant, name)
	}
	return nil
}

// Claim returns the tenant's active claim on a workload. An existing claim is
// returned unchanged, with created false, and nothing runs. When a claim is in
// progress, Claim waits for it.
//
// Once a container is reserved, the work continues when ctx ends: the claim
// becomes active, and a repeated call returns it. One that gives a parameter another
// value is an *OtherParameterError, one with another environment ErrOtherEnvironment.
// Other errors: ErrInvalidTenant, *RequestError, ErrNotConfigured,
// pool.ErrWorkloadNotFound, *UnavailableError, *FailedError.
func (s *Service) Claim(ctx context.Context, r Request) (c Claim, created bool, err error) {
	if err := checkTenant(r.Tenant); err != nil {
		return Claim{}, false, err
	}
	if err := r.Check(); err != nil {
		return Claim{}, false, err
	}
	waits, deadline := r.Wait > 0, time.Now().Add(r.Wait)
	for {
		if waits {
			r.Wait = max(time.Until(deadline), 1) // 0 has another meaning
		}
		w, record, err := s.pools.Catalog.Current(ctx, r.Workload)
		if err != nil {
			return Claim{}, false, err
		}
		call, first := s.calls.Join(ctx, key{r.Workload, r.Tenant}, &progress{claimID: newID(), environment: r.Environment})
		if first {
			c, created, err = s.runCall(ctx, call, r, w, record)
		} else {
			if err := call.Wait(ctx); err != nil {
				return Claim{}, false, err
			}
			c, err = call.Result()
			var again bool
			if c, again, err = s.joined(call.Arg, r, c, err); again && ctx.Err() == nil {
				continue
			}
			created = false
		}
		if other, ok := errors.AsType[*peerOwnedError](err); ok {
			if _, err := s.WaitForPeer(ctx, other.claim); err != nil {
				return Claim{}, false, err
			}
			continue
		}
		if err == nil && !created {
			err = s.checkSame(r, c)
		}
		if first || err == nil {
			return c, created, err
		}
		// The other caller's wait time may have been shorter than this one's, and its
		// parameters others.
		_, unavailable := errors.AsType[*UnavailableError](err)
		exceeded, refused := errors.AsType[*quota.ExceededError](err)
		// A quota of the other caller's key is not this one's.
		isOther := refused && exceeded.Level == quota.Key && exceeded.Name != quota.KeyOf(r.Actor)
		if errors.Is(err, errCallerCanceled) || isOther || isRefusal(err) || unavailable && time.Now().Before(deadline) {
			continue
		}
		return c, created, err
	}
}

// Touch records that the tenant of an active claim still uses it, for pools
// with a claim_idle_ttl. A claim that is not active anymore is returned
// unchanged. A touch that cannot be stored is an error, and counts for every
// claim.
func (s *Service) Touch(ctx context.Context, id string) (Claim, error) {
	now := time.Now().UTC()
	// The owner stays: it has the session for the container's requests.
	c, err := s.store.UpdateClaim(ctx, Note(id, func(c *Claim) { c.TouchedAt = &now }, Active))
	if errors.Is(err, pool.ErrConflict) {
		return s.store.Claim(ctx, id)
	}
	// A caller who cancels says nothing about storage, or other tenants.
	if err != nil && !errors.Is(err, ErrClaimNotFound) && ctx.Err() == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.touchFailedAt = now
	}
	return c, err
}

// LastSeen returns when the tenant of an active claim was last active. While
// this server cannot store touches, every tenant counts as active.
func (s *Service) LastSeen(c Claim) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last := c.LastActive(); last.After(s.touchFailedAt) {
		return last
	}
	return s.touchFailedAt
}

// IdleTTL returns the claim_idle_ttl of a workload. It is 0 when claims do not
// expire, and for an unknown workload.
func (s *Service) IdleTTL(ctx context.Context, workload string) time.Duration {
	w, _, err := s.pools.Catalog.Current(ctx, workload)
	if err != nil {
		return 0
	}
	return w.Pool.ClaimIdleTTL
}

// Close cancels every claim and every upload in progress, and later ones,
// because the server stops. Releases must be closed before: a release that is not closed would
// treat its canceled upload as failed.
func (s *Service) Close(cause error) {
	s.StateSync.close(cause)
	s.calls.Close(cause)
}

// newID returns a claim id that sorts by time.
func newID() string { return uuid.Must(uuid.NewV7()).String() }
