package pool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/workload"
)

// How many containers are created concurrently, in total and of one workload.
// An engine serializes most of the work, so more would only take longer each.
// One workload may not use all slots, because its image may hang.
const (
	parallelCreates    = 8
	createsPerWorkload = 4
)

// createTimeout limits how long creating one container may take in addition to
// the timeouts of its hooks. It ends an engine call that hangs, and the wait
// for a container that never becomes healthy.
const createTimeout = 15 * time.Minute

// Filler keeps the pools filled. Every change of a pool wakes it. A timer wakes
// it only for retries and expiries.
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
	reaper      *Reaper
	queue       *WaitQueue
	breakers    *breakers
	protocol    int // of the containers that it creates
	log         *slog.Logger
	wake        chan struct{} // buffers one signal: dirty is not empty

	mu                 sync.Mutex           // guards the fields below
	dirty              map[string]bool      // pools to be checked
	retryAt            map[string]time.Time // when to check a pool again
	claims             int                  // claims in progress on this server
	lastClaim          time.Time            // when the last one ended
	yieldingSince      map[string]time.Time // pools that yield to them
	creating           int                  // containers being created
	creatingByWorkload map[string]int       // the same, by workload
}

// Store is everything that the pool needs from the database.
type Store interface {
	Containers
	Workloads
	EventLog
}

// NewFiller returns a Filler; it creates nothing before Run.
func NewFiller(store Store, catalog *Catalog, provisioner *Provisioner, reaper *Reaper, queue *WaitQueue, log *slog.Logger) *Filler {
	return &Filler{
		store: store, catalog: catalog, provisioner: provisioner, reaper: reaper, queue: queue, log: log,
		breakers: newBreakers(), protocol: provisioner.rt.Protocols().Current, wake: make(chan struct{}, 1),
		dirty: map[string]bool{}, retryAt: map[string]time.Time{}, yieldingSince: map[string]time.Time{}, creatingByWorkload: map[string]int{},
	}
}

// Wake requests a check of the workload's pool. It never blocks.
func (f *Filler) Wake(workload string) {
	f.mu.Lock()
	f.dirty[workload] = true
	f.mu.Unlock()
	f.signal()
}

// Run fills the pools until ctx ends. It returns when no container is being
// created; the creation of a container is aborted when ctx ends.
func (f *Filler) Run(ctx context.Context) error {
	var creating errgroup.Group
	defer creating.Wait() //nolint:errcheck // the functions return nil
	if err := f.wakeAll(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		for _, id := range f.popDirty() {
			retryAt, err := f.fill(ctx, &creating, id)
			if err != nil && ctx.Err() == nil {
				f.log.Error("filling pool failed; retrying", "workload", id, "error", err)
				retryAt = time.Now().Add(minBackoff)
			}
			f.scheduleRetry(id, retryAt)
		}
		timer.Reset(time.Until(f.nextRetry()))
		select {
		case <-ctx.Done():
			return nil
		case <-f.wake:
		case <-timer.C:
			f.markRetriesDue(time.Now())
		}
	}
}

// wakeAll marks every pool as to be checked.
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

// popDirty returns the pools to be checked and clears the set.
func (f *Filler) popDirty() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	ids := make([]string, 0, len(f.dirty))
	for id := range f.dirty {
		ids = append(ids, id)
	}
	clear(f.dirty)
	return ids
}

// scheduleRetry sets when to check a pool again; zero: only when it is woken.
func (f *Filler) scheduleRetry(id string, at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if at.IsZero() {
		delete(f.retryAt, id)
		return
	}
	f.retryAt[id] = at
}

// nextRetry returns the time of the earliest retry.
func (f *Filler) nextRetry() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	next := time.Now().Add(time.Hour)
	for _, at := range f.retryAt {
		if at.Before(next) {
			next = at
		}
	}
	return next
}

// markRetriesDue marks the pools whose retry is due as to be checked.
func (f *Filler) markRetriesDue(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, at := range f.retryAt {
		if !at.After(now) {
			f.dirty[id] = true
		}
	}
}

// fill reconciles one pool with its record. It returns when to check the pool
// again even if it is not woken; zero for never.
func (f *Filler) fill(ctx context.Context, creating *errgroup.Group, id string) (time.Time, error) {
	w, r, err := f.catalog.Current(ctx, id)
	if errors.Is(err, ErrWorkloadNotFound) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, err
	}
	counts, err := f.store.Counts(ctx, id)
	if err != nil {
		return time.Time{}, fmt.Errorf("count the containers: %w", err)
	}
	t := summarize(counts, r.Revision, f.protocol, w.Pool.Reuse)
	recovered, resetAt := f.breakers.reset(id)
	f.recordRecovery(ctx, id, recovered)
	if r.Draining {
		return time.Time{}, f.drain(ctx, r, t)
	}
	waitingOnPeers, err := f.store.Waiting(ctx, id)
	if err != nil {
		return time.Time{}, err
	}
	waiting := f.queue.Waiting(id) + waitingOnPeers
	missing := r.MinIdle + waiting - t.usable - t.creating
	kept, err := f.store.Kept(ctx, id)
	if err != nil {
		return time.Time{}, err
	}
	room := r.MaxSize - EffectiveSize(t.total, kept, r.MaxSize)
	if err := f.evictSurplus(ctx, r, t, missing, room); err != nil {
		return time.Time{}, err
	}
	retryAt := earlier(f.evictExpired(ctx, w, r, t), resetAt)
	n := min(missing, room)
	if n <= 0 {
		return retryAt, nil
	}
	if k := f.breakers.get(id, r.Revision); k.failures > 0 {
		if wait := time.Until(k.retryAt); wait > 0 {
			return earlier(k.retryAt, retryAt), nil
		}
		n = min(n, halfOpenProbes-t.creating)
	}
	if waiting == 0 {
		until, share := f.yield(id, time.Now())
		if !until.IsZero() {
			return earlier(until, retryAt), nil
		}
		n = min(n, share)
	}
	return retryAt, f.startProvisioning(ctx, creating, w, r, n)
}

