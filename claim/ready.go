package claim

import (
	"context"

	"github.com/hostler/hostler/pool"
)

// The steps that make a reserved container ready for its tenant, up to its
// restart.

// hasLeft says whether the container is the tenant's last one, and something
// else than what is in it may be the tenant's latest state.
func (m *making) hasLeft() bool { return m.claim.Source == Affinity && m.synced() }

// synced says whether claims put the tenants' state in.
func (m *making) synced() bool { return m.w.Sync != nil && m.w.Sync.Policy.OnClaim }

// compare asks whether the tenant's state has moved on without the container.
func (m *making) compare(ctx context.Context) error {
	current, err := m.Keeper.current(ctx, m.claim, m.w)
	if err != nil {
		return blame("download", err)
	}
	box, err := m.pools.Container(ctx, m.claim.Container)
	m.empty = current != box.Snapshot
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
	_, err := m.pools.Wiped(ctx, m.claim.Container)
	return err
}

// lacksState says whether the tenant's state is to be put in.
func (m *making) lacksState() bool { return m.synced() && (m.claim.Source == Fresh || m.empty) }

// download puts the tenant's state in.
func (m *making) download(ctx context.Context) error {
	c, transfer, err := m.Keeper.download(ctx, m.claim, m.w)
	m.claim = c
	m.put = transfer.Snapshot.ID != ""
	m.changed = m.changed || transfer.Sent > 0 || transfer.Files > 0
	return blame("download", err)
}

// lacksSeed says whether the volumes are empty: emptied just now, or never
// filled, where the pool has left that to the claim.
func (m *making) lacksSeed() bool {
	return (m.empty || m.claim.Source == Fresh && m.synced()) && !m.put
}

// seed fills the volumes with what a tenant without state begins with.
func (m *making) seed(ctx context.Context) error {
	seeded, err := pool.Seed(ctx, m.rt, m.claim.Container, m.w, m.seeds)
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
