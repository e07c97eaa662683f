package pool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/internal/flow"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/workload"
)

// Maker creates containers and destroys them: the two flows at the ends of a
// container's life.
type Maker struct {
	store  Containers
	rt     runtime.Runtime
	runner *hooks.Runner
	health *Checker
	log    *slog.Logger
}

// NewMaker returns a maker.
func NewMaker(store Containers, rt runtime.Runtime, runner *hooks.Runner, health *Checker, log *slog.Logger) *Maker {
	return &Maker{store: store, rt: rt, runner: runner, health: health, log: log}
}

// add records a container that is about to be made; ErrFull.
func (m *Maker) add(ctx context.Context, r Record) (Container, error) {
	c := Container{
		ID: newID(), Workload: r.ID, Revision: r.Revision, State: Creating, Fence: FirstFence,
	}
	return c, m.store.AddContainer(ctx, c, r.MaxSize)
}

// create makes the recorded container c and puts it among the idle. When it
// fails the container is Destroying, for the remover to remove.
func (m *Maker) create(ctx context.Context, c Container, w *workload.Workload, seeds string) error {
	var endpoint runtime.Endpoint
	sealed := w.Pool.Reuse == workload.ReuseWipe
	// One that was half made is given up, and never gone on with.
	subject := hooks.Subject{Workload: c.Workload, Container: c.ID, New: true}
	_, err := flow.Run(ctx, "create",
		flow.Step{Name: "record", Do: done, Undo: func(ctx context.Context, cause error) error {
			return insist(ctx, func(ctx context.Context) error {
				return m.condemn(ctx, c.ID, []State{Creating, Idle}, cause.Error())
			})
		}},
		flow.Step{Name: "create", Do: func(ctx context.Context) error {
			return m.rt.Create(ctx, w.Spec(c.ID))
		}},
		flow.Step{Name: "start", Do: func(ctx context.Context) error {
			return m.rt.Start(ctx, c.ID)
		}},
		// Where claims put tenants' state in, they seed what has none.
		flow.Step{Name: "seed", When: func() bool { return w.Sync == nil || !w.Sync.Policy.OnClaim }, Do: func(ctx context.Context) error {
			seeded, err := Seed(ctx, m.rt, c.ID, w, seeds, nil)
			if err != nil || !seeded {
				return err
			}
			return m.rt.Restart(ctx, c.ID, c.Fence)
		}},
		flow.Step{Name: "healthy", Do: func(ctx context.Context) error {
			status, err := m.health.Await(ctx, w, c.ID)
			endpoint = status.Endpoint
			return err
		}},
		flow.Step{Name: string(hooks.PostCreate), Do: func(ctx context.Context) error {
			_, err := m.runner.Run(ctx, hooks.PostCreate, w.Hooks[hooks.PostCreate], subject)
			return err
		}},
		flow.Step{Name: "baseline", Do: func(ctx context.Context) error {
			if !sealed {
				return nil
			}
			return m.rt.Seal(ctx, c.ID, c.Fence)
		}},
		// A seal starts the main process anew.
		flow.Step{Name: "ready", When: func() bool { return sealed }, Do: func(ctx context.Context) error {
			status, err := m.health.Await(ctx, w, c.ID)
			endpoint = status.Endpoint
			return err
		}},
		flow.Step{Name: "idle", Do: func(ctx context.Context) error {
			_, err := m.store.MoveContainer(ctx, Move{
				ID: c.ID, From: []State{Creating}, To: Idle,
				Set:    func(c *Container) { c.Endpoint, c.Health = endpoint, Healthy },
				Events: []activity.Event{{Type: activity.ContainerCreated, Message: "container is ready and idle"}},
			})
			return err
		}},
		// A death is reported of what is idle: one that came before went unseen.
		flow.Step{Name: "confirm", Do: func(ctx context.Context) error {
			status, err := m.rt.Status(ctx, c.ID)
			switch {
			case errors.Is(err, runtime.ErrNotFound):
				return err
			case err != nil:
				return nil // when the engine is back, all containers are looked at
			case status.State != runtime.Running:
				return fmt.Errorf("%w: its main process exited with code %d", ErrUnhealthy, status.ExitCode)
			}
			return nil
		}},
	)
	if err == nil {
		m.health.Watch(c.ID, w, time.Now())
	}
	return err
}

// condemn moves a container to Destroying. One that is there already, or gone,
// is left as it is.
func (m *Maker) condemn(ctx context.Context, id string, from []State, reason string) error {
	_, err := m.store.MoveContainer(ctx, Condemn(id, from, reason))
	if isMoved(err) {
		return nil
	}
	return err
}

