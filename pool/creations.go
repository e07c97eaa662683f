package pool

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/workload"
)

// createTimeout limits how long creating one container may take in addition to
// the timeouts of its hooks. It ends an engine call that hangs, and the wait
// for a container that never becomes healthy.
const createTimeout = 15 * time.Minute

// outdatedGrace is how long the creation of a container may continue after its
// workload was changed. Such a container may still serve a claim, but its creation
// occupies a slot and room in the pool.
const outdatedGrace = 30 * time.Second

// sweepDelay is how long after an event, or the end of a creation, interrupted creations
// are looked for: one sweep serves many.
const sweepDelay = 30 * time.Second

var (
	errOutdated = errors.New("its revision is outdated")
	errPanicked = errors.New("an internal error of the server, which is in its log")
)

// hold is a container whose creation or loss is not on record yet.
type hold struct {
	c          Container
	cancel     context.CancelCauseFunc // ends its creation; nil: it is a loss
	outdatedAt time.Time               // when its revision was found outdated; zero: it is not
}

// hold counts a container as being created until release is called. It is
// called before its creation or its loss is recorded: its failure has to be on
// record before the pool replaces it. cancel ends a creation.
func (f *Filler) hold(c Container, cancel context.CancelCauseFunc) (release func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := &hold{c: c, cancel: cancel}
	f.held[h] = true
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.held, h)
	}
}

// heldCount returns how many containers of a revision are held. Those of another
// one delay nothing: they may take long.
func (f *Filler) heldCount(workload, revision string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for h := range f.held {
		if h.c.Workload == workload && h.c.Revision == revision {
			n++
		}
	}
	return n
}

// isHeld reports whether the container is being created.
func (f *Filler) isHeld(id string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for h := range f.held {
		if h.c.ID == id {
			return true
		}
	}
	return false
}

// cancelOutdated ends the creations of revisions that have been outdated for
// outdatedGrace, and returns when the next one will be; zero: none.
func (f *Filler) cancelOutdated(r Record) (next time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	for h := range f.held {
		switch {
		case h.cancel == nil || h.c.Workload != r.ID:
		case h.c.Revision == r.Revision:
			h.outdatedAt = time.Time{}
		case h.outdatedAt.IsZero():
			h.outdatedAt = now
			next = earlier(next, now.Add(outdatedGrace))
		case now.Before(h.outdatedAt.Add(outdatedGrace)):
			next = earlier(next, h.outdatedAt.Add(outdatedGrace))
		default:
			h.cancel(errOutdated)
		}
	}
	return next
}

// provision creates one container.
func (f *Filler) provision(parent context.Context, c Container, w *workload.Workload, seeds string) {
	timeout := creationTimeout(w)
	ctx, cancel := context.WithTimeoutCause(parent, timeout, fmt.Errorf("it took longer than %s", timeout))
	defer cancel()
	err := errPanicked
	defer func() { // also after a panic, which must not be repeated without backoff
		switch {
		case err == nil:
			f.recordSuccess(ctx, c)
		case parent.Err() != nil: // the server stops, or the workload was changed
		case errors.Is(err, ErrTerminating): // which is not the workload's failure
		default:
			f.recordFailure(parent, c, failureOf(err), false)
		}
	}()
	err = f.provisioner.create(ctx, c, w, seeds)
}

// failureOf returns what is recorded of a creation that failed.
func failureOf(err error) failure {
	if failed, ok := errors.AsType[*failedError](err); ok {
		return failed.failure
	}
	return newFailure(Container{}, err, nil, NoOutput)
}

// maxHooksDuration returns how long hooks may take at most, with all retries.
func maxHooksDuration(hs []hooks.Hook) time.Duration {
	total := time.Duration(0)
	for _, h := range hs {
		total += time.Duration(h.Retries+1) * (h.Timeout + runtime.DefaultGrace + time.Minute)
	}
	return total
}

// sweep has the containers destroyed that nothing else would destroy.
func (f *Filler) sweep(ctx context.Context) (never time.Time, err error) {
	return never, errors.Join(f.sweepCreations(ctx), f.sweepRemoved(ctx))
}

// sweepCreations destroys the containers that are on record as being created and
// that nothing creates: the database was unavailable when their creation failed, or
// failed to report that they are on record. Only the server that leads creates
// containers, and it has taken over those of its predecessors.
func (f *Filler) sweepCreations(ctx context.Context) error {
	creating, err := f.store.Containers(ctx, ContainerFilter{States: []State{Creating}})
	for _, c := range creating {
		// A creation is held from before its record until its result is on record.
		// One that is listed first and is not held afterwards was interrupted.
		if !f.isHeld(c.ID) {
			err = errors.Join(err, f.sweepOne(ctx, c, "its creation was interrupted"))
		}
	}
	return err
}

// sweepRemoved destroys the idle containers of workloads that were removed: an older
// server has added them afterwards. No pool has them, and no claim can get them. One
// that is being created is idle, or fails, later.
func (f *Filler) sweepRemoved(ctx context.Context) error {
	idle, err := f.store.Containers(ctx, ContainerFilter{States: []State{Idle}, NoWorkload: true})
	for _, c := range idle {
		err = errors.Join(err, f.sweepOne(ctx, c, "its workload was removed before it was added"))
	}
	return err
}

// sweepOne hands a container to the reaper, unless its state has changed.
func (f *Filler) sweepOne(ctx context.Context, c Container, reason string) error {
	err := f.provisioner.beginDestroy(ctx, c.ID, []State{c.State}, reason)
	if errors.Is(err, runtime.ErrNewer) {
		return nil // a newer server sweeps its own
	}
	return err
}
