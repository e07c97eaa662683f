package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/delivery"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/memory"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/store"
)

// measuredStore has what a scrape reads, and counts the reads.
type measuredStore struct {
	measures store.Measures
	err      error
	delay    time.Duration
	reads    atomic.Int32 // of any kind
	measured atomic.Int32
}

func (s *measuredStore) IsShared() bool { return true }

func (s *measuredStore) LastSeq(context.Context) (int64, error) {
	s.reads.Add(1)
	return 0, s.err
}

func (s *measuredStore) CountLive(context.Context) (int64, error) { return 3, nil }

func (s *measuredStore) Measure(ctx context.Context, q store.MeasureQuery) (store.Measures, error) {
	s.reads.Add(1)
	s.measured.Add(1)
	if q.OverdueBefore.After(time.Now().Add(-time.Minute)) || q.Overdue <= 0 || q.Workloads <= 0 {
		return store.Measures{}, errors.New("not bounded")
	}
	select {
	case <-ctx.Done():
		return store.Measures{}, ctx.Err()
	case <-time.After(s.delay):
		return s.measures, s.err
	}
}

func (s *measuredStore) DeliveryStatus(context.Context) (delivery.Status, error) {
	return delivery.Status{Live: map[delivery.State]int{delivery.Queued: 4}, Behind: 5, Oldest: time.Now().Add(-time.Minute)}, nil
}

func (s *measuredStore) MemoryUsage(context.Context) (map[memory.Level]memory.Usage, error) {
	return map[memory.Level]memory.Usage{memory.Tenant: {Scopes: 1, Keys: 2, Bytes: 30}}, nil
}

func (s *measuredStore) FollowedFiles(context.Context) (pool.FollowedFiles, error) {
	return pool.FollowedFiles{Count: 2}, nil
}

// onePool is a store with a pool in trouble.
func onePool() *measuredStore {
	now := time.Now()
	return &measuredStore{measures: store.Measures{
		Workloads: 1001, LastSeq: 7,
		Pools: []store.PoolMeasures{{
			Workload: "web", MinIdle: 2, MaxSize: 9, Fill: pool.FillStatus{State: pool.FillFailing, Failures: 6},
			Containers: map[pool.State]int{pool.Claimed: 3}, Outdated: 1, Unhealthy: 2,
			Claims: map[claim.State]int{claim.ReleaseFailed: 1}, Waiting: 4, Kept: 1,
			OldestWaiting: now.Add(-30 * time.Second), OldestKept: now.Add(-time.Hour),
		}},
		Overdue: []hooks.Run{
			{ID: "stuck", Workload: "web", StartedAt: now.Add(-10 * time.Minute)},
			{ID: "in its grace period", Workload: "web", StartedAt: now.Add(-6*time.Minute + time.Second)},
		},
	}}
}

// observing returns metrics that read db, and the server's role.
func observing(db *measuredStore) (m *metrics, leads *atomic.Bool) {
	m, leads = newMetrics(), new(atomic.Bool)
	leads.Store(true)
	m.observe(observed{
		records: db, leads: leads.Load, engine: func(context.Context) error { return nil },
		hookTimeout: func(context.Context, hooks.Run) time.Duration { return 5 * time.Minute },
	})
	return m, leads
}

// Every state of every pool has a value, zeros included, so that an alert can compare
// it.
func TestRecordsAreMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := observing(onePool())
		text := scrape(t, m)
		for _, line := range []string{
			`hostler_leader 1`, `hostler_database_up 1`, `hostler_engine_up 1`, `hostler_replicas 3`, `hostler_workloads 1001`, `hostler_events_total 7`,
			`hostler_pool_min_idle{workload="web"} 2`, `hostler_pool_max_size{workload="web"} 9`, `hostler_pool_creation_failures{workload="web"} 6`,
			`hostler_pool_fill_state{state="failing",workload="web"} 1`, `hostler_pool_fill_state{state="idle",workload="web"} 0`,
			`hostler_pool_fill_state{state="draining",workload="web"} 0`, `hostler_pool_deleting{workload="web"} 0`,
			`hostler_pool_outdated_containers{workload="web"} 1`, `hostler_pool_unhealthy_containers{workload="web"} 2`,
			`hostler_pool_kept_containers{workload="web"} 1`,
			`hostler_containers{state="claimed",workload="web"} 3`, `hostler_containers{state="idle",workload="web"} 0`,
			`hostler_containers{state="creating",workload="web"} 0`, `hostler_containers{state="destroying",workload="web"} 0`,
			`hostler_claims{state="release_failed",workload="web"} 1`, `hostler_claims{state="pending",workload="web"} 0`,
			`hostler_waiting_claims{workload="web"} 4`, `hostler_oldest_waiting_claim_age_seconds{workload="web"} 30`,
			`hostler_oldest_failed_release_age_seconds{workload="web"} 3600`,
			`hostler_stuck_hooks{workload="web"} 1`, `hostler_oldest_stuck_hook_age_seconds{workload="web"} 600`,
			`hostler_deliveries{state="queued"} 4`, `hostler_deliveries{state="running"} 0`,
			`hostler_delivery_events_behind 5`, `hostler_delivery_lag_seconds 60`,
			`hostler_memory_keys{level="tenant"} 2`, `hostler_memory_bytes{level="tenant"} 30`, `hostler_memory_keys{level="workload"} 0`,
		} {
			require.Contains(t, text, "\n"+line+"\n")
		}
		require.NotContains(t, text, `"destroyed"`, "it is history")
		require.NotContains(t, text, `"released"`, "it is history")
	})
}

