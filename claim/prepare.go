package claim

import (
	"context"
	"fmt"
	"slices"

	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/workload"
)

// The steps that prepare a reserved container for its tenant, up to its
// restart.

// needsCompare reports whether the tenant's current snapshot is looked up
// before the container is changed. That applies to the tenant's own last
// container, whose files may be outdated, and to a container that is seeded,
// because seeding must not start while the sink is unavailable.
func (a *acquisition) needsCompare() bool {
	return a.hasSyncOnClaim() && (a.claim.Source == Affinity || a.hasSeeds())
}

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
	container, err := a.pools.Container(ctx, a.claim.Container)
	if a.claim.Source == Affinity {
		a.mustWipe = current.ID != container.Snapshot
	}
	a.latest = current
	return err
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

// needsDownload reports whether the tenant's state must be downloaded.
func (a *acquisition) needsDownload() bool {
	return a.hasSyncOnClaim() && (a.claim.Source == Fresh || a.mustWipe)
}

// download copies the tenant's state into the container.
func (a *acquisition) download(ctx context.Context) error {
	c, transfer, err := a.StateSync.download(ctx, a.claim, a.w)
	a.claim = c
	a.changed = a.changed || transfer.Sent > 0 || transfer.Files > 0
	if err == nil && a.needsCompare() && transfer.Snapshot.ID != a.latest.ID {
		return fmt.Errorf("the tenant's current snapshot became %s after the container was seeded for %q", transfer.Snapshot.ID, a.latest.ID)
	}
	return classifySyncError("download", err)
}

// needsSeed reports whether the volumes are empty: wiped by this claim, or
// never seeded because the pool leaves seeding to the claim.
func (a *acquisition) needsSeed() bool {
	return a.mustWipe || a.claim.Source == Fresh && a.hasSyncOnClaim()
}

// seed copies the seed files into the volumes, except for paths that the
// tenant's snapshot covers, which includes removed files. It runs before the
// download, whose files take precedence.
func (a *acquisition) seed(ctx context.Context) error {
	var covered func(string) bool
	if a.hasSyncOnClaim() {
		covered = func(path string) bool { return a.latest.Covers(a.w.Sync, path) }
	}
	seeded, err := pool.Seed(ctx, a.rt, a.claim.Container, a.w, a.seedDir, covered)
	a.changed = a.changed || seeded || err != nil
	return err
}

// restart restarts the main process with the current files.
func (a *acquisition) restart(ctx context.Context) error {
	a.changed = true
	a.pools.Health.MarkRestarted(a.claim.Container)
	return a.rt.Restart(ctx, a.claim.Container, a.claim.ContainerFence)
}

// snapshotTransition records which snapshot the container holds.
func (a *acquisition) snapshotTransition() *pool.Transition {
	if a.w == nil || a.w.Sync == nil {
		return nil
	}
	snapshotID := a.claim.Snapshot
	note := pool.Note("", pool.Claimed, func(c *pool.Container) {
		if snapshotID != "" {
			c.Snapshot = snapshotID
		}
	})
	return &note
}
