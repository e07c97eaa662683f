package pool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/runner"
	"github.com/hostler/hostler/internal/backoff"
	"github.com/hostler/hostler/internal/flow"
	"github.com/hostler/hostler/internal/rootcause"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/workload"
)

// Provisioner creates and destroys containers: the first and the last flow of a
// container's lifecycle.
type Provisioner struct {
	store   Containers
	rt      runtime.Runtime
	runner  *runner.Runner
	health  *HealthChecker
	outputs *outputReader
	log     *slog.Logger
}

// NewProvisioner returns a Provisioner.
func NewProvisioner(store Containers, rt runtime.Runtime, runner *runner.Runner, health *HealthChecker, log *slog.Logger) *Provisioner {
	return &Provisioner{store: store, rt: rt, runner: runner, health: health, outputs: health.outputs, log: log}
}

// newContainer returns the record of a container that is about to be created.
func newContainer(r Record) Container {
	return Container{ID: newID(), Workload: r.ID, Revision: r.Revision, State: Creating, Fence: FirstFence}
}

// create creates the recorded container c and makes it Idle. If it fails, the
// container is Destroying and the reaper removes it.
func (p *Provisioner) create(ctx context.Context, c Container, w *workload.Workload, seeds string) error {
	var status runtime.Status
	awaitHealthy := func(ctx context.Context) error {
		var err error
		status, err = p.health.Await(ctx, w, c.ID)
		return err
	}
	needsBaseline := w.Pool.Reuse == workload.ReuseWipe
	// A container whose creation was interrupted is destroyed, never resumed.
	subject := runner.Subject{Workload: c.Workload, Container: c.ID, Fence: c.Fence, NoPriorRuns: true}
	var failed failure
	work := ctx
	discard := func(ctx context.Context, cause error) error {
		failed = p.describe(work, c, cause)
		return retryWrite(ctx, func(ctx context.Context) error {
			return p.beginDestroyBy(ctx, failed.record(BeginDestroy(c.ID, []State{Creating, Idle}, failed.reason)))
		})
	}
	err := flow.Run(ctx, "create",
		flow.Step{Name: "record", Undo: discard},
		flow.Step{Name: "create", Do: func(ctx context.Context) error { return p.rt.Create(ctx, w.Spec(c.ID)) }},
		flow.Step{Name: string(hooks.PreStart), Do: p.fire(hooks.PreStart, w, subject)},
		flow.Step{Name: "start", Do: func(ctx context.Context) error {
			return p.rt.Start(ctx, c.ID, c.Fence)
		}},
		// If claims download tenants' state, they also copy the seeds.
		flow.Step{Name: "seed", When: func() bool { return w.Sync == nil || !w.Sync.Policy.OnClaim }, Do: func(ctx context.Context) error {
			seeded, err := Seed(ctx, p.rt, c.ID, c.Fence, w, seeds, nil)
			if err != nil || !seeded {
				return err
			}
			return p.rt.Restart(ctx, c.ID, c.Fence)
		}},
		flow.Step{Name: "image_hooks", When: func() bool { return w.ImageHooks }, Do: func(ctx context.Context) error {
			return p.listImageHooks(ctx, c)
		}},
		flow.Step{Name: string(hooks.PostStart), Do: p.fire(hooks.PostStart, w, subject)},
		flow.Step{Name: "healthy", Do: awaitHealthy},
		flow.Step{Name: string(hooks.PostCreate), Do: p.fire(hooks.PostCreate, w, subject)},
		flow.Step{Name: "baseline", Do: func(ctx context.Context) error {
			if !needsBaseline {
				return nil
			}
			return p.rt.RecordBaseline(ctx, c.ID, c.Fence)
		}},
		// Recording the baseline restarts the main process.
		flow.Step{Name: "ready", When: func() bool { return needsBaseline }, Do: awaitHealthy},
		flow.Step{Name: "idle", Do: func(ctx context.Context) error {
			ready := Ready(c.ID, func(c *Container) { c.Endpoint, c.Node, c.Health = status.Endpoint, status.Node, Healthy })
			ready.If = func(c Container) bool { return !c.IsTerminating() }
			_, err := p.store.UpdateContainer(ctx, ready)
			if !isConflict(err) {
				return err
			}
			if k, readErr := p.store.Container(ctx, c.ID); readErr == nil && k.IsTerminating() {
				return ErrTerminating
			}
			return err
		}},
	)
	if err != nil {
		return &failedError{failed, err}
	}
	// The container is idle: it is not discarded because the server stops.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), confirmTimeout)
	defer cancel()
	err = flow.Run(ctx, "create",
		flow.Step{Name: "confirm", Undo: discard, Do: func(ctx context.Context) error { return p.confirm(ctx, c.ID) }})
	if err != nil {
		return &failedError{failed, err}
	}
	p.health.Watch(c.ID, w, time.Now())
	return nil
}