// Condemn is the move that gives a container to the remover. It is the intent:
// the deed follows, after a restart if need be.
func Condemn(id string, from []State, reason string) Move {
	return Move{
		ID: id, From: from, To: Destroying,
		Set: func(c *Container) { c.Reason, c.Claim = reason, "" },
		Events: []activity.Event{{
			Type: activity.ContainerDestroying, Message: "container is to be destroyed: " + reason,
			Data: activity.Data(map[string]any{"reason": reason}),
		}},
	}
}

// destroy carries out what Condemn has recorded: pre_destroy, stop, remove.
// It is safe to run again after any of it. It calls stopping when what is left
// is mostly the container's own time to end.
func (m *Maker) destroy(ctx context.Context, c Container, w *workload.Workload, stopping func()) error {
	m.health.Forget(c.ID)
	hooked := func() bool { return w != nil && len(w.Hooks[hooks.PreDestroy]) > 0 }
	_, err := flow.Run(ctx, "destroy",
		flow.Step{Name: string(hooks.PreDestroy), When: hooked, Do: func(ctx context.Context) error {
			return m.preDestroy(ctx, c, w)
		}},
		flow.Step{Name: "remove", Do: func(ctx context.Context) error {
			stopping()
			ctx, cancel := context.WithTimeout(ctx, graceOf(w)+removeTime)
			defer cancel()
			return m.rt.Destroy(ctx, c.ID)
		}},
		flow.Step{Name: "destroyed", Do: func(ctx context.Context) error { return m.bury(ctx, c) }},
	)
	if err != nil {
		return fmt.Errorf("destroy container %s: %w", c.ID, err)
	}
	return nil
}

// bury records that a container is gone.
func (m *Maker) bury(ctx context.Context, c Container) error {
	_, err := m.store.MoveContainer(ctx, Move{
		ID: c.ID, From: []State{Destroying}, To: Gone,
		Events: []activity.Event{{
			Type: activity.ContainerDestroyed, Message: "container is destroyed: " + c.Reason,
			Data: activity.Data(map[string]any{"reason": c.Reason}),
		}},
	})
	if isMoved(err) {
		return nil
	}
	return err
}

// preDestroy runs the hooks of that point if there is a main process to run
// beside, and says that they were skipped if not. No hook keeps the container
// alive; an error means that the engine or the database has to come back first.
func (m *Maker) preDestroy(ctx context.Context, c Container, w *workload.Workload) error {
	hs := w.Hooks[hooks.PreDestroy]
	subject := hooks.Subject{Workload: c.Workload, Container: c.ID, Tenant: c.Tenant}
	status, err := m.rt.Status(ctx, c.ID)
	switch {
	case errors.Is(err, runtime.ErrUnavailable):
		return err
	case err == nil && m.rt.Protocols().IsTooOld(c.Protocol):
		_, err = m.runner.Skip(ctx, hooks.PreDestroy, hs, subject, runtime.ErrTooOld.Error())
	case err != nil || status.State != runtime.Running:
		_, err = m.runner.Skip(ctx, hooks.PreDestroy, hs, subject, "the container is not running")
	default:
		if err := m.runner.Await(ctx, c.ID, w.Hooks); err != nil {
			return err
		}
		// A server that stops does not cut them off: they would be killed, and
		// never run again. The next one asks how they ended.
		_, err = m.runner.Run(context.WithoutCancel(ctx), hooks.PreDestroy, hs, subject)
	}
	if _, failed := errors.AsType[*hooks.Error](err); failed {
		m.log.Info("pre_destroy failed; the container is destroyed all the same", "container", c.ID, "error", err)
		return nil
	}
	return err
}

// removeTime bounds one try to remove a container, besides its time to end: an
// engine that hangs must not keep its place in the line for ever.
const removeTime = 5 * time.Minute

// graceOf is how long a container of w may take to end: the most, where the
// workload is not known any more.
func graceOf(w *workload.Workload) time.Duration {
	if w == nil {
		return workload.MaxStopGrace
	}
	return w.StopGracePeriod()
}

// insisting bounds how long a write that must not be lost is tried.
const insisting = 2 * time.Minute

// insist does what must be written down, again and again when storage fails:
// a full disk or a locked database passes, a row that nobody leaves does not.
func insist(ctx context.Context, write func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, insisting)
	defer cancel()
	for pause := firstPause / 10; ; pause = min(2*pause, 10*firstPause) {
		err := write(ctx)
		if err == nil || isMoved(err) {
			return err
		}
		if flow.Pause(ctx, pause) != nil {
			return err
		}
	}
}

// done is a step whose deed was done by whoever began the flow.
func done(context.Context) error { return nil }

// newID makes a container id: sortable by time, and short enough for a host
// name with a prefix.
func newID() string { return uuid.Must(uuid.NewV7()).String() }
