package release_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/release"
)

// BenchmarkClaimRelease measures a warm claim and its release through the flows
// and a durable database, on the in-memory runtime: the overhead of Hostler
// itself. The tenants get their previous containers again.
func BenchmarkClaimRelease(b *testing.B) {
	for _, parallel := range []int{1, 10, 100} {
		for _, hooks := range []int{0, 1} {
			b.Run(fmt.Sprintf("parallel=%d/hooks=%d", parallel, hooks), func(b *testing.B) {
				h := flowtest.New(b)
				h.Apply(benchWorkload(parallel, hooks))
				h.AwaitIdle("w", parallel)
				var tenant atomic.Int64
				b.SetParallelism((parallel + 1) / 2) // for two processors
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					name := fmt.Sprintf("t%d", tenant.Add(1))
					for pb.Next() {
						c, _, err := h.Claims.Claim(b.Context(), claim.Request{Workload: "w", Tenant: name})
						if err != nil {
							b.Error(err)
							return
						}
						if _, err := h.Releases.Release(b.Context(), c.ID, release.Request{}); err != nil {
							b.Error(err)
							return
						}
					}
				})
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "claims+releases/s")
			})
		}
	}
}

// benchWorkload returns a workload with a container for every tenant.
func benchWorkload(size, hooks int) string {
	file := fmt.Sprintf("id: w\nimage: box\ncommand: [box, idle]\npool: { min_idle: %d, max_size: %d, reuse: wipe }\n", size, size+4)
	if hooks > 0 {
		file += "hooks: { post_claim: [{ command: [box, echo, hi] }] }\n"
	}
	return file
}

// BenchmarkWaitingClaim measures a claim that waits for the only container,
// from the call of the other tenant's release to the active claim.
func BenchmarkWaitingClaim(b *testing.B) {
	h := flowtest.New(b)
	h.Apply("id: w\nimage: box\ncommand: [box, idle]\npool: { min_idle: 1, max_size: 1, reuse: wipe }\n")
	h.AwaitIdle("w", 1)
	held := h.Claim("w", "t0")
	for i := 1; b.Loop(); i++ {
		b.StopTimer()
		next := make(chan claim.Claim, 1)
		go func() {
			c, _, err := h.Claims.Claim(b.Context(), claim.Request{Workload: "w", Tenant: fmt.Sprintf("t%d", i%2), Wait: time.Minute})
			if err != nil {
				b.Error(err)
			}
			next <- c
		}()
		for h.Pools.Queue.Waiting("w") == 0 {
			<-time.After(100 * time.Microsecond)
		}
		<-time.After(5 * time.Millisecond) // the pool has seen that it cannot grow
		b.StartTimer()
		if _, err := h.Releases.Release(b.Context(), held.ID, release.Request{}); err != nil {
			b.Fatal(err)
		}
		held = <-next
	}
}
