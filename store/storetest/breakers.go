package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/pool"
)

// The failures of a pool are recorded with their events or not at all, and are
// removed with the last one, and with the workload.
func breakers(t *testing.T, s Store) {
	ctx := t.Context()
	b, err := s.Breaker(ctx, web)
	require.NoError(t, err)
	require.Equal(t, pool.Breaker{Workload: web}, b)

	require.NoError(t, s.PutWorkload(ctx, pool.Record{ID: web, Revision: rev}))
	want := pool.Breaker{
		Workload: web, Revision: rev, Failures: 3, LastError: "no such image\x00", CrashLooping: true,
		LastErrorAt: time.Unix(0, 1).UTC(), RetryAt: time.Unix(0, 2).UTC(),
	}
	record := func(id string, next pool.Breaker) error {
		return s.UpdateBreaker(ctx, id, func(b *pool.Breaker) []activity.Event {
			require.Equal(t, id, b.Workload)
			*b = next
			return []activity.Event{{Type: activity.PoolWarning, Workload: id, Message: "failed"}}
		})
	}
	require.NoError(t, record(web, want))
	want.LastError = "no such image"
	b, err = s.Breaker(ctx, web)
	require.NoError(t, err)
	require.Equal(t, want, b)
	require.Len(t, events(t, s, activity.Filter{Types: []activity.Type{activity.PoolWarning}}, 0), 1)

	want.Failures, want.CrashLooping = 4, false
	require.NoError(t, record(web, want))
	err = s.UpdateBreaker(ctx, web, func(b *pool.Breaker) []activity.Event {
		require.Equal(t, want, *b)
		b.Failures++
		return []activity.Event{{Type: activity.PoolWarning, Data: []byte("not JSON")}}
	})
	require.Error(t, err)
	b, err = s.Breaker(ctx, web)
	require.NoError(t, err)
	require.Equal(t, want, b, "neither the change nor its event")

	require.NoError(t, record(web, pool.Breaker{}))
	b, err = s.Breaker(ctx, web)
	require.NoError(t, err)
	require.Equal(t, pool.Breaker{Workload: web}, b)

	require.NoError(t, record("other", want), "its workload does not exist")
	b, err = s.Breaker(ctx, "other")
	require.NoError(t, err)
	require.Equal(t, pool.Breaker{Workload: "other"}, b)

	require.NoError(t, record(web, want))
	r, err := s.Workload(ctx, web)
	require.NoError(t, err)
	r.Draining, r.Deleting = true, true
	require.NoError(t, s.PutWorkload(ctx, r))
	b, err = s.Breaker(ctx, web)
	require.NoError(t, err)
	require.Equal(t, want, b, "a change of the workload does not change it")
	r, err = s.Workload(ctx, web)
	require.NoError(t, err)
	r.Revision = "next"
	require.NoError(t, s.PutWorkload(ctx, r))
	var current pool.Breaker
	require.NoError(t, s.UpdateBreaker(ctx, web, func(b *pool.Breaker) []activity.Event {
		current = *b
		b.Failures = 1
		return nil
	}))
	require.Equal(t, pool.Breaker{Workload: web, Revision: "next"}, current, "another revision has failed")
	b, err = s.Breaker(ctx, web)
	require.NoError(t, err)
	require.Equal(t, pool.Breaker{Workload: web, Revision: "next", Failures: 1}, b)
	require.NoError(t, s.RemoveWorkload(ctx, web))
	b, err = s.Breaker(ctx, web)
	require.NoError(t, err)
	require.Equal(t, pool.Breaker{Workload: web}, b)
}
