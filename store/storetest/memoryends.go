package storetest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/memory"
	"github.com/hostler/hostler/pool"
)

// mayUseMemory reports whether a claim may read, list, put and delete.
func mayUseMemory(t *testing.T, s Store, c claim.Claim) bool {
	t.Helper()
	ctx := t.Context()
	_, putErr := s.ChangeMemory(ctx, putMemory(c, memory.Tenant, "k", "1"))
	_, readErr := s.MemoryValue(ctx, c.ID, memory.Tenant, "k")
	_, listErr := s.MemoryItems(ctx, c.ID, memory.Tenant, "", "", 1)
	_, deleteErr := s.ChangeMemory(ctx, memory.Change{Claim: c.ID, Level: memory.Tenant, Key: "k"})
	for _, err := range []error{readErr, listErr, deleteErr} {
		require.Equal(t, putErr == nil, err == nil)
		if err != nil {
			require.ErrorIs(t, err, claim.ErrNotActive)
		}
	}
	return putErr == nil
}

// A claim uses memory while it is active, and while its hooks run before and after
// that.
func memoryAccess(t *testing.T, s Store) {
	putShared(t, s, web, false)
	container := addIdleContainer(t, s, rev, "")
	c, err := s.Reserve(t.Context(), newReservation("ann"))
	require.NoError(t, err)
	require.False(t, mayUseMemory(t, s, c), "pending")

	run := addRunningRun(t, s, c.ID, container, 1)
	require.True(t, mayUseMemory(t, s, c), "a hook of post_claim")
	require.NoError(t, s.RunEnded(t.Context(), endedRun(run, hooks.Succeeded, 0)))
	require.False(t, mayUseMemory(t, s, c), "it has ended")
	mustUpdateClaim(t, s, activeTransition(c.ID))
	require.True(t, mayUseMemory(t, s, c))
	mustUpdateClaim(t, s, releasingTransition(c.ID))
	require.False(t, mayUseMemory(t, s, c), "releasing")
	run = addRunningRun(t, s, c.ID, container, 1)
	require.True(t, mayUseMemory(t, s, c), "a hook of pre_release")
	require.NoError(t, s.RunEnded(t.Context(), endedRun(run, hooks.Succeeded, 0)))
	require.False(t, mayUseMemory(t, s, c))
	addRunningRun(t, s, c.ID, container, 1)
	mustUpdateClaim(t, s, releasedTransition(c.ID))
	require.False(t, mayUseMemory(t, s, c), "released")
	c.ID = newID()
	_, err = s.MemoryValue(t.Context(), c.ID, memory.Claim, "k")
	require.ErrorIs(t, err, claim.ErrClaimNotFound)
}

// What a claim holds ends with it, in the same transaction. What its tenant holds
// does not, and is the tenant's next claim's. Nothing of it is left in the end.
func memoryEndsWithClaim(t *testing.T, s Store) {
	putShared(t, s, web, true)
	first := claimOn(t, s, web, "ann")
	for i := range 250 {
		mustPut(t, s, memory.Change{
			Claim: first.ID, Level: memory.Claim, Key: fmt.Sprint("k", i), Value: []byte("1"), Quota: memory.Quota{Keys: 1000, Bytes: 1 << 20},
		})
	}
	version := mustPut(t, s, putMemory(first, memory.Tenant, "k", "1"))
	mustPut(t, s, putMemory(first, memory.Workload, "k", "1"))
	sweep(t, s)
	require.Equal(t, "1", read(t, s, first, memory.Claim, "k0"), "it is live")

	mustUpdateClaim(t, s, releasingTransition(first.ID))
	require.EqualValues(t, 250, usageOf(t, s, memory.Claim).Keys, "hooks may still run")
	sweep(t, s)
	require.EqualValues(t, 250, usageOf(t, s, memory.Claim).Keys)
	mustUpdateClaim(t, s, releasedTransition(first.ID))
	require.Zero(t, usageOf(t, s, memory.Claim))
	require.Equal(t, 3, sweep(t, s), "parts of 100 keys")

	next := claimOn(t, s, web, "ann")
	require.Empty(t, keys(t, s, next, memory.Claim, "", "", 10))
	require.Equal(t, "1", read(t, s, next, memory.Tenant, "k"))
	require.Equal(t, "1", read(t, s, next, memory.Workload, "k"))
	m := putMemory(next, memory.Tenant, "k", "2")
	m.IfVersion = &version
	mustPut(t, s, m)

	// A late request of the first claim has no effect on the second.
	_, err := s.ChangeMemory(t.Context(), putMemory(first, memory.Tenant, "k", "3"))
	require.ErrorIs(t, err, claim.ErrNotActive)
	_, err = s.MemoryValue(t.Context(), first.ID, memory.Tenant, "k")
	require.ErrorIs(t, err, claim.ErrNotActive)
	require.Equal(t, "2", read(t, s, next, memory.Tenant, "k"))
}

