package pool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/internal/workqueue"
	"github.com/hostler/hostler/workload"
)

// How many containers are created concurrently, in total and of one workload,
// and how many slots are left to workloads of which none is being created. An
// engine serializes most of the work, so more would only take longer each. Some
// workloads may not use all slots, because their images may hang.
const (
	parallelCreates    = 8 + reservedCreates
	createsPerWorkload = 4
	reservedCreates    = 2
)

// Filler keeps the pools filled. Every change of a pool wakes it. It sleeps until
// something is to be retried or expires.
//
// It creates the containers that min_idle and the waiting claims need. It
// replaces containers of an older revision or protocol version once the new
// ones are ready. It makes room for min_idle and for waiting claims by
// destroying idle containers that only their last tenant may claim. It empties
// pools that drain.
type Filler struct {
	store       Store
	catalog     *Catalog
	provisioner *Provisioner
	queue       *WaitQueue
	protocol    int // of the containers that it creates
	log         *slog.Logger
	// checks has the pools to be compared with their records, and creations those
	// that need a container.
	checks    *workqueue.Queue[string]
	creations *workqueue.Queue[string]
	sweeps    *workqueue.Loop // of what nothing else destroys
	yielder   *yielder
	exits     earlyExits

	mu   sync.Mutex // guards held and its elements
	held map[*hold]bool
}

// Store is everything that the pool needs from the database.
type Store interface {
	Containers
	Workloads
	Breakers
	EventLog
	Outputs
}

// NewFiller returns a Filler; it creates nothing before Run.
func NewFiller(store Store, catalog *Catalog, provisioner *Provisioner, queue *WaitQueue, log *slog.Logger) *Filler {
	f := &Filler{
		store: store, catalog: catalog, provisioner: provisioner, queue: queue, log: log,
		protocol: provisioner.rt.Protocols().Current, held: map[*hold]bool{},
		checks: workqueue.New(workqueue.Options[string]{Backoff: storeRetries, Log: log}),
		creations: workqueue.New(workqueue.Options[string]{
			Group: func(workload string) string { return workload }, PerGroup: createsPerWorkload, Reserved: reservedCreates, Backoff: storeRetries, Log: log,
		}),
	}
	f.sweeps = workqueue.NewLoop("sweep of containers", f.sweep, storeRetries, log)
	f.yielder = newYielder(f.creations.Add)
	return f
}

// Wake requests a check of the workload's pool. It never blocks.
func (f *Filler) Wake(workload string) { f.checks.Add(workload) }

// Run fills the pools until ctx ends. It returns when no container is being
// created; the creation of a container is aborted when ctx ends.
func (f *Filler) Run(ctx context.Context) error {
	retryRead(ctx, f.log, f.wakeAll)
	var g errgroup.Group
	g.Go(func() error { return f.sweeps.Run(ctx) })
	g.Go(func() error { f.checks.Run(ctx, 1, f.check); return nil })
	g.Go(func() error { f.creations.Run(ctx, parallelCreates, f.create); return nil })
	return g.Wait()
}

// wakeAll requests a check of every pool.
func (f *Filler) wakeAll(ctx context.Context) error {
	all, err := f.store.Workloads(ctx)
	if err != nil {
		return fmt.Errorf("list the workloads: %w", err)
	}
	for _, r := range all {
		f.Wake(r.ID)
	}
	return nil
}

// demand is what a pool needs by its record and its containers.
type demand struct {
	w       *workload.Workload
	r       Record
	counts  poolCounts
	breaker Breaker // of any revision
	waiting int     // claims that wait for a container, on all servers
	served  int     // of these, those that may have a counted container
	missing int     // containers to reach min_idle and for the waiting claims
	room    int     // containers to reach max_size
}

// assess returns the demand of a pool, or ErrWorkloadNotFound. A pool that lacks no
// container does not yield. A creation may have it yield after the check that was
// woken by the pool's removal: the next creation ends that.
func (f *Filler) assess(ctx context.Context, id string) (demand, error) {
	d, err := f.readDemand(ctx, id)
	if errors.Is(err, ErrWorkloadNotFound) || err == nil && (d.r.Draining || d.missing <= 0) {
		f.yielder.forget(id)
	}
	return d, err
}

