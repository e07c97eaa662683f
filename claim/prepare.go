package claim

import (
	"context"
	"fmt"
	"slices"

	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/workload"
)

// The steps that make a reserved container ready for its tenant, up to its
// restart.

// needsCompare reports whether the tenant's current snapshot is looked up before
// anything is done to the container: for its own last one, which may hold
// something else; and for one that is seeded, which must not be begun with while
// the sink is away.
func (a *acquisition) needsCompare() bool {
	return a.hasSyncOnClaim() && (a.claim.Source == Affinity || a.hasSeeds())
}

// hasSeeds reports whether the workload has a volume with a seed.
func (a *acquisition) hasSeeds() bool {
	return slices.ContainsFunc(a.w.Volumes, func(v workload.Volume) bool { return v.Seed != "" })
}

// hasSyncOnClaim says whether claims put the tenants' state in.
func (a *acquisition) hasSyncOnClaim() bool { return a.w.Sync != nil && a.w.Sync.Policy.OnClaim }

// compare asks whether the tenant's state has moved on without the container.
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

// wipe empties a container that held another tenant, or what is no longer the
// tenant's state. It comes after the reservation, so that nobody can have
// claimed what is being wiped; what cannot be proven clean is given up.
func (a *acquisition) wipe(ctx context.Context) error {
	a.changed = true
	if err := a.rt.Wipe(ctx, a.claim.Container, a.claim.ContainerFence); err != nil {
		return err
	}
	_, err := a.pools.RecordWiped(ctx, a.claim.Container, a.claim.Tenant)
	return err
}

// needsDownload says whether the tenant's state is to be put in.
func (a *acquisition) needsDownload() bool {
	return a.hasSyncOnClaim() && (a.claim.Source == Fresh || a.mustWipe)
}

// download puts the tenant's state in.
func (a *acquisition) download(ctx context.Context) error {
	c, transfer, err := a.StateSync.download(ctx, a.claim, a.w)
	a.claim = c
	a.changed = a.changed || transfer.Sent > 0 || transfer.Files > 0
	if err == nil && a.needsCompare() && transfer.Snapshot.ID != a.latest.ID {
		return fmt.Errorf("the tenant's current snapshot became %s after the container was seeded for %q", transfer.Snapshot.ID, a.latest.ID)
	}
	return classifySyncError("download", err)
}

// needsSeed says whether the volumes are empty: emptied just now, or never
// filled, where the pool has left that to the claim.
func (a *acquisition) needsSeed() bool {
	return a.mustWipe || a.claim.Source == Fresh && a.hasSyncOnClaim()
}

// seed fills the volumes with what every tenant begins with, but for what the
// tenant's own state says: also that a file is not there any more. It comes
// before the download, whose files win.
func (a *acquisition) seed(ctx context.Context) error {
	var covered func(string) bool
	if a.hasSyncOnClaim() {
		covered = func(path string) bool { return a.latest.Covers(a.w.Sync, path) }
	}
	seeded, err := pool.Seed(ctx, a.rt, a.claim.Container, a.w, a.seedDir, covered)
	a.changed = a.changed || seeded || err != nil
	return err
}

// restart starts the main process on the files as they are now.
func (a *acquisition) restart(ctx context.Context) error {
	a.changed = true
	a.pools.Health.MarkRestarted(a.claim.Container)
	return a.rt.Restart(ctx, a.claim.Container, a.claim.ContainerFence)
}

// snapshotTransition notes which state the container holds.
func (a *acquisition) snapshotTransition() *pool.Transition {
	if a.w == nil || a.w.Sync == nil {
		return nil
	}
	snapshotID := a.claim.Snapshot
	return &pool.Transition{
		From: []pool.State{pool.Claimed}, To: pool.Claimed,
		Set: func(c *pool.Container) {
			if snapshotID != "" {
				c.Snapshot = snapshotID
			}
		},
	}
}