// describe returns what is recorded of a creation that failed. One that was canceled,
// because the server stops or the workload was changed, has no output.
func (p *Provisioner) describe(work context.Context, c Container, cause error) failure {
	var o *Output
	state := NoOutput
	if !errors.Is(work.Err(), context.Canceled) {
		o, state = p.outputs.read(work, c, cause)
	}
	if exit := p.exitOf(work, c.ID, cause); exit != nil {
		cause = exit
	}
	return newFailure(c, cause, o, state)
}

// exitErrors are the errors of calls that a main process which exits can end with.
// What the call met, such as a broken connection, is a matter of chance.
var exitErrors = []error{runtime.ErrNotRunning, runtime.ErrContainerExited, runtime.ErrTainted, runtime.ErrUnresponsive}

// exitTimeout bounds how long a failure waits for the engine's record of an exit,
// which follows the end of the calls.
const exitTimeout = time.Second

// exitOf returns that the main process has exited, if a call has failed because of
// that, and nil otherwise.
func (p *Provisioner) exitOf(work context.Context, id string, cause error) error {
	if !slices.ContainsFunc(exitErrors, func(err error) bool { return errors.Is(cause, err) }) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(work), exitTimeout)
	defer cancel()
	status, err := p.rt.Status(ctx, id)
	for err == nil && status.State == runtime.Running && flow.Sleep(ctx, exitTimeout/20) == nil {
		status, err = p.rt.Status(ctx, id)
	}
	if err != nil || status.State != runtime.Exited {
		return nil
	}
	_, chain := rootcause.Of(cause)
	var exit error = exitErrorOfStatus(status)
	for _, doing := range slices.Backward(chain) {
		exit = fmt.Errorf("%s: %w", doing, exit)
	}
	return exit
}

// fire returns a function that fires a point of the creation.
func (p *Provisioner) fire(point hooks.Point, w *workload.Workload, s runner.Subject) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := p.runner.Fire(ctx, point, w, s)
		return err
	}
}

// confirmTimeout limits how long the confirmation of an idle container may take.
const confirmTimeout = 30 * time.Second

// confirm returns an error if an idle container has exited. The watcher reports
// exits of idle containers only: an earlier one would go unnoticed. What became
// of a container that is not idle anymore is not a failure of its creation.
func (p *Provisioner) confirm(ctx context.Context, id string) error {
	status, failure := p.rt.Status(ctx, id)
	switch {
	case failure != nil && !errors.Is(failure, runtime.ErrNotFound):
		return nil // when the engine is available again, all containers are checked
	case failure == nil && status.State == runtime.Running:
		return nil
	case failure == nil:
		failure = exitErrorOfStatus(status)
	}
	if c, err := p.store.Container(ctx, id); err == nil && c.State != Idle {
		return nil // a claim has taken it
	}
	return failure
}

// beginDestroy moves a container to Destroying. If the container is not in one
// of the states from, it does nothing.
func (p *Provisioner) beginDestroy(ctx context.Context, id string, from []State, reason string) error {
	return p.beginDestroyBy(ctx, BeginDestroy(id, from, reason))
}

// beginDestroyBy is beginDestroy by a transition.
func (p *Provisioner) beginDestroyBy(ctx context.Context, m Transition) error {
	_, err := p.store.UpdateContainer(ctx, m)
	if isConflict(err) {
		return nil
	}
	return err
}