func (f *Filler) readDemand(ctx context.Context, id string) (demand, error) {
	w, r, err := f.catalog.Current(ctx, id)
	if err != nil {
		return demand{}, err
	}
	counts, err := f.store.Counts(ctx, id)
	if err != nil {
		return demand{}, fmt.Errorf("count the containers: %w", err)
	}
	waitingOnPeers, err := f.store.Waiting(ctx, id)
	if err != nil {
		return demand{}, err
	}
	kept, err := f.store.Kept(ctx, id)
	if err != nil {
		return demand{}, err
	}
	held := f.heldCount(id, r.Revision) // after the counts, and before the breaker
	b, err := f.store.Breaker(ctx, id)
	if err != nil {
		return demand{}, err
	}
	d := demand{w: w, r: r, breaker: b, counts: summarize(counts, r.Revision, f.protocol, w.Pool.Reuse)}
	d.served = f.queue.Reserving(id) // before those that wait: one that leaves the queue in between counts as neither
	d.waiting = f.queue.Waiting(id) + waitingOnPeers
	d.counts.creating = max(d.counts.creating, held)
	d.missing = r.MinIdle + d.waiting - d.counts.usable - d.counts.creating
	d.room = r.MaxSize - EffectiveSize(d.counts.total, kept, r.MaxSize)
	return d, nil
}

// check compares a pool with its record, and destroys what is too much. It has
// the pool checked again when the next container expires.
func (f *Filler) check(ctx context.Context, t *workqueue.Task[string]) error {
	again, err := f.reconcile(ctx, t.Key)
	if !again.IsZero() {
		f.checks.AddAfter(t.Key, time.Until(again))
	}
	return f.logFailure(ctx, t.Key, err)
}

// reconcile returns when to check the pool again even if it is not woken; zero
// for never.
func (f *Filler) reconcile(ctx context.Context, id string) (time.Time, error) {
	d, err := f.assess(ctx, id)
	if err != nil {
		return time.Time{}, err
	}
	outdatedAt := f.cancelOutdated(d.r)
	resetAt := d.breaker.recoversAt(time.Now())
	if d.counts.creating > 0 {
		resetAt = time.Time{} // the result of the creation counts
	}
	if !resetAt.IsZero() && !resetAt.After(time.Now()) {
		f.recordRecovery(ctx, d.breaker, true)
		d.breaker, resetAt = Breaker{Workload: id}, time.Time{}
	}
	if d.r.Draining {
		return outdatedAt, f.drain(ctx, d.r, d.counts)
	}
	if err := f.evictSurplus(ctx, d); err != nil {
		return outdatedAt, err
	}
	if d.missing > 0 && (d.room > 0 || d.counts.outdated+d.counts.tenantBound > 0) {
		f.creations.Add(id)
	}
	return earlier(f.evictExpired(ctx, d.w, d.r, d.counts), earlier(resetAt, outdatedAt)), nil
}

