package store

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/publish"
)

// BenchmarkPublish measures how many events programs publish that are within
// their limits, from 100 callers, each event of another claim.
func BenchmarkPublish(b *testing.B) {
	for _, e := range databases {
		b.Run("store="+e.name, func(b *testing.B) {
			db := openBench(b, e.dsn(b))
			s, claims := publishers(b, db, min(b.N, 2000))
			b.ResetTimer()
			var next atomic.Int64
			var g errgroup.Group
			for range 100 {
				g.Go(func() error {
					for i := next.Add(1); i <= int64(min(b.N, 40*len(claims))); i = next.Add(1) {
						_, err := s.Publish(b.Context(), claims[i%int64(len(claims))], publish.Request{Type: "x", Data: json.RawMessage(`{"a": "some text"}`)})
						if err != nil {
							return err
						}
					}
					return nil
				})
			}
			require.NoError(b, g.Wait())
			b.ReportMetric(float64(min(b.N, 40*len(claims)))/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// BenchmarkOthersDuringFlood measures what a change of another tenant takes while
// the programs of 100 claims publish as fast as they can. An operation is one such
// change.
func BenchmarkOthersDuringFlood(b *testing.B) {
	for _, e := range databases {
		for _, flood := range []int{0, 100} {
			b.Run(fmt.Sprintf("store=%s/flood=%d", e.name, flood), func(b *testing.B) {
				db := openBench(b, e.dsn(b))
				s, claims := publishers(b, db, 100)
				ctx, cancel := context.WithCancel(b.Context())
				var g errgroup.Group
				for _, id := range claims[:flood] {
					g.Go(func() error {
						for ctx.Err() == nil {
							_, _ = s.Publish(ctx, id, publish.Request{Type: "x"}) // most are refused
							select {
							case <-ctx.Done():
							case <-time.After(time.Millisecond): // 100,000 requests a second are more than a server gets
							}
						}
						return nil
					})
				}
				var took []time.Duration
				b.ResetTimer()
				for range b.N {
					start := time.Now()
					require.NoError(b, db.Append(b.Context(), activity.Event{Type: activity.PoolWarning, Workload: "w", Message: "m"}))
					took = append(took, time.Since(start))
				}
				b.StopTimer()
				cancel()
				require.NoError(b, g.Wait())
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
				b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
			})
		}
	}
}

// publishers returns a service and active claims of as many tenants.
func publishers(b *testing.B, db *DB, n int) (*publish.Service, []string) {
	b.Helper()
	workload := uuid.NewString()
	var ids []string
	for i := range n {
		addIdleContainer(b, db, workload, uuid.Must(uuid.NewV7()).String())
		c, err := db.Reserve(b.Context(), claim.Reservation{Claim: uuid.NewString(), Workload: workload, Tenant: fmt.Sprintf("t%d", i), Revision: "r"})
		require.NoError(b, err)
		_, err = db.UpdateClaim(b.Context(), claim.Activate(c.ID, claim.Fresh, nil))
		require.NoError(b, err)
		ids = append(ids, c.ID)
	}
	return publish.New(db, publish.Options{Log: slog.New(slog.DiscardHandler)}), ids
}
