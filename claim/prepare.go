package claim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/workload"
)

// load reads the revision of the reserved container and plans the preparation.
func (a *acquisition) load(ctx context.Context) error {
	if err := a.readRevision(ctx); err != nil {
		return err
	}
	if err := a.reach(ctx); err != nil {
		return err
	}
	if err := a.endEventCommands(ctx); err != nil {
		return err
	}
	a.changed, a.restarted, a.latest, a.holds = false, false, snapshot.Snapshot{}, ""
	return a.replan(a.contents())
}

// The bounds of how long a container may take to be reached: the remaining wait time
// of the caller, but neither more nor less than these.
const (
	minReach = 2 * time.Second
	maxReach = 5 * time.Second
)

var errReachTimeout = fmt.Errorf("%w: it did not respond in time", runtime.ErrUnresponsive)

// reach checks that the container can be reached: nothing else may need it before
// the claim is active. While its session is open, that costs nothing. If the engine
// responds and the container does not, it is errUnreached, unless it is the tenant's
// own.
func (a *acquisition) reach(ctx context.Context) error {
	limited, cancel := context.WithTimeoutCause(ctx, min(max(time.Until(a.waitsUntil), minReach), maxReach), errReachTimeout)
	defer cancel()
	err := a.rt.Reach(limited, a.claim.Container)
	if !errors.Is(err, runtime.ErrUnavailable) || errors.Is(err, runtime.ErrNewer) || a.claim.Source == Affinity || ctx.Err() != nil {
		return err
	}
	asked, cancel := context.WithTimeoutCause(ctx, maxReach, errReachTimeout)
	defer cancel()
	if _, statusErr := a.rt.Status(asked, a.claim.Container); statusErr != nil {
		return err // an outage of the engine says nothing about the container
	}
	return fmt.Errorf("%w: %w", errUnreached, err)
}

// endEventCommands waits until no command of an event hook runs in the
// container: those for an event without a claim run in idle ones.
func (a *acquisition) endEventCommands(ctx context.Context) error {
	if !a.claim.EventCommands {
		return nil
	}
	tainted, err := a.runner.AwaitEventHooks(ctx, a.claim.Container)
	if err == nil && tainted != "" {
		err = fmt.Errorf("%w: %s", runtime.ErrTainted, tainted)
	}
	return err
}

// readRevision reads the revision of the claim's container.
func (a *acquisition) readRevision(ctx context.Context) error {
	w, r, err := a.pools.Catalog.Revision(ctx, a.claim.Workload, a.claim.Revision)
	a.w, a.seedDir = w, r.Dir
	return err
}

// replan sets the plan.
func (a *acquisition) replan(c contents) (err error) {
	a.plan, err = newPlan(c, a.current.Restart)
	return err
}

// contents returns what the container holds, before compare.
func (a *acquisition) contents() contents {
	return contents{source: a.claim.Source, synced: a.hasSyncOnClaim()}
}

func (a *acquisition) needsCompare() bool { return a.contents().needsCompare(a.hasSeeds()) }

// hasSeeds reports whether the workload has a volume with a seed.
func (a *acquisition) hasSeeds() bool {
	return slices.ContainsFunc(a.w.Volumes, func(v workload.Volume) bool { return v.Seed != "" })
}

// hasSyncOnClaim reports whether claims download the tenant's state.
func (a *acquisition) hasSyncOnClaim() bool { return a.w.Sync != nil && a.w.Sync.Policy.OnClaim }

// compare checks whether the container holds the tenant's current snapshot.
func (a *acquisition) compare(ctx context.Context) error {
	current, err := a.StateSync.currentSnapshot(ctx, a.claim, a.w)
	if err != nil {
		return classifySyncError("download", err)
	}
	a.latest = current
	if a.claim.Source != Affinity {
		return nil
	}
	container, err := a.pools.Container(ctx, a.claim.Container)
	if err != nil {
		return err
	}
	c := a.contents()
	c.stale = current.ID != container.Snapshot
	if c.known = c.stale && container.Snapshot != "" && current.CanUpdate(a.w.Sync); c.known {
		a.holds = container.Snapshot
	}
	return a.replan(c)
}

