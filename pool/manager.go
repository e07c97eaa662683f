package pool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/workload"
)

// Manager has the operations of an operator on workloads, pools and containers.
type Manager struct {
	store     Store
	rt        runtime.Runtime
	pools     *Pools
	checkSink func(ctx context.Context, sync *workload.Sync) error
}

// Apply adds or changes a workload. Its pool is rolled over to the new revision
// gradually; claims are not affected. file is the name of the source in errors,
// dir is the directory that its seeds are relative to, empty for none.
// Applying the same file again changes nothing. An invalid file is a
// workload.ValidationErrors.
func (m *Manager) Apply(ctx context.Context, source []byte, file, dir string) (Applied, error) {
	w, err := m.accept(ctx, source, file, dir)
	if err != nil {
		return Applied{}, err
	}
	for range maxConflictRetries {
		applied, err := m.apply(ctx, w, dir)
		if !errors.Is(err, ErrConflict) {
			return applied, err
		}
	}
	return Applied{}, fmt.Errorf("change workload %s: %w %d times", w.ID, ErrConflict, maxConflictRetries)
}

// accept returns the workload of a file that this server can run.
func (m *Manager) accept(ctx context.Context, source []byte, file, dir string) (*workload.Workload, error) {
	w, err := workload.Parse(source, file)
	if err != nil {
		return nil, err
	}
	if w, err = m.withCopiedHooks(ctx, w, file); err != nil {
		return nil, err
	}
	return w, m.validateForServer(ctx, w, file, dir)
}

// maxConflictRetries is how often a change is tried if others conflict with it.
const maxConflictRetries = 10

// apply tries once. It returns ErrConflict if another change came first.
func (m *Manager) apply(ctx context.Context, w *workload.Workload, dir string) (Applied, error) {
	c, err := m.changeOf(ctx, w, dir)
	if err != nil || !c.isChange {
		return Applied{Record: c.before}, err
	}
	if err := m.store.PutWorkload(ctx, c.after, c.events...); err != nil {
		return Applied{}, fmt.Errorf("store workload %s: %w", w.ID, err)
	}
	m.pools.Catalog.Invalidate(w.ID) // also by the event, perhaps after the caller's next request
	after, err := m.store.Workload(ctx, w.ID)
	if err != nil {
		return Applied{}, fmt.Errorf("read workload %s: %w", w.ID, err)
	}
	return Applied{Record: after, Created: c.isNew, Changed: true}, nil
}

// recordChange is what applying a workload does to its record.
type recordChange struct {
	before, after   Record
	isNew, isChange bool
	events          []activity.Event
}

// changeOf returns what applying w does to the record that there is now.
func (m *Manager) changeOf(ctx context.Context, w *workload.Workload, dir string) (recordChange, error) {
	before, err := m.store.Workload(ctx, w.ID)
	isNew := errors.Is(err, ErrWorkloadNotFound)
	if err != nil && !isNew {
		return recordChange{}, fmt.Errorf("read workload %s: %w", w.ID, err)
	}
	if !isNew && string(before.Source) == string(w.Source) && before.Dir == dir && !before.Draining {
		return recordChange{before: before, after: before}, nil
	}
	c := recordChange{before: before, isNew: isNew, isChange: true, after: Record{
		ID: w.ID, Revision: w.Revision, Source: w.Source, Dir: dir,
		MinIdle: w.Pool.MinIdle, MaxSize: w.Pool.MaxSize, EventHooks: eventHooks(w, before),
		SharedMemory: w.SharedMemory,
	}}
	if isNew {
		c.events = []activity.Event{
			{Type: activity.WorkloadApplied, Workload: w.ID, Message: "workload added"},
			{Type: activity.PoolCreated, Workload: w.ID, Message: fmt.Sprintf(
				"pool created with min_idle %d and max_size %d", c.after.MinIdle, c.after.MaxSize)},
		}
		return c, nil
	}
	preserveScale(&c.after, before, w.ID)
	c.events = []activity.Event{{
		Type: activity.WorkloadApplied, Workload: w.ID, Message: "workload changed",
		Data: activity.Data(activity.WorkloadAppliedData{Revision: w.Revision, PreviousRevision: before.Revision}),
	}}
	return c, nil
}

// eventHooks returns the event hooks of w. One that was there before has seen
// events since then.
func eventHooks(w *workload.Workload, before Record) map[string]int64 {
	var all map[string]int64
	for _, h := range w.EventHooks {
		if all == nil {
			all = map[string]int64{}
		}
		all[h.Name] = NewEventHook
		if since, ok := before.EventHooks[h.Name]; ok {
			all[h.Name] = since
		}
	}
	return all
}

