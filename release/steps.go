package release

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/internal/flow"
	"github.com/hostler/hostler/internal/rootcause"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/workload"
)

// operation is the state that the steps of a release share.
type operation struct {
	*Service
	flow           *flow.Flow
	claim          claim.Claim
	request        Request
	discard        *atomic.Bool // set by any caller of the release
	w              *workload.Workload
	container      pool.Container
	isFirst        bool        // no flow has released the claim before
	hadWaits       bool        // it has ended waits of the claim, or may have
	runs           []hooks.Run // of pre_release
	warnings       []string
	exitCode       *int     // of the main process, if it ended before the release
	unusable       string   // why the container cannot be reused, found by a step
	unusableChain  []string // what was being done when that was found
	disposition    disposition
	processesEnded bool   // its processes were stopped for the upload
	lossReason     string // why the changes since the last snapshot are lost
}

// run runs the steps of a release in order. There is no undo: each step can be
// repeated, and a release only moves forward.
func (s *Service) run(ctx context.Context, c claim.Claim, r Request, discard *atomic.Bool) (claim.Claim, error) {
	if r.Reason == "" {
		r.Reason = "requested"
	}
	op := &operation{Service: s, flow: flow.New(ctx, ctx, "release"), claim: c, request: r, discard: discard}
	err := op.flow.Run(
		flow.Step{Name: "releasing", Do: op.markReleasing},
		flow.Step{Name: "end_uses", When: op.mayBeUsed, Do: op.whileEngineResponds(op.endUses)},
		flow.Step{Name: string(hooks.PreRelease), Do: op.preRelease},
		flow.Step{Name: "upload", When: op.hasSyncOnRelease, Do: op.uploadState},
		flow.Step{Name: "dispose", Do: op.whileEngineResponds(op.restartOrDispose)},
		flow.Step{Name: "released", Do: op.markReleased},
	)
	if syncErr, ok := errors.AsType[*claim.SyncError](err); ok {
		return op.retainForRetry(ctx, syncErr)
	}
	return op.claim, err
}

// whileEngineResponds returns a step whose context also ends when the engine does not
// respond: the release is finished when it does again. Hooks and transfers have bounds
// of their own.
func (op *operation) whileEngineResponds(do func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, end := op.pools.Engine.Bound(ctx, time.Now())
		defer end()
		err := do(ctx)
		if cause := context.Cause(ctx); err != nil && errors.Is(cause, runtime.ErrUnavailable) {
			return cause // whatever the call has made of it
		}
		return err
	}
}

// markReleasing records that the claim is releasing: from here on the tenant
// must not use it.
func (op *operation) markReleasing(ctx context.Context) error {
	discard := op.discard.Load()
	op.hadWaits = true // unless this flow finds that there were none
	if op.claim.State == claim.Active || op.claim.State == claim.ReleaseFailed {
		failed := op.claim.Reason
		begin := claim.BeginRelease(op.claim.ID, op.request.Reason, discard || op.claim.Discard)
		begin.If = op.request.OnlyIf
		begin.Set = func(c *claim.Claim) {
			failed = c.Reason
			op.isFirst, op.hadWaits = c.State == claim.Active, c.Waits > 0
			c.Reason, c.ReasonChain, c.RetryAt, c.Traceparent = op.request.Reason, nil, nil, op.request.Traceparent
			c.Discard = c.Discard || op.discard.Load()
		}
		c, err := op.store.UpdateClaim(ctx, begin)
		if errors.Is(err, pool.ErrConflict) {
			return errAlreadyReleasing
		}
		if err != nil {
			return err
		}
		op.claim = c
		if op.request.SkipUpload {
			op.unusable, op.lossReason = "the state upload failed", failed
		}
	}
	if op.request.Releasing != nil {
		op.request.Releasing()
	}
	if discard && !op.claim.Discard {
		// The release was started without discard, and a server that resumes it
		// must read it.
		if err := op.recordDiscard(ctx, op.claim.ID); err != nil {
			return err
		}
		op.claim.Discard = true
	}
	var err error
	if op.container, err = op.pools.Container(ctx, op.claim.Container); err != nil {
		return fmt.Errorf("container %s: %w", op.claim.Container, err)
	}
	if op.container.Claim != op.claim.ID {
		return fmt.Errorf("container %s does not belong to claim %s: %w", op.claim.Container, op.claim.ID, pool.ErrConflict)
	}
	op.w, _, err = op.pools.Catalog.Revision(ctx, op.claim.Workload, op.claim.Revision)
	if err != nil {
		return err
	}
	op.noteForced()
	return op.checkProtocol()
}

