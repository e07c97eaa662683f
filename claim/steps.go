package claim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/runner"
	"github.com/hostler/hostler/internal/flow"
	"github.com/hostler/hostler/internal/rootcause"
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
	flow    *flow.Flow
	request Request
	current *workload.Workload // current revision
	record  pool.Record

	claim      Claim
	started    map[hooks.Point]bool // points that a server that has terminated began
	existing   bool                 // the tenant already has the claim
	w          *workload.Workload   // revision of the reserved container
	seedDir    string
	plan       plan
	changed    bool // the container was modified
	restarted  bool // the main process
	terms      terms
	latest     snapshot.Snapshot // the tenant's current snapshot, set by compare
	holds      string            // the snapshot that the container is updated from, "" for none
	hooks      runner.Outcome    // of post_claim
	endWork    func()            // of pools.BeginClaim, once it was called
	workEnded  func() error      // why the work ended; nil while it has not
	began      time.Time
	waitsUntil time.Time // the end of the caller's wait time
}

// acquire runs a claim. Until a container is reserved it ends with ctx, the
// caller's context; after that with workCtx.
func (s *Service) acquire(ctx, workCtx context.Context, id string, r Request, w *workload.Workload, record pool.Record) (Claim, bool, error) {
	// The wait for a container ends when the caller cancels, or when another
	// caller releases the claim.
	engineCtx, endBound := s.pools.Engine.Bound(workCtx, time.Now().Add(waitOf(r)))
	defer endBound()
	workCtx = engineCtx
	waitCtx, cancelWait := context.WithCancelCause(ctx)
	defer cancelWait(nil)
	defer context.AfterFunc(workCtx, func() { cancelWait(context.Cause(workCtx)) })()

	a := &acquisition{
		Service: s, flow: flow.New(waitCtx, workCtx, "claim"), request: r, current: w, record: record,
		claim: Claim{ID: id, Workload: r.Workload, Tenant: r.Tenant}, terms: s.termsOf(id, r, w),
		workEnded:  func() error { return context.Cause(workCtx) },
		began:      time.Now(),
		waitsUntil: time.Now().Add(waitOf(r)),
	}
	defer a.finishWork()
	err := a.attempt()
	for attempts := 1; errors.Is(err, errUnusable) && attempts < maxContainers && workCtx.Err() == nil; {
		if !errors.Is(err, errUnreached) || time.Now().After(a.waitsUntil) {
			attempts++ // no claim gets an unreached one again: their number is bounded, too
		}
		err = a.attempt()
	}
	if err == nil && a.existing {
		return a.touch(workCtx)
	}
	if err != nil {
		return a.fail(workCtx, err)
	}
	return a.claim, true, nil
}

// beginWork has the filling of pools yield to this claim, once for all the
// containers that it tries.
func (a *acquisition) beginWork() {
	if a.endWork == nil {
		a.endWork = a.pools.BeginClaim()
	}
}

func (a *acquisition) finishWork() {
	if a.endWork != nil {
		a.endWork()
	}
}

// prepare reserves a container and prepares it for the tenant. A container that
// cannot be prepared is given up, and the claim is without one again. With the
// tenant's existing claim, it ends after the first step.
func (a *acquisition) prepare() error {
	return a.flow.Run(
		flow.Step{Name: "reserve", Waits: true, Do: a.reserve, Undo: a.rollback},
		flow.Step{Name: "load", Do: a.load},
		flow.Step{Name: "compare", When: a.needsCompare, Do: a.compare},
		flow.Step{Name: "wipe", When: planned(&a.plan.wipe), Do: a.wipe},
		flow.Step{Name: "stop", When: planned(&a.plan.update), Do: a.stop},
		flow.Step{Name: "seed", When: planned(&a.plan.seed), Do: a.seed},
		flow.Step{Name: "download", When: planned(&a.plan.download), Do: a.download},
		flow.Step{Name: "restart", When: func() bool { return a.needsEnvironment() || a.plan.needsRestart(a.changed) }, Do: a.restart},
		flow.Step{Name: "healthy", When: func() bool { return !a.needsPostStart() }, Do: a.awaitHealthy},
	)
}

// attempt makes the claim active with a container.
func (a *acquisition) attempt() error {
	err := a.prepare()
	if err == nil && !a.existing {
		err = a.activate()
	}
	return err
}

// activate makes the claim active. What fails here fails the claim, if a hook has
// begun, which never runs again.
func (a *acquisition) activate() error {
	return a.flow.Run(
		flow.Step{Name: string(hooks.PostStart), When: a.needsPostStart, Do: a.postStart},
		flow.Step{Name: "healthy", When: a.needsPostStart, Do: a.awaitHealthy},
		flow.Step{Name: string(hooks.PostClaim), Do: a.postClaim},
		flow.Step{Name: "activate", Do: a.markActive, Undo: a.undoActivate},
	)
}