// preserveScale keeps the scale that an operator has set, unless the bounds in
// the file have changed.
func preserveScale(after *Record, before Record, id string) {
	after.CreatedAt, after.UpdatedAt = before.CreatedAt, before.UpdatedAt
	old, err := workload.Parse(before.Source, id)
	if err == nil && old.Pool.MinIdle == after.MinIdle && old.Pool.MaxSize == after.MaxSize && !before.Draining {
		after.MinIdle, after.MaxSize = before.MinIdle, before.MaxSize
	}
}

// Delete drains the workload's pool and marks the workload to be removed when
// its last container is destroyed. Claims are not affected.
func (m *Manager) Delete(ctx context.Context, id string) error {
	return m.updateRecord(ctx, id, activity.Event{
		Type: activity.PoolDrained, Workload: id, Message: "pool draining; it will be deleted",
	}, func(r *Record) error {
		r.Draining, r.Deleting = true, true
		return nil
	})
}

// Drain destroys the idle containers of a pool and creates no more, until the
// pool is scaled or its workload is applied again. Claims are not affected;
// their containers are destroyed when they are released.
func (m *Manager) Drain(ctx context.Context, id string) (Status, error) {
	err := m.updateRecord(ctx, id, activity.Event{
		Type: activity.PoolDrained, Workload: id, Message: "pool draining",
	}, func(r *Record) error {
		r.Draining = true
		return nil
	})
	if err != nil {
		return Status{}, err
	}
	return m.Status(ctx, id)
}

// ErrInvalidScale is returned if the bounds of a pool are invalid.
var ErrInvalidScale = errors.New("invalid scale")

// MaxPoolSize is the largest max_size, as in a workload file.
const MaxPoolSize = 100000

// Scale changes the bounds of a pool and ends its draining. Idle containers
// above the new bounds are destroyed; claims are not affected.
func (m *Manager) Scale(ctx context.Context, id string, s Scale) (Status, error) {
	var before, after Record
	err := m.updateRecord(ctx, id, activity.Event{Type: activity.PoolScaled, Workload: id}, func(r *Record) error {
		before = *r
		if s.MinIdle != nil {
			r.MinIdle = *s.MinIdle
		}
		if s.MaxSize != nil {
			r.MaxSize = *s.MaxSize
		}
		if r.MinIdle < 0 || r.MaxSize < 1 || r.MaxSize > MaxPoolSize || r.MinIdle > r.MaxSize {
			return fmt.Errorf("%w: min_idle %d and max_size %d: must be 0 <= min_idle <= max_size and 1 <= max_size <= %d",
				ErrInvalidScale, r.MinIdle, r.MaxSize, MaxPoolSize)
		}
		if r.Deleting {
			return fmt.Errorf("%w: the workload is being deleted; apply it again", ErrInvalidScale)
		}
		r.Draining = false
		after = *r
		return nil
	})
	if err != nil {
		return Status{}, err
	}
	if after.MinIdle < before.MinIdle {
		if err := m.scaleDown(ctx, after); err != nil {
			return Status{}, err
		}
	}
	return m.Status(ctx, id)
}

// scaleDown destroys idle containers above min_idle.
func (m *Manager) scaleDown(ctx context.Context, r Record) error {
	idle, err := m.store.Containers(ctx, ContainerFilter{Workload: r.ID, States: []State{Idle}})
	if err != nil {
		return fmt.Errorf("list the idle containers: %w", err)
	}
	for _, c := range idle[:max(0, len(idle)-r.MinIdle)] {
		if m.rt.Protocols().IsNewer(c.Protocol) {
			continue
		}
		if _, err := m.store.UpdateContainer(ctx, BeginDestroy(c.ID, []State{Idle}, "the pool was scaled down")); err != nil && !isConflict(err) {
			return fmt.Errorf("begin to destroy container %s: %w", c.ID, err)
		}
	}
	return nil
}

// updateRecord changes a workload's record. An event without a message gets one
// with the new bounds.
func (m *Manager) updateRecord(ctx context.Context, id string, e activity.Event, set func(*Record) error) error {
	for range maxConflictRetries {
		if err := m.updateRecordOnce(ctx, id, e, set); !errors.Is(err, ErrConflict) {
			return err
		}
	}
	return fmt.Errorf("change workload %s: %w %d times", id, ErrConflict, maxConflictRetries)
}