// destroy performs what BeginDestroy has recorded: pre_destroy, stop, remove. It
// is safe to run again after any step. It calls onStopping when most of the
// remaining time is the container's grace period.
func (p *Provisioner) destroy(ctx context.Context, c Container, w *workload.Workload, onStopping func()) error {
	p.health.Forget(c.ID)
	err := flow.Run(ctx, "destroy",
		flow.Step{Name: "output", When: func() bool { return c.Output == OutputWanted }, Do: func(ctx context.Context) error {
			return p.keepOutput(ctx, c)
		}},
		flow.Step{Name: string(hooks.PreDestroy), When: hasPreDestroy(c, w), Do: func(ctx context.Context) error {
			return p.preDestroy(ctx, c, w)
		}},
		flow.Step{Name: "remove", Do: func(ctx context.Context) error { return p.remove(ctx, c.ID, w, onStopping) }},
		flow.Step{Name: "destroyed", Do: func(ctx context.Context) error { return p.markGone(ctx, c) }},
	)
	if err != nil {
		return fmt.Errorf("destroy container %s: %w", c.ID, err)
	}
	return nil
}

// hasPreDestroy returns the condition of the step pre_destroy.
func hasPreDestroy(c Container, w *workload.Workload) func() bool {
	return func() bool { return w != nil && c.Forced != ForcedDone }
}

// remove stops and removes a container.
func (p *Provisioner) remove(ctx context.Context, id string, w *workload.Workload, onStopping func()) error {
	onStopping()
	ctx, cancel := context.WithTimeout(ctx, stopGraceOf(w)+removeTimeout)
	defer cancel()
	return p.rt.Destroy(ctx, id)
}

// markGone records that a container is destroyed.
func (p *Provisioner) markGone(ctx context.Context, c Container) error {
	_, err := p.store.UpdateContainer(ctx, finishDestroy(c.ID, c.Reason))
	if isConflict(err) {
		return nil
	}
	return err
}

// preDestroy fires pre_destroy. A failed hook does not keep the container; an
// error means that the engine or the database is unavailable.
func (p *Provisioner) preDestroy(ctx context.Context, c Container, w *workload.Workload) error {
	subject := runner.Subject{
		Workload: c.Workload, Container: c.ID, Fence: c.Fence, Tenant: c.Tenant, Protocol: c.Protocol, EndsOthers: c.Forced != NotForced,
		EventCommands: c.EventCommands,
	}
	if c.Forced == ForcedNow {
		subject.Skip = skippedReason
	}
	outcome, err := p.runner.Fire(ctx, hooks.PreDestroy, w, subject)
	if outcome.Failure != nil {
		p.log.Info("pre_destroy hook failed; destroying container", "container", c.ID, "error", outcome.Failure)
	}
	return err
}

// removeTimeout limits one attempt to remove a container, in addition to its
// grace period: an engine call that hangs must not occupy a slot indefinitely.
const removeTimeout = 5 * time.Minute

// stopGraceOf returns the grace period of a container of w: the max if the
// workload is unknown.
func stopGraceOf(w *workload.Workload) time.Duration {
	if w == nil {
		return workload.MaxStopGrace
	}
	return w.StopGracePeriod()
}

// retryWriteTimeout limits how long a write that must not be lost is retried.
const retryWriteTimeout = 2 * time.Minute

// retryWrite performs a write that must not be lost and retries it if the store
// fails: a full disk or a locked database is temporary, but a row in a wrong
// state would remain.
func retryWrite(ctx context.Context, write func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, retryWriteTimeout)
	defer cancel()
	retries := backoff.Policy{Min: minBackoff / 10, Max: 10 * minBackoff, Jitter: jitter}.Retries()
	for {
		err := write(ctx)
		if err == nil || isConflict(err) || retries.Sleep(ctx) != nil {
			return err
		}
	}
}

// retryRead reads records at the start of a loop, and retries that until it
// succeeds or ctx ends.
func retryRead(ctx context.Context, log *slog.Logger, read func(context.Context) error) {
	retries := storeRetries.Retries()
	for {
		err := read(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		log.Error("reading records failed; retrying", "error", err)
		if retries.Sleep(ctx) != nil {
			return
		}
	}
}

// newID returns a container id. It sorts by time and is short enough for a host
// name with a prefix.
func newID() string { return uuid.Must(uuid.NewV7()).String() }
