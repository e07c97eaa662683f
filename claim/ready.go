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

// compares reports whether the tenant's current snapshot is looked up before
// anything is done to the container: for its own last one, which may hold
// something else; and for one that is seeded, which must not be begun with while
// the sink is away.
func (m *making) compares() bool {
	return m.synced() && (m.claim.Source == Affinity || m.seeded())
}

// seeded reports whether the workload has a volume with a seed.
func (m *making) seeded() bool {
	return slices.ContainsFunc(m.w.Volumes, func(v workload.Volume) bool { return v.Seed != "" })
}

// synced says whether claims put the tenants' state in.
func (m *making) synced() bool { return m.w.Sync != nil && m.w.Sync.Policy.OnClaim }

// compare asks whether the tenant's state has moved on without the container.
func (m *making) compare(ctx context.Context) error {
	current, err := m.Keeper.current(ctx, m.claim, m.w)
	if err != nil {
		return blame("download", err)
	}
	box, err := m.pools.Container(ctx, m.claim.Container)
	if m.claim.Source == Affinity {
		m.empty = current.ID != box.Snapshot
	}
	m.latest = current
	return err
}

// wipe empties a container that held another tenant, or what is no longer the
// tenant's state. It comes after the reservation, so that nobody can have
// claimed what is being wiped; what cannot be proven clean is given up.
func (m *making) wipe(ctx context.Context) error {
	m.changed = true
	if err := m.rt.Wipe(ctx, m.claim.Container, m.claim.ContainerFence); err != nil {
		return err
	}
	_, err := m.pools.Wiped(ctx, m.claim.Container, m.claim.Tenant)
	return err
}

// lacksState says whether the tenant's state is to be put in.
func (m *making) lacksState() bool { return m.synced() && (m.claim.Source == Fresh || m.empty) }

// download puts the tenant's state in.
func (m *making) download(ctx context.Context) error {
	c, transfer, err := m.Keeper.download(ctx, m.claim, m.w)
	m.claim = c
	m.changed = m.changed || transfer.Sent > 0 || transfer.Files > 0
	if err == nil && m.compares() && transfer.Snapshot.ID != m.latest.ID {
		return fmt.Errorf("the tenant's current snapshot became %s after the container was seeded for %q", transfer.Snapshot.ID, m.latest.ID)
	}
	return blame("download", err)
}

// lacksSeed says whether the volumes are empty: emptied just now, or never
// filled, where the pool has left that to the claim.
func (m *making) lacksSeed() bool {
	return m.empty || m.claim.Source == Fresh && m.synced()
}

// seed fills the volumes with what every tenant begins with, but for what the
// tenant's own state says: also that a file is not there any more. It comes
// before the download, whose files win.
func (m *making) seed(ctx context.Context) error {
	var covered func(string) bool
	if m.synced() {
		covered = func(path string) bool { return m.latest.Covers(m.w.Sync, path) }
	}
	seeded, err := pool.Seed(ctx, m.rt, m.claim.Container, m.w, m.seeds, covered)
	m.changed = m.changed || seeded || err != nil
	return err
}

// restart starts the main process on the files as they are now.
func (m *making) restart(ctx context.Context) error {
	m.changed = true
	m.pools.Health.Restarted(m.claim.Container)
	return m.rt.Restart(ctx, m.claim.Container, m.claim.ContainerFence)
}

// holding notes which state the container holds.
func (m *making) holding() *pool.Move {
	if m.w == nil || m.w.Sync == nil {
		return nil
	}
	state := m.claim.Snapshot
	return &pool.Move{
		From: []pool.State{pool.Claimed}, To: pool.Claimed,
		Set: func(c *pool.Container) {
			if state != "" {
				c.Snapshot = state
			}
		},
	}
}