// Only the leader serves what is of all servers: a sum over them is right.
func TestOnlyTheLeaderServesRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := onePool()
		m, leads := observing(db)
		require.Contains(t, scrape(t, m), "\nhostler_containers{")
		leads.Store(false)
		for range 2 { // at once, and with what it has read since then
			text := scrape(t, m)
			require.Contains(t, text, "\nhostler_leader 0\n")
			require.Contains(t, text, "\nhostler_database_up 1\n")
			for _, name := range []string{"hostler_containers", "hostler_events_total", "hostler_replicas", "hostler_deliveries{", "hostler_memory_keys"} {
				require.NotContains(t, text, "\n"+name)
			}
			<-time.After(2 * observationAge)
		}
		require.EqualValues(t, 1, db.measured.Load(), "another server reads the records")
		db.err = errors.New("no connection")
		<-time.After(2 * observationAge)
		require.Contains(t, scrape(t, m), "\nhostler_database_up 0\n")
	})
}

// A scrape succeeds without a database or an engine: that is when it is needed most. It
// takes less than Prometheus' timeout, also while the database does not answer.
func TestScrapeWithoutDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := onePool()
		m, _ := observing(db)
		for _, set := range []func(){
			func() { db.err = errors.New("no connection") },
			func() { db.err, db.delay = nil, time.Hour },
		} {
			set()
			begin := time.Now()
			w := httptest.NewRecorder()
			m.handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
			require.Equal(t, http.StatusOK, w.Code)
			require.Contains(t, w.Body.String(), "\nhostler_database_up 0\n")
			require.Contains(t, w.Body.String(), "\nhostler_leader 1\n")
			require.NotContains(t, w.Body.String(), "\nhostler_containers{")
			require.LessOrEqual(t, time.Since(begin), 6*time.Second)
			<-time.After(2 * observationAge)
		}
		db.delay = 0
		require.Contains(t, scrape(t, m), "\nhostler_database_up 1\n")
	})
}

// Ten scrapers at once are one read, and those within some seconds none.
func TestScrapesShareReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := onePool()
		db.delay = time.Second
		m, _ := observing(db)
		texts := make(chan string, 10)
		for range cap(texts) {
			time.AfterFunc(time.Second, func() { texts <- scrape(t, m) })
		}
		for range cap(texts) {
			require.Contains(t, <-texts, "\nhostler_pool_min_idle{workload=\"web\"} 2\n")
		}
		require.EqualValues(t, 1, db.reads.Load())
		<-time.After(observationAge - time.Second)
		require.Contains(t, scrape(t, m), "\nhostler_oldest_failed_release_age_seconds{workload=\"web\"} 3606\n", "an age is that at the scrape")
		require.EqualValues(t, 1, db.reads.Load())
		<-time.After(2 * time.Second)
		scrape(t, m)
		require.EqualValues(t, 2, db.reads.Load())
		db.err = errors.New("no connection")
		<-time.After(2 * observationAge)
		scrape(t, m)
		scrape(t, m)
		require.EqualValues(t, 3, db.reads.Load(), "an error is shared, too")
	})
}

// Requests are counted by route and code. Streams have no duration: it is their
// client's. What HTTP does not define is one code.
func TestRequestsAreCounted(t *testing.T) {
	m := newMetrics()
	begin := m.newRequestCounter()
	end := begin()
	require.Contains(t, scrape(t, m), "\nhostler_http_requests_in_flight 1\n")
	end(api.Served{Method: "GET", Route: "/v1/claims/{id}", Status: 200, Duration: 30 * time.Millisecond})
	begin()(api.Served{Status: 404})
	begin()(api.Served{Method: "GET", Route: "/v1/events/stream", Status: 200, IsStream: true})
	for status := 700; status < 800; status++ {
		begin()(api.Served{Route: api.RouteOfPorts, Status: status, IsStream: true})
	}
	follow := m.newFollowerGauge()
	leave := follow()
	text := scrape(t, m)
	for _, line := range []string{
		`hostler_http_requests_total{code="200",method="GET",route="/v1/claims/{id}"} 1`,
		`hostler_http_requests_total{code="404",method="other",route="unmatched"} 1`,
		`hostler_http_requests_total{code="200",method="GET",route="/v1/events/stream"} 1`,
		`hostler_http_requests_total{code="other",method="other",route="/v1/claims/{id}/ports/{port}/"} 100`,
		`hostler_http_request_duration_seconds_bucket{method="GET",route="/v1/claims/{id}",le="0.1"} 1`,
		`hostler_http_requests_in_flight 0`, `hostler_event_followers 1`,
	} {
		require.Contains(t, text, "\n"+line+"\n")
	}
	require.NotContains(t, text, `_count{method="GET",route="/v1/events/stream"}`)
	leave()
	require.Contains(t, scrape(t, m), "\nhostler_event_followers 0\n")
}

// The names and types follow Prometheus' conventions.
func TestMetricsFollowConventions(t *testing.T) {
	m, _ := observing(onePool())
	m.newRequestCounter()()(api.Served{})
	m.newFollowerGauge()
	problems, err := testutil.GatherAndLint(m.registry)
	require.NoError(t, err)
	for _, p := range problems {
		require.True(t, strings.HasPrefix(p.Metric, "go_"), "%s: %s", p.Metric, p.Text)
	}
}
