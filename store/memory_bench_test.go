package store

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/memory"
	"github.com/hostler/hostler/workload"
)

// BenchmarkMemory measures puts and gets of 1 KiB, by claims that do so at once. A
// put is a durable commit. BenchmarkClaimRelease is what to compare them with.
func BenchmarkMemory(b *testing.B) {
	for _, e := range databases {
		b.Run("store="+e.name, func(b *testing.B) {
			db := openBench(b, e.dsn(b))
			for _, parallel := range []int{1, 10, 100} {
				claims := addActiveClaims(b, db, parallel)
				value := []byte(`"` + strings.Repeat("x", 1022) + `"`)
				put := func(n int64, id string) error {
					_, err := db.ChangeMemory(b.Context(), memory.Change{
						Claim: id, Level: memory.Claim, Key: fmt.Sprint(n % 100), Value: value, Quota: memory.Quota{Keys: 100, Bytes: 1 << 20},
					})
					return err
				}
				get := func(_ int64, id string) error {
					_, err := db.MemoryValue(b.Context(), id, memory.Claim, "0")
					return err
				}
				for i := range 100 * parallel {
					require.NoError(b, put(int64(i/parallel), claims[i%parallel]))
				}
				b.Run(fmt.Sprintf("put/parallel=%d", parallel), func(b *testing.B) { runConcurrently(b, claims, put) })
				b.Run(fmt.Sprintf("get/parallel=%d", parallel), func(b *testing.B) { runConcurrently(b, claims, get) })
			}
		})
	}
}

// BenchmarkEndMemory measures a sweep that finds nothing to end, with the requests
// on record of live claims. It runs each minute.
func BenchmarkEndMemory(b *testing.B) {
	for _, e := range databases {
		for _, each := range []int{10, 1000} {
			b.Run(fmt.Sprintf("store=%s/claims=1000/requests=%d", e.name, 1000*each), func(b *testing.B) {
				db := openBench(b, e.dsn(b))
				for i := range 1000 {
					addWaitingClaim(b, db, fmt.Sprintf("c%04d", i))
				}
				for n := range each {
					require.NoError(b, db.writer.update(b.Context(), func(t *tx) error {
						return t.execLater(`INSERT INTO memory_requests (claim, request, time, result) SELECT id, $1, $2, '{}' FROM claims`, fmt.Sprint(n), n)
					}))
				}
				for b.Loop() {
					require.NoError(b, db.EndMemory(b.Context()))
				}
			})
		}
	}
}

// addActiveClaims adds active claims of a workload of their own.
func addActiveClaims(b *testing.B, db *DB, n int) []string {
	ctx, name := b.Context(), uuid.NewString()
	ids := make([]string, n)
	for i := range ids {
		addIdleContainer(b, db, name, uuid.Must(uuid.NewV7()).String())
		c, err := db.Reserve(ctx, claim.Reservation{
			Claim: uuid.Must(uuid.NewV7()).String(), Workload: name, Tenant: fmt.Sprint("tenant", i), Revision: "r", Reuse: workload.ReuseNever,
		})
		require.NoError(b, err)
		_, err = db.UpdateClaim(ctx, claim.Activate(c.ID, claim.Fresh, nil))
		require.NoError(b, err)
		ids[i] = c.ID
	}
	return ids
}

// runConcurrently makes b.N calls, one at a time for each claim, and reports their
// rate and the median of their durations.
func runConcurrently(b *testing.B, claims []string, call func(n int64, id string) error) {
	durations := make([]time.Duration, b.N)
	b.ResetTimer()
	var next atomic.Int64
	var g errgroup.Group
	for _, id := range claims {
		g.Go(func() error {
			for n := next.Add(1) - 1; n < int64(b.N); n = next.Add(1) - 1 {
				begin := time.Now()
				if err := call(n, id); err != nil {
					return err
				}
				durations[n] = time.Since(begin)
			}
			return nil
		})
	}
	require.NoError(b, g.Wait())
	b.StopTimer()
	slices.Sort(durations)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
	b.ReportMetric(float64(durations[b.N/2].Microseconds()), "p50-µs")
}