// create creates a container if the pool still needs one, and makes room for
// it. The pool can need another one while it is created.
func (f *Filler) create(ctx context.Context, t *workqueue.Task[string]) error {
	d, err := f.assess(ctx, t.Key)
	d.missing -= d.served // the end of a reservation wakes the pool
	if err != nil || d.r.Draining || d.missing <= 0 {
		return f.logFailure(ctx, t.Key, err)
	}
	if until := f.postponed(d); !until.IsZero() {
		f.creations.AddAfter(t.Key, time.Until(until))
		return nil
	}
	if err := f.makeRoom(ctx, d); err != nil || d.room <= 0 {
		return f.logFailure(ctx, t.Key, err) // the end of a removal wakes the pool
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c := newContainer(d.r)
	release := f.hold(c, cancel)
	if err := f.store.AddContainer(ctx, c, d.r.MaxSize); err != nil {
		release()
		f.sweeps.WakeAfter(sweepDelay) // it may be on record nevertheless, or its event wakes the sweep
		if errors.Is(err, ErrFull) {
			return nil
		}
		if errors.Is(err, ErrWorkloadNotFound) {
			f.Wake(t.Key) // if it was applied again, its check has counted this creation; the next one has its revision
			return nil
		}
		return f.logFailure(ctx, t.Key, fmt.Errorf("record the container: %w", err))
	}
	f.yielder.restart(t.Key)
	if d.missing > 1 {
		f.creations.Add(t.Key)
	}
	t.Detach()
	defer f.Wake(t.Key) // also if the result could not be recorded, and so has no event
	defer f.sweeps.WakeAfter(sweepDelay)
	defer release()
	f.provision(ctx, c, d.w, d.r.Dir)
	return nil
}

// postponed returns until when no container of a pool is created; zero: one can
// be created now.
func (f *Filler) postponed(d demand) time.Time {
	b := d.breaker.of(d.r.Revision)
	if b.isOpen(time.Now()) {
		f.yielder.forget(d.r.ID)
		return b.RetryAt
	}
	if b.Failures > 0 && d.counts.creating >= halfOpenProbes {
		f.yielder.forget(d.r.ID)
		return time.Now().Add(maxBackoff) // the end of the creation wakes the pool earlier
	}
	if d.waiting > 0 {
		return time.Time{}
	}
	return f.yielder.until(d.r.ID, d.counts.usable, d.r.MinIdle)
}

// logFailure logs the error of a check or creation and returns it, so that it is
// retried. A pool that does not exist any more needs nothing.
func (f *Filler) logFailure(ctx context.Context, id string, err error) error {
	if err == nil || errors.Is(err, ErrWorkloadNotFound) {
		return nil
	}
	if ctx.Err() == nil {
		f.log.Error("filling pool failed; retrying", "workload", id, "error", err)
	}
	return err
}

// earlier returns the earlier of two times; zero is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// recordSuccess resets the breaker of a container's revision, unless that is
// crash-looping.
func (f *Filler) recordSuccess(ctx context.Context, c Container) {
	b, err := f.store.Breaker(context.WithoutCancel(ctx), c.Workload)
	if err != nil {
		f.log.Error("reading the failures of a pool failed", "workload", c.Workload, "error", err)
		return
	}
	if b = b.of(c.Revision); b.Failures > 0 && !b.CrashLooping {
		f.recordRecovery(ctx, b, false)
	}
}

// recordRecovery resets a breaker that was read, and writes an event. A failure
// that was recorded since counts, and so does one that makes the workload
// crash-looping.
func (f *Filler) recordRecovery(ctx context.Context, read Breaker, crashLooping bool) {
	f.updateBreaker(ctx, read.Workload, func(b *Breaker) []activity.Event {
		if b.Failures == 0 || b.Revision != read.Revision || b.CrashLooping != crashLooping || crashLooping && b.LastErrorAt.After(read.LastErrorAt) {
			return nil
		}
		failures := b.Failures
		*b = Breaker{Workload: b.Workload}
		return []activity.Event{{
			Type: activity.PoolRecovered, Workload: b.Workload,
			Message: fmt.Sprintf("container creation succeeded after %d failures", failures),
		}}
	})
}

// recordFailure counts a failure of the current revision in the workload's
// breaker, and reports it.
func (f *Filler) recordFailure(ctx context.Context, c Container, cause failure, crashLooping bool) {
	now, failures := time.Now().UTC(), 0
	cause.container = c.ID
	f.updateBreaker(ctx, c.Workload, func(b *Breaker) []activity.Event {
		if !b.recordFailure(now, c.Revision, cause, crashLooping) {
			return nil
		}
		failures = b.Failures
		return []activity.Event{{
			Type: activity.PoolWarning, Workload: c.Workload, Container: c.ID,
			Message: "container creation failed: " + cause.reason,
			Data: activity.Data(activity.PoolWarningData{
				Chain: cause.chain, Failures: b.Failures, NextTry: b.RetryAt.UTC().Truncate(time.Second), Revision: c.Revision,
			}),
		}}
	})
	f.log.Warn("container creation failed; retrying", "workload", c.Workload, "container", c.ID, "failures", failures,
		"error", strings.Join(append(slices.Clone(cause.chain), cause.reason), ": "))
}

// updateBreaker changes a breaker and logs an error.
func (f *Filler) updateBreaker(ctx context.Context, workload string, set func(*Breaker) []activity.Event) {
	if err := f.store.UpdateBreaker(context.WithoutCancel(ctx), workload, set); err != nil {
		f.log.Error("recording the failures of a pool failed", "workload", workload, "error", err)
	}
}