// A put is before the end of its claim or is refused: what was accepted at the
// level of the tenant is there for its next claim, and nothing else is.
func memoryEndsInRace(t *testing.T, s Store) {
	putShared(t, s, web, true)
	const tenants = 6
	for round := range 3 {
		accepted := make([]map[string]bool, tenants)
		var g errgroup.Group
		for i := range tenants {
			c := claimOn(t, s, web, fmt.Sprint("tenant", i))
			accepted[i] = map[string]bool{}
			g.Go(func() error {
				for n := 0; ; n++ {
					key := fmt.Sprintf("%d/%d", round, n)
					for _, level := range memory.Levels() {
						m := putMemory(c, level, key, "1")
						m.Quota = memory.Quota{Keys: 1 << 20, Bytes: 1 << 30}
						_, err := s.ChangeMemory(t.Context(), m)
						if errors.Is(err, claim.ErrNotActive) {
							return nil
						}
						if err != nil {
							return err
						}
						if level == memory.Tenant {
							accepted[i][key] = true
						}
					}
				}
			})
			g.Go(func() error {
				for range i {
					if err := s.EndMemory(t.Context()); err != nil {
						return err
					}
					if _, err := s.RemoveMemory(t.Context()); err != nil {
						return err
					}
				}
				if _, err := s.UpdateClaim(t.Context(), releasingTransition(c.ID)); err != nil {
					return err
				}
				_, err := s.UpdateClaim(t.Context(), releasedTransition(c.ID))
				return err
			})
		}
		require.NoError(t, g.Wait())
		require.Zero(t, usageOf(t, s, memory.Claim))
		for i := range tenants {
			c := claimOn(t, s, web, fmt.Sprint("tenant", i))
			items, err := s.MemoryItems(t.Context(), c.ID, memory.Tenant, fmt.Sprintf("%d/", round), "", 1<<20)
			require.NoError(t, err)
			require.Len(t, items, len(accepted[i]))
			endClaim(t, s, c)
		}
	}
	sweep(t, s)
}

// sweep removes what has ended, and returns in how many parts.
func sweep(t *testing.T, s Store) int {
	t.Helper()
	require.NoError(t, s.EndMemory(t.Context()))
	for parts := 1; ; parts++ {
		more, err := s.RemoveMemory(t.Context())
		require.NoError(t, err)
		if !more {
			return parts
		}
	}
}

func usageOf(t *testing.T, s Store, level memory.Level) memory.Usage {
	t.Helper()
	usage, err := s.MemoryUsage(t.Context())
	require.NoError(t, err)
	return usage[level]
}

// What a workload and its tenants hold ends when it is removed: one that is added
// again with the same id has nothing of it, not even its versions.
func memoryEndsWithWorkload(t *testing.T, s Store) {
	putShared(t, s, web, true)
	putShared(t, s, "other", true)
	c, other := claimOn(t, s, web, "ann"), claimOn(t, s, "other", "ann")
	var versions []int64
	for _, level := range []memory.Level{memory.Tenant, memory.Workload} {
		versions = append(versions, mustPut(t, s, putMemory(c, level, "k", "1")))
		mustPut(t, s, putMemory(other, level, "k", "1"))
	}
	endClaim(t, s, c)
	removeWorkload(t, s, web)
	require.EqualValues(t, 1, usageOf(t, s, memory.Tenant).Keys)

	putShared(t, s, web, true)
	c = claimOn(t, s, web, "ann")
	for i, level := range []memory.Level{memory.Tenant, memory.Workload} {
		require.Empty(t, read(t, s, c, level, "k"))
		require.Empty(t, keys(t, s, c, level, "", "", 10))
		m := putMemory(c, level, "k", "2")
		m.IfVersion = new(int64)
		require.Greater(t, mustPut(t, s, m), versions[i])
		require.Equal(t, "1", read(t, s, other, level, "k"))
	}
	sweep(t, s)
	require.Equal(t, "2", read(t, s, c, memory.Workload, "k"))
}

// A claim that outlives its workload adds nothing to the next one of that id.
func memoryOfRemovedWorkload(t *testing.T, s Store) {
	c := claimOn(t, s, web, "ann")
	mustUpdateContainer(t, s, destroyingTransition(c.Container))
	mustUpdateContainer(t, s, destroyedTransition(c.Container))
	removeWorkload(t, s, web)
	mustPut(t, s, putMemory(c, memory.Claim, "k", "1"))
	_, err := s.ChangeMemory(t.Context(), putMemory(c, memory.Tenant, "k", "1"))
	require.ErrorIs(t, err, pool.ErrWorkloadNotFound)
	_, err = s.ChangeMemory(t.Context(), putMemory(c, memory.Workload, "k", "1"))
	require.ErrorIs(t, err, memory.ErrNotShared)
}

// Values that are no longer shared cannot be used, and can again when they are
// shared again.
func memoryUnshared(t *testing.T, s Store) {
	putShared(t, s, web, true)
	c := claimOn(t, s, web, "ann")
	mustPut(t, s, putMemory(c, memory.Workload, "k", "1"))
	putShared(t, s, web, false)
	sweep(t, s)
	_, err := s.MemoryValue(t.Context(), c.ID, memory.Workload, "k")
	require.ErrorIs(t, err, memory.ErrNotShared)
	putShared(t, s, web, true)
	sweep(t, s)
	require.Equal(t, "1", read(t, s, c, memory.Workload, "k"))
}