// earlier returns the earlier of two times; zero is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// maxHooksDuration returns how long hooks may take at most, with all retries.
func maxHooksDuration(hs []hooks.Hook) time.Duration {
	total := time.Duration(0)
	for _, h := range hs {
		total += time.Duration(h.Retries+1) * (h.Timeout + runtime.DefaultGrace + time.Minute)
	}
	return total
}

// recordEarlyExit counts a failure if a container exited or became unhealthy
// soon after its creation, before its first claim: a program that exits at once
// is as broken as a missing image.
func (f *Filler) recordEarlyExit(ctx context.Context, c Container) {
	if c.State == Idle && c.Tenant == "" && time.Since(c.ChangedAt) < stableAfter {
		f.recordFailure(ctx, c, errors.New(c.Reason), true)
		f.queue.NotifyAll(c.Workload)
	}
}

// startProvisioning records and creates up to n containers, limited by the free
// slots. The end of each wakes the pool again.
func (f *Filler) startProvisioning(ctx context.Context, creating *errgroup.Group, w *workload.Workload, r Record, n int) error {
	for range n {
		if !f.acquireSlot(r.ID) {
			return nil
		}
		c, err := f.provisioner.record(ctx, r)
		if err != nil {
			f.releaseSlot(r.ID)
			if errors.Is(err, ErrFull) {
				return nil
			}
			return fmt.Errorf("record the container: %w", err)
		}
		creating.Go(func() error {
			defer f.releaseSlot(r.ID)
			f.provision(ctx, c, w, r.Dir)
			return nil
		})
	}
	return nil
}

// provision creates one container and notifies the queue of the result.
func (f *Filler) provision(parent context.Context, c Container, w *workload.Workload, seeds string) {
	timeout := createTimeout + maxHooksDuration(w.Hooks[hooks.PostCreate])
	ctx, cancel := context.WithTimeoutCause(parent, timeout, fmt.Errorf("it took longer than %s", timeout))
	defer cancel()
	err := f.provisioner.create(ctx, c, w, seeds)
	switch {
	case err == nil:
		f.recordRecovery(ctx, c.Workload, f.breakers.recordSuccess(c.Workload))
		f.queue.NotifyFirst(c.Workload)
	case parent.Err() != nil:
		f.reaper.Wake() // the server stops: this is not a failure of the workload
	default:
		f.recordFailure(parent, c, err, false)
		f.reaper.Wake()
		f.queue.NotifyAll(c.Workload)
	}
	f.Wake(c.Workload)
}

// recordRecovery writes an event when a breaker was closed.
func (f *Filler) recordRecovery(ctx context.Context, workload string, k breaker) {
	if k.failures == 0 {
		return
	}
	f.appendEvent(ctx, activity.Event{
		Type: activity.PoolRecovered, Workload: workload,
		Message: fmt.Sprintf("container creation succeeded after %d failures", k.failures),
	})
}

// recordFailure counts a failure in the workload's breaker and reports it.
func (f *Filler) recordFailure(ctx context.Context, c Container, err error, crashLooping bool) {
	k := f.breakers.recordFailure(c.Workload, c.Revision, err, crashLooping)
	f.log.Warn("container creation failed; retrying", "workload", c.Workload, "container", c.ID, "failures", k.failures, "error", err)
	f.appendEvent(ctx, activity.Event{
		Type: activity.PoolWarning, Workload: c.Workload, Container: c.ID,
		Message: "container creation failed: " + err.Error(),
		Data: activity.Data(activity.PoolWarningData{
			Failures: k.failures, NextTry: k.retryAt.UTC().Truncate(time.Second), Revision: c.Revision,
		}),
	})
}

// appendEvent writes an event of the pool and logs an error.
func (f *Filler) appendEvent(ctx context.Context, e activity.Event) {
	if err := f.store.Append(context.WithoutCancel(ctx), e); err != nil {
		f.log.Error("writing event failed", "workload", e.Workload, "error", err)
	}
}

// acquireSlot reports whether it acquired a slot for creating a container. If
// there is none, the pool is checked again as soon as a slot is free.
func (f *Filler) acquireSlot(id string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.creating >= parallelCreates || f.creatingByWorkload[id] >= createsPerWorkload {
		f.dirty[id] = true
		return false
	}
	f.creating++
	f.creatingByWorkload[id]++
	return true
}

// releaseSlot releases a slot and wakes the loop if a pool waits for one.
func (f *Filler) releaseSlot(id string) {
	f.mu.Lock()
	f.creating--
	if f.creatingByWorkload[id]--; f.creatingByWorkload[id] == 0 {
		delete(f.creatingByWorkload, id)
	}
	waiting := len(f.dirty) > 0
	f.mu.Unlock()
	if waiting {
		f.signal()
	}
}

func (f *Filler) signal() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}
