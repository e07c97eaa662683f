package benchmarks

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/delivery"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/request"
	"github.com/hostler/hostler/hooks/runner"
	"github.com/hostler/hostler/internal/dispatch"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime/fake"
	"github.com/hostler/hostler/store"
	"github.com/hostler/hostler/store/postgrestest"
	"github.com/hostler/hostler/store/storetest"
)

// backlog is how many deliveries BenchmarkBacklog works off.
const backlog = 100_000

// deliveryRig is the service of deliveries on a database, with a receiver in this
// process and 1,000 container records.
type deliveryRig struct {
	db       *store.DB
	pools    *pool.Pools
	service  *delivery.Service
	receiver *httptest.Server
	received atomic.Int64

	mu        sync.Mutex // guards latencies
	latencies []time.Duration
}

// deliveryDatabases runs a benchmark on each database.
func deliveryDatabases(b *testing.B, bench func(b *testing.B, r *deliveryRig)) {
	b.Run("sqlite", func(b *testing.B) { bench(b, newDeliveryRig(b, filepath.Join(b.TempDir(), "hostler.db"))) })
	b.Run("postgres", func(b *testing.B) { bench(b, newDeliveryRig(b, postgrestest.Schema(b))) })
}

func newDeliveryRig(b *testing.B, dsn string) *deliveryRig {
	b.Helper()
	db, err := store.Open(b.Context(), dsn)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, db.Close()) })
	rt := fake.New()
	db.SetProtocols(rt.Protocols())
	r := &deliveryRig{db: db}
	r.receiver = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		var event struct{ Timestamp time.Time }
		if err := json.NewDecoder(q.Body).Decode(&event); err != nil {
			return
		}
		if q.URL.Path == "/hang" {
			<-q.Context().Done()
			return
		}
		r.received.Add(1)
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.latencies) < cap(r.latencies) {
			r.latencies = append(r.latencies, time.Since(event.Timestamp))
		}
	}))
	b.Cleanup(r.receiver.Close)
	x, err := request.New(request.Options{Allow: []string{"127.0.0.0/8"}})
	require.NoError(b, err)
	executors := runner.Executors{hooks.KindHTTP: x, hooks.KindWebhook: x}
	log := slog.New(slog.DiscardHandler)
	hookRunner := runner.New(rt, db, executors, pool.NewCatalog(db))
	r.pools = pool.New(db, rt, hookRunner, nil, log)
	r.service = delivery.New(db, delivery.Options{
		Workloads: r.pools.Catalog, Executors: executors, Attempt: hookRunner.EventAttempt, Log: log,
	})
	storetest.PutWorkloads(b, db, "w")
	for i := range 1000 {
		require.NoError(b, db.AddContainer(b.Context(), pool.Container{ID: container(i), Workload: "w", Revision: "r"}, 1000))
	}
	return r
}

func container(i int) string { return fmt.Sprintf("container-%d", i%1000) }

// apply applies a workload with event hooks with these paths.
func (r *deliveryRig) apply(b *testing.B, paths ...string) {
	b.Helper()
	var source strings.Builder
	source.WriteString("id: w\nimage: fake/image\nhooks:\n  events:\n")
	for i, path := range paths {
		fmt.Fprintf(&source, "    - { name: h%d, on: [pool.warning], webhook: { url: %q }, timeout: 10s }\n", i, r.receiver.URL+path)
	}
	_, err := r.pools.Apply(b.Context(), []byte(source.String()), "w.yaml", "")
	require.NoError(b, err)
}

// record records n events, in changes of 100.
func (r *deliveryRig) record(b *testing.B, n int) {
	b.Helper()
	for i := 0; i < n; {
		var events []activity.Event
		for ; i < n && len(events) < 100; i++ {
			events = append(events, activity.Event{Type: activity.PoolWarning, Workload: "w", Container: container(i), Message: "of the benchmark"})
		}
		require.NoError(b, r.db.Append(b.Context(), events...))
	}
}

// start runs the service until the returned function is called.
func (r *deliveryRig) start(b *testing.B) (stop func()) {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	d := dispatch.New(r.db, slog.New(slog.DiscardHandler), r.service.EventHandlers())
	var g errgroup.Group
	g.Go(func() error { return d.Run(ctx) })
	g.Go(func() error { return r.service.Run(ctx) })
	return func() {
		cancel()
		require.NoError(b, g.Wait())
	}
}

// await returns when the receiver has received n deliveries.
func (r *deliveryRig) await(n int64) {
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for r.received.Load() < n {
		<-poll.C
	}
}

// BenchmarkDelivery measures deliveries to one receiver, of events of 1,000
// containers, and of ten hooks.
func BenchmarkDelivery(b *testing.B) {
	deliveryDatabases(b, func(b *testing.B, r *deliveryRig) {
		const hookCount = 10
		r.apply(b, make([]string, hookCount)...)
		defer r.start(b)()
		b.ResetTimer()
		begin := time.Now()
		r.record(b, b.N)
		r.await(int64(b.N) * hookCount)
		b.ReportMetric(float64(b.N*hookCount)/time.Since(begin).Seconds(), "deliveries/s")
	})
}