// stop ends every process in the tenant's own container, whose files are then
// replaced. From here on it holds no snapshot.
func (a *acquisition) stop(ctx context.Context) error {
	if _, err := a.pools.RecordUpdating(ctx, a.claim.Container); err != nil {
		return err
	}
	a.changed = true
	return a.StateSync.stop(ctx, a.claim)
}

// wipe empties a container that held another tenant or outdated state of this
// one. It runs after the reservation, so that no other claim can get the
// container during the wipe. A container that cannot be verified clean is
// discarded.
func (a *acquisition) wipe(ctx context.Context) error {
	a.changed = true
	if err := a.rt.Wipe(ctx, a.claim.Container, a.claim.ContainerFence); err != nil {
		return err
	}
	_, err := a.pools.RecordWiped(ctx, a.claim.Container, a.claim.Tenant)
	return err
}

// download copies the tenant's state into the container.
func (a *acquisition) download(ctx context.Context) error {
	c, transfer, err := a.StateSync.download(ctx, a.claim, a.w, a.holds)
	a.claim = c
	a.changed = a.changed || transfer.Sent > 0 || transfer.Files > 0
	if err == nil && a.needsCompare() && transfer.Snapshot.ID != a.latest.ID {
		return fmt.Errorf("the tenant's current snapshot became %s after the container was seeded for %q", transfer.Snapshot.ID, a.latest.ID)
	}
	return classifySyncError("download", err)
}

// seed copies the seed files into the volumes, except for paths that the
// tenant's snapshot covers, which includes removed files. It runs before the
// download, whose files take precedence.
func (a *acquisition) seed(ctx context.Context) error {
	var covered func(string) bool
	if a.hasSyncOnClaim() {
		covered = func(path string) bool { return a.latest.Covers(a.w.Sync, path) }
	}
	seeded, err := pool.Seed(ctx, a.rt, a.claim.Container, a.claim.ContainerFence, a.w, a.seedDir, covered)
	a.changed = a.changed || seeded || err != nil
	return err
}

// restart restarts the main process with the current files, and with the
// environment of the claim.
func (a *acquisition) restart(ctx context.Context) error {
	changed := a.changed
	a.changed, a.restarted = true, true
	a.pools.Health.MarkRestarted(a.claim.Container)
	err := a.rt.RestartWith(ctx, a.claim.Container, a.claim.ContainerFence, a.request.Environment)
	if a.isUnsupported(err) {
		a.changed = changed
	}
	return err
}

// awaitHealthy waits until the container is healthy.
func (a *acquisition) awaitHealthy(ctx context.Context) error {
	if a.pools.Health.IsRecentlyHealthy(a.w, a.claim.Container) {
		return nil
	}
	_, err := a.pools.Health.Await(ctx, a.w, a.claim.Container)
	return err
}

// activeContainer is the container's part of the activation: a container that terminates,
// has exited or cannot be reached is refused, and the snapshot that it holds is recorded.
func (a *acquisition) activeContainer() *pool.Transition {
	note := pool.Note("", pool.Claimed, nil)
	note.If = func(c pool.Container) bool { return lossOf(c) == nil }
	if snapshotID := a.claim.Snapshot; snapshotID != "" {
		note.Set = func(c *pool.Container) { c.Snapshot = snapshotID }
	}
	return &note
}

// lossOf returns why a container cannot be used although no check of its health failed;
// nil if it can.
func lossOf(c pool.Container) error {
	switch {
	case c.IsTerminating():
		return pool.ErrTerminating
	case c.Health == pool.Exited, c.IsUnreachable():
		return fmt.Errorf("%w: %s", pool.ErrUnhealthy, c.Reason)
	}
	return nil
}
