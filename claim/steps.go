package claim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/runner"
	"github.com/hostler/hostler/internal/flow"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/workload"
)

// maxContainers is how many containers a claim tries before it fails, when each
// is unusable before any hook has run.
const maxContainers = 3

// acquisition is the state that the steps of a claim share.
type acquisition struct {
	*Service
	request Request
	current *workload.Workload // current revision
	record  pool.Record

	claim        Claim
	hooksStarted bool               // by a server that has terminated
	existing     bool               // the tenant already has the claim
	w            *workload.Workload // revision of the reserved container
	changed      bool               // the container was modified
	mustWipe     bool               // the files are not the tenant's, or outdated
	latest       snapshot.Snapshot  // the tenant's current snapshot, set by compare
	seedDir      string
	hooks        runner.Outcome // of post_claim
	timings      flow.Timings
	endWork      func() // of pools.BeginClaim
}

// acquire runs the steps of a claim in order. Until a container is reserved it
// ends with ctx, the caller's context; after that with workCtx.
func (s *Service) acquire(ctx, workCtx context.Context, id string, r Request, w *workload.Workload, record pool.Record) (Claim, bool, error) {
	a := &acquisition{
		Service: s, request: r, current: w, record: record, timings: flow.Timings{}, endWork: func() {},
		claim: Claim{ID: id, Workload: r.Workload, Tenant: r.Tenant},
	}
	// The wait for a container ends when the caller cancels, or when another
	// caller releases the claim.
	waitCtx, cancelWait := context.WithCancelCause(ctx)
	defer cancelWait(nil)
	defer context.AfterFunc(workCtx, func() { cancelWait(context.Cause(workCtx)) })()

	defer func() { a.endWork() }()
	var err error
	for attempts := 1; ; attempts++ {
		err = a.prepare(waitCtx, workCtx)
		if err == nil && a.existing {
			return a.touch(workCtx)
		}
		if err == nil {
			err = a.activate(workCtx)
			break
		}
		if !errors.Is(err, errUnusable) || attempts == maxContainers || workCtx.Err() != nil {
			break
		}
	}
	if err == nil {
		return a.claim, true, nil
	}
	return a.fail(workCtx, err)
}

// refillDelay is the delay between a reservation and the refill of the pool.
const refillDelay = 100 * time.Millisecond

// errUnusable is returned when the reserved container could not be prepared and
// was discarded. The claim may try another.
var errUnusable = errors.New("container unusable")

// prepare reserves a container and prepares it for the tenant. An unusable
// container is discarded, and the claim is without one again.
func (a *acquisition) prepare(waitCtx, workCtx context.Context) error {
	start := time.Now()
	err := a.reserve(waitCtx)
	a.timings["reserve"] += float64(time.Since(start).Microseconds()) / 1000
	if err != nil {
		return &flow.Error{Step: "reserve", Err: err}
	}
	if a.existing {
		return nil
	}
	a.endWork() // of the container before this one
	a.endWork = a.pools.BeginClaim()
	// The refill starts after refillDelay: creating a container takes the engine
	// a hundred times as long as a claim, and would slow down a burst.
	id := a.claim.Workload
	time.AfterFunc(refillDelay, func() { a.pools.WakeFiller(id) })
	// rollback undoes reserve, which is before this flow because it waits with
	// another context. load is the first step, so that every failure reaches it.
	timings, err := flow.Run(workCtx, "claim",
		flow.Step{Name: "load", Do: a.load, Undo: a.rollback},
		flow.Step{Name: "compare", When: a.needsCompare, Do: a.compare},
		flow.Step{Name: "wipe", When: func() bool { return a.mustWipe }, Do: a.wipe},
		flow.Step{Name: "seed", When: a.needsSeed, Do: a.seed},
		flow.Step{Name: "download", When: a.needsDownload, Do: a.download},
		flow.Step{Name: "restart", When: func() bool {
			return a.mustWipe || a.current.Restart == workload.RestartAlways ||
				a.changed && a.current.Restart != workload.RestartNever
		}, Do: a.restart},
		flow.Step{Name: "healthy", Do: func(ctx context.Context) error {
			if a.pools.Health.IsRecentlyHealthy(a.w, a.claim.Container) {
				return nil
			}
			_, err := a.pools.Health.Await(ctx, a.w, a.claim.Container)
			return err
		}},
	)
	maps.Copy(a.timings, timings)
	return err
}

// activate runs the post_claim hooks and marks the claim active.
func (a *acquisition) activate(workCtx context.Context) error {
	timings, err := flow.Run(workCtx, "claim", flow.Step{Name: string(hooks.PostClaim), Do: a.postClaim})
	maps.Copy(a.timings, timings)
	if err != nil {
		return err
	}
	_, err = flow.Run(workCtx, "claim", flow.Step{Name: "activate", Do: a.markActive})
	return err
}

// load reads the revision of the reserved container.
func (a *acquisition) load(ctx context.Context) error {
	w, r, err := a.pools.Catalog.Revision(ctx, a.claim.Workload, a.claim.Revision)
	a.w, a.seedDir = w, r.Dir
	a.changed, a.latest = false, snapshot.Snapshot{}
	a.mustWipe = a.claim.Source == Recycled
	return err
}