// checkProtocol returns an error when this server does not support the protocol
// of the container and the release must wait for another server: a newer server
// created the container, or the protocol is too old and the container holds the
// only copy of its tenant's state.
func (op *operation) checkProtocol() error {
	err := op.rt.Protocols().Check(op.container.Protocol)
	if !errors.Is(err, runtime.ErrTooOld) {
		return err
	}
	if op.hasSyncOnRelease() && !op.claim.Discard {
		return &claim.SyncError{Direction: "upload", Err: err}
	}
	op.unusable, op.unusableChain = rootcause.Of(err)
	return nil
}

// mayBeUsed reports whether the container can run commands of the tenant: its main
// process has not exited, and this server supports its protocol. Whether it runs any
// is known in the container only: another server may have started them.
func (op *operation) mayBeUsed() bool {
	return op.container.Health != pool.Exited && !op.rt.Protocols().IsTooOld(op.container.Protocol)
}

// endUses ends the commands of the tenant and closes the connections to its ports:
// pre_release works on files that no one uses any more. From here on the container
// refuses both for the claim.
func (op *operation) endUses(ctx context.Context) error {
	id, fence := op.claim.Container, op.claim.ContainerFence
	err := op.rt.ClosePorts(ctx, id, fence)
	if err == nil {
		err = op.rt.EndCommands(ctx, id, fence, runtime.DefaultGrace)
	}
	switch {
	case errors.Is(err, runtime.ErrTainted):
		if op.unusable == "" {
			op.unusable, op.unusableChain = rootcause.Of(err)
		}
	case errors.Is(err, runtime.ErrNotFound), errors.Is(err, runtime.ErrNotRunning), errors.Is(err, runtime.ErrContainerExited):
		// Nothing runs in it. What this means for the release is found by its steps.
	case errors.Is(err, runtime.ErrUnavailable) && !op.readsFiles():
		// What runs ends with the restart or the destruction of the container.
	case err != nil:
		return fmt.Errorf("end the tenant's commands: %w", err)
	}
	return nil
}

// readsFiles reports whether a step before the disposition works on files that the
// tenant's commands could still change.
func (op *operation) readsFiles() bool {
	return op.container.HasHooks(hooks.PreRelease, op.w) || op.hasSyncOnRelease()
}

// preRelease fires pre_release. Each hook runs once for a claim however often
// its release is started.
func (op *operation) preRelease(ctx context.Context) error {
	if op.container.EventCommands || op.hadWaits {
		if err := op.endOtherHooks(ctx); err != nil {
			return err
		}
	}
	subject := op.claim.Subject()
	subject.NoPriorRuns = op.isFirst
	subject.MayAsk = true
	subject.Protocol, subject.HasExited = op.container.Protocol, op.container.Health == pool.Exited
	if op.hasSyncOnRelease() {
		op.saves.Store(op.claim.ID, nil)
		defer op.saves.Delete(op.claim.ID)
		if op.container.IsTerminating() {
			subject.Skip = ErrTerminating.Error()
		}
	}
	if subject.HasExited {
		op.exitCode = op.readExitCode(ctx)
	}
	outcome, err := op.runner.Fire(ctx, hooks.PreRelease, op.w, subject)
	op.runs = outcome.Runs
	op.warnings = append(op.warnings, outcome.Warnings...)
	if subject.Skip != "" && len(outcome.Runs) > 0 {
		op.warnings = append(op.warnings, fmt.Sprintf("%s did not run: %s", hooks.PreRelease, subject.Skip))
	}
	if outcome.Tainted != "" {
		op.unusable = outcome.Tainted
	}
	return err
}

// endOtherHooks returns when no command of an event hook or of a test, and no hook of
// a wait, runs in the container, or when it must not be used again.
func (op *operation) endOtherHooks(ctx context.Context) error {
	tainted, err := op.runner.AwaitEventHooks(ctx, op.claim.Container)
	if err != nil {
		return err
	}
	test, err := op.runner.EndTests(ctx, op.claim.ID)
	op.unusable = cmp.Or(tainted, test, op.unusable)
	return err
}

// readExitCode returns the exit code of a main process that has exited, or nil if
// the engine does not know it.
func (op *operation) readExitCode(ctx context.Context) *int {
	status, err := op.rt.Status(ctx, op.claim.Container)
	if err != nil || status.State != runtime.Exited {
		return nil
	}
	return &status.ExitCode
}

