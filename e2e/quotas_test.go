package e2e

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/store/postgrestest"
)

// liveClaims counts live claims as the database has them.
const liveClaims = `SELECT count(*) FROM claims WHERE state IN ('pending', 'active', 'releasing', 'release_failed')`

// Of 200 claims at once on three servers, no more are ever live than a quota permits.
// A server that is killed leaves nothing of the quota in use, and a limit that is set
// on one server holds on the others.
func TestQuotaOfReplicas(t *testing.T) {
	t.Parallel()
	const limit = 6
	f := serveFleet(t, 3, "--quota-workload", fmt.Sprintf("claims=%d", limit))
	s := f.servers[0]
	s.apply("few", "pool: { min_idle: 0, max_size: 2, reuse: wipe }\n")
	var active, refused atomic.Int64
	var g errgroup.Group
	for i := range 200 {
		g.Go(func() error {
			_, _, err := f.servers[i%3].Claim(t.Context(), "few", fmt.Sprint("tenant-", i), 2*time.Second)
			problem, ok := errors.AsType[*client.Error](err)
			switch {
			case err == nil:
				active.Add(1)
			case !ok || problem.Status == 500:
				return err
			case problem.Code == client.CodeQuotaExceeded:
				if problem.Quota != "workload few: live claims" || *problem.Limit != limit || *problem.Current > limit || problem.RetryAfter <= 0 {
					return fmt.Errorf("the quota %s: %w", problem.Quota, err)
				}
				refused.Add(1)
			}
			return nil
		})
	}
	most, done := int64(0), make(chan error, 1)
	var waiting errgroup.Group
	waiting.Go(func() error { done <- g.Wait(); return nil })
	for ended := false; !ended; {
		most = max(most, postgrestest.QueryInt(t, f.store, liveClaims))
		select {
		case err := <-done:
			require.NoError(t, err)
			ended = true
		default:
		}
	}
	require.NoError(t, waiting.Wait())
	t.Logf("%d claims active, %d refused, at most %d live", active.Load(), refused.Load(), most)
	require.Equal(t, int64(limit), most)
	require.Positive(t, refused.Load())

	// Claims that wait on a server that is killed do not stay in use.
	s.apply("full", "pool: { min_idle: 0, max_size: 1 }\n")
	_, others := f.leader()
	victim := others[0]
	_, _, err := s.Claim(t.Context(), "full", "holder", 3*time.Minute)
	require.NoError(t, err)
	const live = liveClaims + ` AND workload = 'full'`
	var killed errgroup.Group
	waits, stop := context.WithCancel(t.Context())
	defer stop()
	for i := range limit - 1 {
		killed.Go(func() error {
			if _, _, err := victim.Claim(waits, "full", fmt.Sprint("lost-", i), time.Minute); err == nil {
				return errors.New("a claim has got a container")
			}
			return nil
		})
	}
	testenv.AwaitTrue(t, "as many claims as the limit allows", func() bool { return postgrestest.QueryInt(t, f.store, live) == limit })
	victim.kill()
	stop()
	require.NoError(t, killed.Wait())
	testenv.AwaitTrue(t, "one live claim", func() bool { return postgrestest.QueryInt(t, f.store, live) == 1 })

	alive := others[1]
	none := int64(0)
	q, err := alive.SetQuota(t.Context(), client.QuotaTenant, "dave", client.Limits{Claims: &none})
	require.NoError(t, err)
	require.Equal(t, client.QuotaUsage{}, q.Usage)
	for _, one := range f.servers {
		if one == victim {
			continue
		}
		_, _, err := one.Claim(t.Context(), "few", "dave", 0)
		problem, ok := errors.AsType[*client.Error](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, client.CodeQuotaExceeded, problem.Code)
	}
}
