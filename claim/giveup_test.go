package claim_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/internal/flowtest"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/fake"
	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/snapshot/snapshottest"
)

// state is where a container is, and why.
func state(y *flowtest.Yard, id string) pool.Container {
	y.T.Helper()
	k, err := y.Pools.Container(y.T.Context(), id)
	require.NoError(y.T, err)
	return k
}

// A container is given up as soon as something was begun with it that may have
// been done in part, also where its engine does not answer: only what nothing
// was done to goes back to the pool.
func TestBrokenOffIsGivenUp(t *testing.T) {
	for call, source := range map[string]string{
		"wipe":    small(1),
		"restart": strings.Replace(small(1), "reuse: wipe }", "reuse: same_tenant }\nrestart: always", 1),
	} {
		t.Run(call, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y := flowtest.New(t)
				y.Apply(source)
				first := y.Claim("w", "ada")
				y.Release(first)
				y.RT.BreakOnce(call+" "+first.Container, runtime.ErrUnavailable)
				tenant := map[string]string{"wipe": "bob", "restart": "ada"}[call]
				next := y.Claim("w", tenant)
				require.NotEqual(t, first.Container, next.Container)
				require.Contains(t, state(y, first.Container).Reason, "unfit")
				require.NotEqual(t, pool.Idle, state(y, first.Container).State)
			})
		})
	}
}

// A container that goes back to the pool untouched is any tenant's again, if it
// was before.
func TestPutBackIsFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(strings.Replace(synced, "min_idle: 0", "min_idle: 1", 1))
		y.Idle("w", 1)
		y.Bucket.Before(func(snapshottest.Call) error { return errors.New("the sink is unplugged") })
		_, _, err := y.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada"})
		require.ErrorContains(t, err, "unplugged")
		y.Bucket.Revive()
		idle, err := y.Pools.Containers(t.Context(), pool.ContainerFilter{Workload: "w", States: []pool.State{pool.Idle}})
		require.NoError(t, err)
		require.Len(t, idle, 1)
		require.Empty(t, idle[0].Tenant)
		require.Empty(t, idle[0].Claim)
		bob := y.Claim("w", "bob")
		require.Equal(t, idle[0].ID, bob.Container)
		require.Equal(t, claim.Fresh, bob.Source)
	})
}

// A claim tries three containers, and no more.
func TestUnfitContainersAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(small(2) + "restart: always\n")
		tried := map[string]bool{}
		y.RT.Before("restart", func(_ context.Context, call fake.Call) error {
			tried[call.ID] = true
			return runtime.ErrLost
		})
		_, _, err := y.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada"})
		require.ErrorIs(t, err, runtime.ErrLost)
		require.Len(t, tried, 3)
	})
}

// A container that was seeded for one snapshot is not filled with another one
// that has become current since: what the seed left out for the one may be
// missing in the other.
func TestSnapshotThatCameAfterTheSeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := sown(t, seededFile)
		ada := y.Claim("w", "ada")
		y.Release(ada) // with sessions/example
		ada = y.Claim("w", "ada")
		run(y, ada, "remove", "/data/sessions/example")
		y.Release(ada)
		y.Release(y.Claim("w", "bob")) // the container is not ada's last one any more
		w, _, err := y.Pools.Catalog.Current(t.Context(), "w")
		require.NoError(t, err)
		sink, owner := snapshot.On(y.Bucket, w.Sync), snapshot.Owner{Workload: "w", Tenant: "ada"}
		list, err := sink.List(t.Context(), owner)
		require.NoError(t, err)
		require.Len(t, list, 2)
		restore := sync.OnceValue(func() error {
			_, err := sink.Restore(t.Context(), owner, list[1].ID)
			return err
		})
		y.RT.Before("put", func(context.Context, fake.Call) error { return restore() })
		ada = y.Claim("w", "ada")
		require.Equal(t, [4]string{"seed", "seed", "seed", "seed"}, seen(y, ada))
		told := y.Events(activity.ContainerDestroying)
		require.Len(t, told, 1)
		require.Contains(t, told[0].Message, "after the container was seeded")
	})
}