func (m *Manager) updateRecordOnce(ctx context.Context, id string, e activity.Event, set func(*Record) error) error {
	r, err := m.store.Workload(ctx, id)
	if err != nil {
		return err
	}
	before := r
	if err := set(&r); err != nil {
		return err
	}
	if e.Message == "" {
		e.Message = fmt.Sprintf("pool scaled to min_idle %d and max_size %d", r.MinIdle, r.MaxSize)
		e.Data = activity.Data(activity.PoolScaledData{
			MinIdle: r.MinIdle, MaxSize: r.MaxSize,
			PreviousMinIdle: before.MinIdle, PreviousMaxSize: before.MaxSize,
		})
	}
	if err := m.store.PutWorkload(ctx, r, e); err != nil {
		return fmt.Errorf("store workload %s: %w", id, err)
	}
	return nil
}

// Workload returns one record, or ErrWorkloadNotFound.
func (m *Manager) Workload(ctx context.Context, id string) (Record, error) {
	return m.store.Workload(ctx, id)
}

// Workloads lists the records by id.
func (m *Manager) Workloads(ctx context.Context) ([]Record, error) { return m.store.Workloads(ctx) }

// Container returns one record, also of a destroyed container, or
// ErrContainerNotFound.
func (m *Manager) Container(ctx context.Context, id string) (Container, error) {
	return m.store.Container(ctx, id)
}

// Containers lists the records that match.
func (m *Manager) Containers(ctx context.Context, f ContainerFilter) ([]Container, error) {
	return m.store.Containers(ctx, f)
}

// Logs returns the output of a container's main process, at most tail bytes,
// and nothing from before the container was last wiped for a claim. Of a container
// that is gone it returns what was kept, which is ErrNoOutput unless it failed. It
// returns ErrContainerNotFound if there is no record. The caller must close the
// reader.
func (m *Manager) Logs(ctx context.Context, id string, tail int64) (io.ReadCloser, error) {
	c, err := m.store.Container(ctx, id)
	if err != nil {
		return nil, err
	}
	if c.State == Destroyed || c.Forced == ForcedDone {
		return m.keptLogs(ctx, c, tail)
	}
	var since time.Time
	if c.WipedAt != nil {
		since = *c.WipedAt
	}
	logs, err := m.rt.Logs(ctx, id, since, tail)
	if errors.Is(err, runtime.ErrNotFound) {
		return m.keptLogs(ctx, c, tail)
	}
	return logs, err
}

// Status returns the current status of a pool, or ErrWorkloadNotFound.
func (m *Manager) Status(ctx context.Context, id string) (Status, error) {
	r, err := m.store.Workload(ctx, id)
	if err != nil {
		return Status{}, err
	}
	counts, err := m.store.Counts(ctx, id)
	if err != nil {
		return Status{}, fmt.Errorf("count the containers of %s: %w", id, err)
	}
	waitingOnPeers, err := m.store.Waiting(ctx, id)
	if err != nil {
		return Status{}, err
	}
	kept, err := m.store.Kept(ctx, id)
	if err != nil {
		return Status{}, err
	}
	s := Status{
		Kept:     kept,
		Workload: id, Revision: r.Revision, MinIdle: r.MinIdle, MaxSize: r.MaxSize,
		Containers: map[State]int{Creating: 0, Idle: 0, Claimed: 0, Destroying: 0},
		Waiting:    m.pools.Queue.Waiting(id) + waitingOnPeers, Deleting: r.Deleting,
	}
	t := summarize(counts, r.Revision, m.rt.Protocols().Current, "")
	creating := t.creating
	s.Newer = t.newer
	for _, k := range counts {
		s.Containers[k.State] += k.N
		outdated := k.Revision != r.Revision || k.Protocol < m.rt.Protocols().Current
		if outdated && (k.State == Idle || k.State == Claimed) {
			s.Outdated += k.N
		}
	}
	b, err := m.store.Breaker(ctx, id)
	if err != nil {
		return Status{}, err
	}
	s.Fill = b.Fill(r.Revision, creating, r.Draining)
	return s, nil
}

// Statuses returns the status of every pool, ordered by workload id.
func (m *Manager) Statuses(ctx context.Context) ([]Status, error) {
	all, err := m.store.Workloads(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the workloads: %w", err)
	}
	statuses := make([]Status, 0, len(all))
	for _, r := range all {
		s, err := m.Status(ctx, r.ID)
		if errors.Is(err, ErrWorkloadNotFound) {
			continue // deleted in between
		}
		if err != nil {
			return nil, err
		}
		statuses = append(statuses, s)
	}
	return statuses, nil
}