// BenchmarkHangingReceiver is BenchmarkDelivery with 50 hooks, of which one
// has a receiver that does not answer.
func BenchmarkHangingReceiver(b *testing.B) {
	for _, hangs := range []bool{false, true} {
		b.Run(fmt.Sprintf("hangs=%t", hangs), func(b *testing.B) {
			deliveryDatabases(b, func(b *testing.B, r *deliveryRig) {
				paths := make([]string, 50)
				if hangs {
					paths[0] = "/hang"
				}
				r.apply(b, paths...)
				defer r.start(b)()
				want := int64(b.N) * 49
				b.ResetTimer()
				begin := time.Now()
				r.record(b, b.N)
				if !hangs {
					want = int64(b.N) * 50
				}
				r.await(want)
				b.ReportMetric(float64(want)/time.Since(begin).Seconds(), "deliveries/s")
				r.receiver.CloseClientConnections()
			})
		})
	}
}

// BenchmarkHangingReceiverLatency measures the time from an event to its arrival
// at the receivers that answer, of 50 hooks with and without one that does not. Ten
// events are recorded a second: less than what the server can deliver.
func BenchmarkHangingReceiverLatency(b *testing.B) {
	for _, hangs := range []bool{false, true} {
		b.Run(fmt.Sprintf("hangs=%t", hangs), func(b *testing.B) {
			deliveryDatabases(b, func(b *testing.B, r *deliveryRig) {
				paths := make([]string, 50)
				want := int64(b.N) * 50
				if hangs {
					paths[0] = "/hang"
					want = int64(b.N) * 49
				}
				r.apply(b, paths...)
				defer r.start(b)()
				r.latencies = make([]time.Duration, 0, want)
				tick := time.NewTicker(100 * time.Millisecond)
				defer tick.Stop()
				b.ResetTimer()
				for i := range b.N {
					<-tick.C
					event := activity.Event{Type: activity.PoolWarning, Workload: "w", Container: container(i), Message: "of the benchmark"}
					require.NoError(b, r.db.Append(b.Context(), event))
				}
				r.await(want)
				slices.Sort(r.latencies)
				for _, p := range []int{50, 95, 99} {
					b.ReportMetric(r.latencies[len(r.latencies)*p/100].Seconds()*1000, fmt.Sprintf("p%d-ms", p))
				}
				r.receiver.CloseClientConnections()
			})
		})
	}
}

// BenchmarkDeliveryMemory measures the memory of the process after 10,000, 50,000
// and 100,000 deliveries. It runs only with HOSTLER_BENCH_BACKLOG=1.
func BenchmarkDeliveryMemory(b *testing.B) {
	if os.Getenv("HOSTLER_BENCH_BACKLOG") == "" {
		b.Skip("set HOSTLER_BENCH_BACKLOG=1")
	}
	deliveryDatabases(b, func(b *testing.B, r *deliveryRig) {
		r.apply(b, make([]string, 10)...)
		defer r.start(b)()
		for n := 1; n <= 100; n++ {
			r.record(b, 100)
			r.await(int64(n) * 1000)
			if n == 10 || n == 50 || n == 100 {
				heap, rss := memory(b)
				b.ReportMetric(heap, fmt.Sprintf("MiB-heap-%dk", n))
				b.ReportMetric(rss, fmt.Sprintf("MiB-rss-%dk", n))
			}
		}
	})
}

// memory returns the live heap and the resident memory of this process in MiB.
func memory(b *testing.B) (heap, rss float64) {
	b.Helper()
	var m goruntime.MemStats
	goruntime.GC()
	goruntime.ReadMemStats(&m)
	statm, err := os.ReadFile("/proc/self/statm")
	require.NoError(b, err)
	pages, err := strconv.Atoi(strings.Fields(string(statm))[1])
	require.NoError(b, err)
	return float64(m.HeapAlloc) / (1 << 20), float64(pages*os.Getpagesize()) / (1 << 20)
}

// BenchmarkBacklog measures how long 100,000 deliveries take whose events were
// recorded while no server ran, and the memory for it: those of 100,000 events to
// one hook, and of an eighth of that to eight. It takes minutes, so it runs only
// with HOSTLER_BENCH_BACKLOG=1.
func BenchmarkBacklog(b *testing.B) {
	if os.Getenv("HOSTLER_BENCH_BACKLOG") == "" {
		b.Skip("set HOSTLER_BENCH_BACKLOG=1")
	}
	for _, n := range []int{1, 8} {
		b.Run(fmt.Sprintf("hooks=%d", n), func(b *testing.B) {
			deliveryDatabases(b, func(b *testing.B, r *deliveryRig) {
				r.apply(b, make([]string, n)...)
				r.record(b, backlog/n)
				begin := time.Now()
				stop := r.start(b)
				r.await(backlog)
				b.ReportMetric(time.Since(begin).Seconds(), "s/backlog")
				stop()
				heap, rss := memory(b)
				b.ReportMetric(heap, "MiB-heap")
				b.ReportMetric(rss, "MiB-rss")
			})
		})
	}
}