// rollback detaches the container from the claim and has it destroyed. An
// unchanged container is returned to the pool when the engine or the sink was
// unavailable: an outage must not cost the files in the containers. A single
// unresponsive container is also returned, behind the others; it is destroyed
// when it has been unresponsive for so long that it is tainted. Unless it is
// the tenant's own, the claim tries another.
func (a *acquisition) rollback(ctx context.Context, cause error) error {
	_, isSyncError := errors.AsType[*SyncError](cause)
	if !a.changed && (isSyncError || errors.Is(cause, runtime.ErrUnavailable)) {
		unresponsive := errors.Is(cause, runtime.ErrUnresponsive) && a.claim.Source != Affinity
		if err := a.returnToPool(ctx); err != nil || !unresponsive {
			return err
		}
		return errUnusable
	}
	a.changed = false
	destroy := pool.BeginDestroy("", []pool.State{pool.Claimed}, "unusable for a claim: "+cause.Error())
	if err := a.detach(ctx, &destroy); err != nil {
		return fmt.Errorf("discard container %s: %w", a.claim.Container, err)
	}
	a.pools.Wake(a.claim.Workload)
	if isSyncError {
		return nil // every container has the same sink
	}
	return errUnusable
}

// returnToPool returns the unchanged container to the pool.
func (a *acquisition) returnToPool(ctx context.Context) error {
	isFresh := a.claim.Source == Fresh
	transition := pool.Return("container returned unused", func(c *pool.Container) {
		if isFresh {
			c.Tenant = "" // it never held files of the tenant
		}
	})
	if err := a.detach(ctx, &transition); err != nil {
		return fmt.Errorf("return container %s to the pool: %w", a.claim.Container, err)
	}
	return nil
}

// detach removes the container from the claim, which stays pending.
func (a *acquisition) detach(ctx context.Context, container *pool.Transition) error {
	detached := Own(a.claim.ID, Pending)
	detached.Container = container
	detached.Set = func(c *Claim) { c.Container, c.Revision, c.Source, c.Endpoint = "", "", "", runtime.Endpoint{} }
	c, err := a.store.UpdateClaim(ctx, detached)
	if err == nil {
		a.claim = c
	}
	return err
}

// touch records the activity of the tenant of an existing claim, where the pool
// has a claim_idle_ttl. A concurrent idle release may have come first.
func (a *acquisition) touch(ctx context.Context) (Claim, bool, error) {
	if a.current.Pool.ClaimIdleTTL <= 0 {
		return a.claim, false, nil
	}
	c, err := a.Touch(ctx, a.claim.ID)
	if err == nil && c.State != Active {
		return Claim{}, false, fmt.Errorf("%w: claim %s is %s", ErrReleasing, c.ID, c.State)
	}
	return c, false, err
}

// postClaim runs the post_claim hooks, once. No other code runs them.
func (a *acquisition) postClaim(ctx context.Context) error {
	subject := a.claim.Subject()
	subject.NoPriorRuns = !a.hooksStarted
	outcome, err := a.runner.Fire(ctx, hooks.PostClaim, a.w.Hooks, subject)
	a.hooks = outcome
	return err
}

// markActive records that the claim is active.
func (a *acquisition) markActive(ctx context.Context) error {
	now := time.Now().UTC()
	activation := Activate(a.claim.ID, a.claim.Source, a.timings)
	activation.Container = a.snapshotTransition()
	activation.Set = func(c *Claim) {
		c.Hooks, c.Timings = Summaries(a.hooks.Runs), a.timings
		c.Warnings, c.ActiveAt = a.hooks.Warnings, &now
		if a.current.Pool.ClaimIdleTTL > 0 {
			c.TouchedAt = &now
		}
	}
	c, err := a.store.UpdateClaim(context.WithoutCancel(ctx), activation)
	if err == nil {
		a.claim = c
	}
	return err
}

// fail records that the claim failed, and has its container destroyed. A claim
// that turns out to be active is returned: only the reply to its activation was
// lost.
func (a *acquisition) fail(workCtx context.Context, cause error) (Claim, bool, error) {
	ctx := context.WithoutCancel(workCtx)
	step := "reserve"
	if failed, ok := errors.AsType[*flow.Error](cause); ok {
		step, cause = failed.Step, failed.Err
	}
	if errors.Is(cause, errNotRecorded) {
		return Claim{}, false, cause
	}
	failure := Fail(a.claim.ID, cause.Error())
	setReason := failure.Set
	failure.Set = func(c *Claim) {
		setReason(c)
		c.Hooks, c.Timings = Summaries(a.hooks.Runs), a.timings
	}
	c, err := a.store.UpdateClaim(ctx, failure)
	a.pools.Wake(a.claim.Workload)
	if errors.Is(err, pool.ErrConflict) {
		c, err = a.store.Claim(ctx, a.claim.ID)
		if err == nil && c.State == Active {
			return c, true, nil
		}
		cause = ErrAborted // it was released on another server
	}
	if err != nil {
		a.triggerSweep()
		cause = errors.Join(cause, fmt.Errorf("record that claim %s failed: %w", a.claim.ID, err))
		c = a.claim
	}
	if unavailable, ok := errors.AsType[*UnavailableError](cause); ok {
		return c, false, unavailable
	}
	return c, false, &FailedError{Claim: c, Step: step, Err: cause}
}

// Summaries returns the summaries of runs for a response.
func Summaries(runs []hooks.Run) []HookSummary {
	out := make([]HookSummary, 0, len(runs))
	for _, r := range runs {
		out = append(out, HookSummary{
			Run: r.ID, Point: r.Point, Hook: r.Hook, Attempt: r.Attempt,
			State: r.State, ExitCode: r.ExitCode, Duration: r.Duration,
		})
	}
	return out
}
