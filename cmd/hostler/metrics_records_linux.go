package main

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/delivery"
	"github.com/hostler/hostler/memory"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/store"
)

// recordGauges are the metrics of the records, which only the leader serves: so sums
// over servers are right. Without the database there are none of them, and a scrape
// succeeds all the same.
type recordGauges struct {
	leads   func() bool
	records observation[*recordsObservation]
}

var (
	leaderDesc     = prometheus.NewDesc("hostler_leader", "Whether this server leads: 1 or 0.", nil, nil)
	databaseDesc   = prometheus.NewDesc("hostler_database_up", "Whether the database answers this server: 1 or 0.", nil, nil)
	replicasDesc   = prometheus.NewDesc("hostler_replicas", "Servers that use the database and have a lease.", nil, nil)
	workloadsDesc  = prometheus.NewDesc("hostler_workloads", "Workloads on record. Only the first 1000 by name have series of their own.", nil, nil)
	filesDesc      = prometheus.NewDesc("hostler_workload_files_invalid", "Files of the followed directory that are not applied, because they have errors or an id twice.", nil, nil)
	eventsDesc     = prometheus.NewDesc("hostler_events_total", "Events that were appended to the log, by all servers.", nil, nil)
	containersDesc = prometheus.NewDesc("hostler_containers", "Containers that exist, by state.", []string{"workload", "state"}, nil)
	claimsDesc     = prometheus.NewDesc("hostler_claims", "Claims that are live, by state.", []string{"workload", "state"}, nil)
	fillDesc       = prometheus.NewDesc("hostler_pool_fill_state", "The state of the fill loop for a pool: 1 for the current one, else 0.", []string{"workload", "state"}, nil)
	deliveriesDesc = prometheus.NewDesc("hostler_deliveries", "Deliveries to event hooks that have not ended, by state.", []string{"state"}, nil)
	behindDesc     = prometheus.NewDesc("hostler_delivery_events_behind", "Events for which deliveries are still to be added.", nil, nil)
	lagDesc        = prometheus.NewDesc("hostler_delivery_lag_seconds", "Age of the oldest event that is still to be delivered.", nil, nil)

	memoryKeysDesc  = prometheus.NewDesc("hostler_memory_keys", "Keys in the memory of claims, tenants and workloads, by level.", []string{"level"}, nil)
	memoryBytesDesc = prometheus.NewDesc("hostler_memory_bytes", "Bytes of keys and values in memory, by level.", []string{"level"}, nil)
)

// poolGauge is a gauge with one value for each pool.
type poolGauge struct {
	desc  *prometheus.Desc
	value func(p store.PoolMeasures, stuck stuckHooks) float64
}

func newPoolGauge(name, help string, value func(p store.PoolMeasures, stuck stuckHooks) float64) poolGauge {
	return poolGauge{prometheus.NewDesc(name, help, []string{"workload"}, nil), value}
}

