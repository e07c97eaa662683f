package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/pool"
)

// The time of a container's last wipe is recorded, to the microsecond, and
// later changes keep it: its log is shown from that time on.
func wipedAt(t *testing.T, s Store) {
	id := addIdleContainer(t, s, rev, "ann")
	k, err := s.Container(t.Context(), id)
	require.NoError(t, err)
	require.Nil(t, k.WipedAt, "never")
	at := time.Date(2030, 1, 2, 3, 4, 5, 678901000, time.UTC)
	mustUpdateContainer(t, s, pool.Transition{ID: id, From: []pool.State{pool.Idle}, To: pool.Idle, Set: func(c *pool.Container) { c.WipedAt = &at }})
	check := func(what string) {
		t.Helper()
		k, err := s.Container(t.Context(), id)
		require.NoError(t, err)
		require.NotNil(t, k.WipedAt, what)
		require.True(t, at.Equal(*k.WipedAt), "%s: %s", what, k.WipedAt)
	}
	check("as it was written")
	mustUpdateContainer(t, s, pool.Transition{ID: id, From: []pool.State{pool.Idle}, To: pool.Idle})
	check("another change")
	all, err := s.Containers(t.Context(), pool.ContainerFilter{})
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.True(t, at.Equal(*all[0].WipedAt), "in a list")
	mustUpdateContainer(t, s, destroyingTransition(id))
	check("destroying")
}
