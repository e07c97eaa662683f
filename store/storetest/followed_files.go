package storetest

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/pool"
)

// The record of the followed directory changes with its events or not at all.
func followedFiles(t *testing.T, s Store) {
	ctx := t.Context()
	f, err := s.FollowedFiles(ctx)
	require.NoError(t, err)
	require.Equal(t, pool.FollowedFiles{}, f)

	found := func(message string) pool.FollowedFiles {
		return pool.FollowedFiles{Dir: "/d", Invalid: []pool.InvalidFile{pool.NewInvalidFile("/d/a.yaml", web, errors.New(message))}}
	}
	update := func(message string) error {
		return s.UpdateFollowedFiles(ctx, func(f *pool.FollowedFiles) []activity.Event { return f.Update(found(message), 10) })
	}
	for range 2 {
		require.NoError(t, update("is wrong\x00 \xff"))
	}
	rejected := activity.Filter{Types: []activity.Type{activity.WorkloadRejected}}
	require.Len(t, events(t, s, rejected, 0), 1, "the second change is none")
	before, err := s.FollowedFiles(ctx)
	require.NoError(t, err)
	require.Equal(t, 1, before.Count)

	require.Error(t, s.UpdateFollowedFiles(ctx, func(f *pool.FollowedFiles) []activity.Event {
		f.Update(found("other"), 10)
		return []activity.Event{{Type: activity.WorkloadRejected, Data: []byte("not JSON")}}
	}))
	f, err = s.FollowedFiles(ctx)
	require.NoError(t, err)
	require.Equal(t, before, f, "neither the change nor its event")
}