var poolGauges = []poolGauge{
	newPoolGauge("hostler_pool_min_idle", "Idle containers that the pool is to have.",
		func(p store.PoolMeasures, _ stuckHooks) float64 { return float64(p.MinIdle) }),
	newPoolGauge("hostler_pool_max_size", "Containers that the pool may have.",
		func(p store.PoolMeasures, _ stuckHooks) float64 { return float64(p.MaxSize) }),
	newPoolGauge("hostler_pool_creation_failures", "Consecutive failures to create a container of the current revision.",
		func(p store.PoolMeasures, _ stuckHooks) float64 { return float64(p.Fill.Failures) }),
	newPoolGauge("hostler_pool_deleting", "Whether the workload is being deleted: 1 or 0.",
		func(p store.PoolMeasures, _ stuckHooks) float64 { return boolGauge(p.Deleting) }),
	newPoolGauge("hostler_pool_outdated_containers", "Idle and claimed containers of an older revision or protocol version.",
		func(p store.PoolMeasures, _ stuckHooks) float64 { return float64(p.Outdated) }),
	newPoolGauge("hostler_pool_unhealthy_containers", "Containers whose health check fails or whose main process has exited.",
		func(p store.PoolMeasures, _ stuckHooks) float64 { return float64(p.Unhealthy) }),
	newPoolGauge("hostler_pool_kept_containers", "Containers of claims whose release has failed, also while it is retried.",
		func(p store.PoolMeasures, _ stuckHooks) float64 { return float64(p.Kept) }),
	newPoolGauge("hostler_waiting_claims", "Pending claims that have no container.",
		func(p store.PoolMeasures, _ stuckHooks) float64 { return float64(p.Waiting) }),
	newPoolGauge("hostler_oldest_waiting_claim_age_seconds", "Time since the oldest claim without a container was requested, 0 without one.",
		func(p store.PoolMeasures, _ stuckHooks) float64 { return age(p.OldestWaiting) }),
	newPoolGauge("hostler_oldest_failed_release_age_seconds", "Time since the oldest failed release first failed for its reason, 0 without one.",
		func(p store.PoolMeasures, _ stuckHooks) float64 { return age(p.OldestKept) }),
	newPoolGauge("hostler_stuck_hooks", "Hooks on record as running for a minute longer than their timeout. The 100 oldest running hooks are examined.",
		func(_ store.PoolMeasures, s stuckHooks) float64 { return float64(s.n) }),
	newPoolGauge("hostler_oldest_stuck_hook_age_seconds", "Time since the start of the oldest stuck hook, 0 without one.",
		func(_ store.PoolMeasures, s stuckHooks) float64 { return age(s.oldest) }),
}

// age returns the seconds since a time, or 0 for none.
func age(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return max(0, time.Since(t).Seconds())
}

// Describe implements prometheus.Collector.
func (*recordGauges) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		leaderDesc, databaseDesc, replicasDesc, workloadsDesc, filesDesc, eventsDesc, containersDesc, claimsDesc, fillDesc,
		deliveriesDesc, behindDesc, lagDesc, memoryKeysDesc, memoryBytesDesc,
	} {
		ch <- d
	}
	for _, g := range poolGauges {
		ch <- g.desc
	}
}

// Collect implements prometheus.Collector.
func (g *recordGauges) Collect(ch chan<- prometheus.Metric) {
	r, err := g.records.get()
	leads := g.leads()
	collect := func(d *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	collect(leaderDesc, boolGauge(leads))
	collect(databaseDesc, boolGauge(err == nil))
	if err != nil || r == nil || !leads { // another server may serve them by now
		return
	}
	collect(replicasDesc, float64(r.replicas))
	collect(workloadsDesc, float64(r.Workloads))
	collect(filesDesc, float64(r.files.Count))
	ch <- prometheus.MustNewConstMetric(eventsDesc, prometheus.CounterValue, float64(r.LastSeq))
	for _, p := range r.Pools {
		collectPool(collect, p, r.stuck[p.Workload])
	}
	for _, state := range delivery.States() {
		if state.IsLive() {
			collect(deliveriesDesc, float64(r.deliveries.Live[state]), string(state))
		}
	}
	collect(behindDesc, float64(r.deliveries.Behind))
	collect(lagDesc, age(r.deliveries.Oldest))
	for _, level := range memory.Levels() {
		collect(memoryKeysDesc, float64(r.memory[level].Keys), string(level))
		collect(memoryBytesDesc, float64(r.memory[level].Bytes), string(level))
	}
}

// collectPool collects the series of one pool: all of them always, because an alert
// cannot compare what does not exist.
func collectPool(collect func(d *prometheus.Desc, value float64, labels ...string), p store.PoolMeasures, stuck stuckHooks) {
	for _, g := range poolGauges {
		collect(g.desc, g.value(p, stuck), p.Workload)
	}
	for _, state := range pool.States() {
		if state != pool.Destroyed {
			collect(containersDesc, float64(p.Containers[state]), p.Workload, string(state))
		}
	}
	for _, state := range claim.States() {
		if state.IsLive() {
			collect(claimsDesc, float64(p.Claims[state]), p.Workload, string(state))
		}
	}
	for _, state := range pool.FillStates() {
		collect(fillDesc, boolGauge(p.Fill.State == state), p.Workload, string(state))
	}
}
