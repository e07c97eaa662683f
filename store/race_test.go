package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/store"
	"github.com/hostler/hostler/store/postgrestest"
	"github.com/hostler/hostler/store/storetest"
	"github.com/hostler/hostler/workload"
)

// raceClaims returns how many claims race for raceContainers.
func raceClaims() int {
	if testenv.IsFull() {
		return 10_000
	}
	return 1_000
}

const raceContainers = 100

func TestSQLiteRace(t *testing.T) {
	testenv.FullOnly(t, "store-race", "the contract has a race of 1,000 claims")
	db := openIn(t, t.TempDir())
	defer db.Close() //nolint:errcheck // only used for the race
	storetest.Race(t, raceContainers, raceClaims(), db)
}

// Two servers race on one database.
func TestPostgresRace(t *testing.T) {
	target := postgrestest.Schema(t)
	storetest.Race(t, raceContainers, raceClaims(), openDB(t, target), openDB(t, target))
}

// Requests for one wait come to two servers at once.
func TestPostgresJoinWaits(t *testing.T) {
	target := postgrestest.Schema(t)
	storetest.JoinWaits(t, openDB(t, target), openDB(t, target))
}

func TestSQLiteCursors(t *testing.T) {
	db := openIn(t, t.TempDir())
	defer db.Close() //nolint:errcheck // only used for the race
	storetest.Cursors(t, db)
}

// Two servers advance one cursor.
func TestPostgresCursors(t *testing.T) {
	target := postgrestest.Schema(t)
	storetest.Cursors(t, openDB(t, target), openDB(t, target))
}

// A server changes no delivery that another one attempts.
func TestPostgresDeliveryOwners(t *testing.T) {
	target := postgrestest.Schema(t)
	first, second := openDB(t, target), openDB(t, target)
	for _, db := range []*store.DB{first, second} {
		_, err := db.Register(t.Context(), "here")
		require.NoError(t, err)
	}
	storetest.DeliveryOwners(t, first, second)
}

// The claims of a server that has left are adopted, and no others.
func TestPostgresClaimOwners(t *testing.T) {
	target := postgrestest.Schema(t)
	first, second := openDB(t, target), openDB(t, target)
	for _, db := range []*store.DB{first, second} {
		_, err := db.Register(t.Context(), "here")
		require.NoError(t, err)
	}
	storetest.ClaimOwners(t, first, second, func() { require.NoError(t, first.Deregister(t.Context())) })
}

func TestSQLiteRepeatedRace(t *testing.T) {
	db := openIn(t, t.TempDir())
	defer db.Close() //nolint:errcheck // only used for the race
	raceRepeatedly(t, db)
}

func TestPostgresRepeatedRace(t *testing.T) {
	target := postgrestest.Schema(t)
	raceRepeatedly(t, openDB(t, target), openDB(t, target))
}

// raceRepeatedly makes a few tenants claim and release fewer containers
// repeatedly, each on all servers concurrently. A tenant never has two claims,
// and a container never two holders.
func raceRepeatedly(t *testing.T, servers ...*store.DB) {
	ctx := t.Context()
	const containers, tenants, turns = 4, 8, 40
	for range containers {
		idleContainer(t, servers[0])
	}
	var held sync.Map // claims, by container
	var turn atomic.Int64
	var g errgroup.Group
	for i := range tenants {
		for s := range servers {
			g.Go(func() error {
				for range turns {
					if err := claimAndRelease(ctx, servers[s], fmt.Sprint("tenant", i), &held, &turn); err != nil {
						return err
					}
				}
				return nil
			})
		}
	}
	require.NoError(t, g.Wait())
	t.Logf("%d claims were held", turn.Load())
	live, err := servers[0].Claims(ctx, claim.Filter{})
	require.NoError(t, err)
	require.Empty(t, live)
	idleCount, err := servers[0].Containers(ctx, pool.ContainerFilter{States: []pool.State{pool.Idle}})
	require.NoError(t, err)
	require.Len(t, idleCount, containers)
}

// claimAndRelease claims for a tenant and, if it created the claim and got a
// container, holds it briefly. Then it ends the claim.
func claimAndRelease(ctx context.Context, db *store.DB, tenant string, held *sync.Map, turn *atomic.Int64) error {
	asked := reservation(tenant)
	c, err := db.Reserve(ctx, asked)
	if err != nil && !errors.Is(err, claim.ErrNoIdleContainer) {
		return err
	}
	if c.ID != asked.Claim {
		return nil // another call holds it for this tenant
	}
	end := claim.Transition{
		ID: c.ID, From: []claim.State{claim.Pending}, To: claim.Failed,
		Events: []activity.Event{{Type: activity.ClaimFailed, Message: "given back"}},
	}
	if c.Container != "" {
		turn.Add(1)
		if other, taken := held.LoadOrStore(c.Container, c.ID); taken {
			return fmt.Errorf("container %s is held by %s and by %s", c.Container, other, c.ID)
		}
		held.Delete(c.Container)
		end.Container = &pool.Transition{From: []pool.State{pool.Claimed}, To: pool.Idle}
	}
	_, err = db.UpdateClaim(ctx, end)
	return err
}

func reservation(tenant string) claim.Reservation {
	return claim.Reservation{
		Claim: uuid.Must(uuid.NewV7()).String(), Workload: "w", Tenant: tenant, Revision: "r", Reuse: workload.ReuseWipe,
	}
}

func idleContainer(t *testing.T, db *store.DB) {
	t.Helper()
	storetest.PutWorkloads(t, db, "w")
	id := uuid.Must(uuid.NewV7()).String()
	require.NoError(t, db.AddContainer(t.Context(), pool.Container{ID: id, Workload: "w", Revision: "r"}, 1<<30))
	_, err := db.UpdateContainer(t.Context(), pool.Transition{
		ID: id, From: []pool.State{pool.Creating}, To: pool.Idle,
		Set: func(c *pool.Container) { c.Health = pool.Healthy },
	})
	require.NoError(t, err)
}