// restartOrDispose decides whether the container can return to the pool, and
// ends all processes that the tenant left in it.
func (op *operation) restartOrDispose(ctx context.Context) error {
	f, err := op.facts(ctx)
	if err != nil {
		return err
	}
	if op.disposition = f.dispose(); op.disposition.destroy && !op.needsMain() {
		return nil
	}
	op.pools.Health.MarkRestarted(op.claim.Container)
	err = op.restart(ctx)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, runtime.ErrUnavailable) {
		// The state of the container is unknown. The claim stays as it is, with
		// all files, until the engine is available.
		return fmt.Errorf("restart container: %w", err)
	}
	if err != nil && !op.disposition.destroy {
		op.log.Info("restart of released container failed; destroying it", "container", op.claim.Container, "error", err)
		reason, chain := rootcause.Of(err)
		op.unusableChain = append([]string{"restart"}, chain...)
		op.disposition = facts{unusable: reason}.dispose()
	}
	return nil
}

// needsMain reports whether a container that will be destroyed has pre_destroy
// hooks but no main process, because it was stopped for the upload, now or in
// an earlier attempt.
func (op *operation) needsMain() bool {
	return (op.processesEnded || op.claim.Failures > 0) && op.container.HasHooks(hooks.PreDestroy, op.w) && op.container.Health != pool.Exited &&
		!op.rt.Protocols().IsTooOld(op.container.Protocol) // this server cannot start it
}

// facts reads what the disposition of the container depends on. A container
// that is unusable is destroyed whatever the rest is.
func (op *operation) facts(ctx context.Context) (facts, error) {
	if err := op.refresh(ctx); err != nil {
		return facts{}, err
	}
	if op.container.Forced != pool.NotForced {
		op.unusable = pool.ForcedReason // a restart would end its pre_destroy hooks
	}
	f := facts{unusable: op.unusable, health: op.container.Health}
	if isKeepable(op.container) {
		f.health = pool.Healthy
	}
	if op.unusable != "" {
		return f, nil
	}
	current, record, err := op.pools.Catalog.Current(ctx, op.claim.Workload)
	if errors.Is(err, pool.ErrWorkloadNotFound) {
		f.deleted = true
		return f, nil
	}
	if err != nil {
		return f, err
	}
	f.discard, f.draining, f.reuseNever = op.claim.Discard, record.Draining, current.Pool.Reuse == workload.ReuseNever
	f.outdated = pool.OutdatedReason(op.container, record.Revision, op.rt.Protocols().Current)
	return f, nil
}

// markReleased releases the container and ends the claim in one transaction.
// Changes that others recorded until then count: a discard, an upload, or an exit.
func (op *operation) markReleased(ctx context.Context) error {
	now := time.Now().UTC()
	lost := op.lossEvents()
	released := activity.ClaimReleasedData{ExitCode: op.exitCode, Reason: op.request.Reason, Warnings: op.warnings, Timings: op.flow.Timings}
	finish := claim.Finish(op.claim.ID, released)
	finish.Events = append(lost, finish.Events...)
	finish.Container = &pool.Transition{}
	health := func(claim.Claim) pool.Health { return pool.Healthy } // or the container's part is a conflict
	finish.Set = func(c *claim.Claim) {
		last := facts{unusable: op.disposition.reason, discard: c.Discard, health: health(*c)}
		*finish.Container = last.dispose().transition(c.Snapshot, op.unusableChain...)
		released.Activity = c.Activity // the program may have reported it until now
		finish.Events[len(finish.Events)-1].Data = activity.Data(released)
		c.ReleasedAt, c.Failures, c.RetryAt, c.FailureReason, c.FailedAt = &now, 0, nil, "", nil
		c.Hooks = append(c.Hooks, claim.Summaries(op.runs)...)
		c.Warnings = append(c.Warnings, op.warnings...)
		if c.Timings == nil {
			c.Timings = map[string]float64{}
		}
		maps.Copy(c.Timings, op.flow.Timings)
	}
	c, err := op.store.UpdateClaim(ctx, finish)
	if errors.Is(err, pool.ErrConflict) {
		health = func(c claim.Claim) pool.Health { return pool.Health(c.Health) }
		c, err = op.store.UpdateClaim(ctx, finish)
	}
	if err != nil {
		return fmt.Errorf("record the release: %w", err)
	}
	op.claim = c
	return nil
}