// planned returns the condition of a step of the plan, which compare may still
// change.
func planned(p *bool) func() bool { return func() bool { return *p } }

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

// needsPostStart reports whether the claim fires post_start: it has restarted
// the main process, or a server that has terminated began the point.
func (a *acquisition) needsPostStart() bool {
	return a.started[hooks.PostStart] || a.restarted && (len(a.w.Hooks[hooks.PostStart]) > 0 || a.w.ImageHooks)
}

// postStart runs the post_start hooks after a restart, once for the claim.
func (a *acquisition) postStart(ctx context.Context) error {
	_, err := a.fire(ctx, hooks.PostStart)
	return err
}

// postClaim runs the post_claim hooks, once. No other code runs them.
func (a *acquisition) postClaim(ctx context.Context) (err error) {
	a.hooks, err = a.fire(ctx, hooks.PostClaim)
	return err
}

func (a *acquisition) fire(ctx context.Context, p hooks.Point) (runner.Outcome, error) {
	subject := a.claim.Subject()
	subject.NoPriorRuns = a.started == nil
	subject.MayAsk = true
	return a.runner.Fire(ctx, p, a.w, subject)
}

// markActive records that the claim is active.
func (a *acquisition) markActive(ctx context.Context) error {
	now := time.Now().UTC()
	timings := maps.Clone(a.flow.Timings)
	activation := Activate(a.claim.ID, a.claim.Source, timings)
	activation.Container = a.activeContainer()
	activation.Set = func(c *Claim) {
		c.Hooks, c.Timings = Summaries(a.hooks.Runs), timings
		c.Warnings, c.ActiveAt = a.hooks.Warnings, &now
		if c.ExpiresAt != nil {
			at := now.Add(c.ExpiresAt.Sub(c.CreatedAt))
			c.ExpiresAt = &at
		}
		if a.current.Pool.ClaimIdleTTL > 0 {
			c.TouchedAt = &now
		}
	}
	c, err := a.store.UpdateClaim(context.WithoutCancel(ctx), activation)
	if errors.Is(err, pool.ErrConflict) {
		if k, readErr := a.pools.Container(context.WithoutCancel(ctx), a.claim.Container); readErr == nil {
			err = cmp.Or(lossOf(k), err)
		}
	}
	if err == nil {
		a.claim = c
		a.notifyActivated(c)
	}
	return err
}

// undoActivate gives up a container that was lost. Unless a hook has begun, the claim
// tries another.
func (a *acquisition) undoActivate(ctx context.Context, cause error) error {
	if !errors.Is(cause, pool.ErrUnhealthy) || a.started != nil || a.needsPostStart() || len(a.hooks.Runs) > 0 {
		return nil
	}
	return a.rollback(ctx, cause)
}

// notifyActivated calls Activated.
func (s *Service) notifyActivated(c Claim) {
	if s.Activated != nil {
		s.Activated(c)
	}
}

// recordedReason returns why a claim failed, as its tenant may see it, and what was
// being done.
func recordedReason(cause error) (reason string, chain []string) {
	if unavailable, ok := errors.AsType[*UnavailableError](cause); ok {
		return unavailable.Plain().Error(), nil
	}
	return rootcause.Of(cause)
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
	if ended := context.Cause(workCtx); errors.Is(ended, runtime.ErrUnavailable) {
		cause = ended // whichever call of the engine it was
	}
	a.markFailing(a.claim.ID)
	reason, chain := recordedReason(cause)
	failure := Fail(a.claim.ID, reason, append([]string{step}, chain...)...)
	setReason := failure.Set
	failure.Set = func(c *Claim) {
		setReason(c)
		c.Hooks, c.Timings = Summaries(a.hooks.Runs), a.flow.Timings
	}
	c, err := a.store.UpdateClaim(ctx, failure)
	if errors.Is(err, pool.ErrConflict) {
		c, err = a.store.Claim(ctx, a.claim.ID)
		if err == nil && c.State == Active {
			a.notifyActivated(c)
			return c, true, nil
		}
		cause = ErrAborted // it was released on another server
	}
	if err != nil {
		a.markUnrecorded(a.claim.ID)
		cause = errors.Join(cause, fmt.Errorf("record that claim %s failed: %w", a.claim.ID, err))
		c = a.claim
	}
	if unavailable, ok := errors.AsType[*UnavailableError](cause); ok {
		return c, false, unavailable
	}
	return c, false, &FailedError{Claim: c, Step: step, Err: cause}
}
