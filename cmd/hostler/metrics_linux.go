package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/delivery"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/release"
	"github.com/hostler/hostler/wait"
)

// metrics counts claims, releases and hook runs. It wraps the services, which
// do not know of it. Labels are workloads, points and outcomes, never a tenant
// or an id.
type metrics struct {
	registry         *registry
	claims           *prometheus.HistogramVec
	releases         *prometheus.HistogramVec
	runs             *prometheus.HistogramVec
	states, refusals *prometheus.CounterVec
	failures         []*prometheus.CounterVec // under each of its names
	leaked           *prometheus.CounterVec
	cut              *prometheus.CounterVec
	inflight         *prometheus.GaugeVec
	ended            *prometheus.CounterVec
	waits            *prometheus.CounterVec
	late             prometheus.Histogram

	published *prometheus.CounterVec
}

// latencies are the histogram buckets in seconds, from a warm claim to a hook
// with the maximum timeout.
var latencies = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 600}

func newMetrics() *metrics {
	histogram := func(name, help string, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: latencies}, labels)
	}
	m := &metrics{
		registry: newRegistry(),
		refusals: newQuotaCounter(),
		claims:   histogram("hostler_claim_duration_seconds", "Time from the request of a claim to its response.", "workload", "outcome"),
		releases: histogram("hostler_release_duration_seconds", "Time from the request of a release to its response.", "workload", "outcome"),
		runs:     histogram("hostler_hook_duration_seconds", "Time of one attempt of a hook.", "workload", "point", "action", "outcome"),
		states: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hostler_hook_runs_total", Help: "Attempts of hooks that have ended, by the state of their end.",
		}, []string{"workload", "point", "hook", "action", "state"}),
		leaked: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hostler_hook_leaked_processes_total", Help: "Processes that outlived their hook and were killed.",
		}, []string{"workload", "point"}),
		cut: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hostler_hook_output_truncated_total", Help: "Output streams of hooks that were truncated.",
		}, []string{"workload", "point"}),
		inflight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "hostler_hook_inflight", Help: "Hooks that are running.",
		}, []string{"point"}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hostler_deliveries_total", Help: "Deliveries to event hooks that have ended.",
		}, []string{"workload", "hook", "state"}),
		published: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hostler_published_events_total", Help: "Events that tenants' programs published, by whether they were recorded or dropped.",
		}, []string{"outcome"}),
		waits: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hostler_waits_total", Help: "Waits that have ended, by the state of their end.",
		}, []string{"workload", "state"}),
		late: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "hostler_wait_deadline_delay_seconds", Help: "Time from the deadline of a wait to its record.", Buckets: latencies,
		}),
	}
	for _, name := range []string{"hostler_hook_failures_total", "hook_failures_total"} {
		m.failures = append(m.failures, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: name, Help: "Attempts of hooks that did not succeed.",
		}, []string{"workload", "point", "hook"}))
		m.registry.MustRegister(m.failures[len(m.failures)-1])
	}
	m.registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		m.claims, m.releases, m.runs, m.states, m.leaked, m.cut, m.inflight, m.ended, m.published, m.waits, m.late, m.refusals,
		newBuildInfo(),
	)
	return m
}

// handler returns the handler that serves the metrics.
func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// countPublished counts an event of a tenant's program.
func (m *metrics) countPublished(dropped bool) {
	outcome := "recorded"
	if dropped {
		outcome = "dropped"
	}
	m.published.WithLabelValues(outcome).Inc()
}

// countDelivery counts a delivery that has ended.
func (m *metrics) countDelivery(d delivery.Delivery) {
	m.ended.WithLabelValues(d.Workload, d.Hook, string(d.State)).Inc()
}

// countWait counts a wait that has ended.
func (m *metrics) countWait(w wait.Wait) {
	m.waits.WithLabelValues(w.Workload, string(w.State)).Inc()
	if w.State == wait.TimedOut || w.State == wait.Aborted {
		m.late.Observe(w.Exceeded().Seconds())
	}
}

// recorder returns a recorder that also counts and logs the runs that rec
// records.
func (m *metrics) recorder(rec hooks.Recorder, log *slog.Logger) hooks.Recorder {
	return countedRuns{rec, m, log, new(sync.Map)}
}

type countedRuns struct {
	hooks.Recorder
	m       *metrics
	log     *slog.Logger
	started *sync.Map // runs of this server that have not ended, by id
}

func (c countedRuns) RunStarted(ctx context.Context, r hooks.Run) error {
	err := c.Recorder.RunStarted(ctx, r)
	if err == nil {
		c.begin(r)
	}
	return err
}

func (c countedRuns) RunEnded(ctx context.Context, r hooks.Run) error {
	err := c.Recorder.RunEnded(ctx, r)
	if err == nil {
		c.end(ctx, r)
	}
	return err
}

func (c countedRuns) RunFollowed(ctx context.Context, ended, started hooks.Run) error {
	err := c.Recorder.RunFollowed(ctx, ended, started)
	if err == nil {
		c.end(ctx, ended)
		c.begin(started)
	}
	return err
}

func (c countedRuns) begin(r hooks.Run) {
	c.started.Store(r.ID, nil)
	c.m.inflight.WithLabelValues(momentOf(r)).Inc()
}

func (c countedRuns) end(ctx context.Context, r hooks.Run) {
	point := momentOf(r)
	if _, ours := c.started.LoadAndDelete(r.ID); ours {
		c.m.inflight.WithLabelValues(point).Dec()
	}
	c.m.runs.WithLabelValues(r.Workload, point, string(r.Kind), string(r.State)).Observe(r.Duration / 1000)
	c.m.states.WithLabelValues(r.Workload, point, r.Hook, string(r.Kind), string(r.State)).Inc()
	if r.State != hooks.Succeeded {
		for _, name := range c.m.failures {
			name.WithLabelValues(r.Workload, point, r.Hook).Inc()
		}
	}
	logRun(ctx, c.log, r)
	c.m.leaked.WithLabelValues(r.Workload, point).Add(float64(r.Leaked))
	if r.Stdout.Truncated || r.Stderr.Truncated {
		c.m.cut.WithLabelValues(r.Workload, point).Inc()
	}
}

// momentOf returns the point of a run, or the type of its event. Tenants' programs
// choose the types of their events, so those count as one.
func momentOf(r hooks.Run) string {
	if t := activity.Type(r.Event); activity.IsPublished(t) {
		return t.Subject()
	}
	return cmp.Or(string(r.Point), r.Event)
}

// deliveries returns a store that also counts and logs the attempts that s
// records.
func (m *metrics) deliveries(s delivery.Store, log *slog.Logger) delivery.Store {
	return countedDeliveries{s, countedRuns{nil, m, log, new(sync.Map)}}
}

type countedDeliveries struct {
	delivery.Store
	runs countedRuns
}

func (c countedDeliveries) UpdateDelivery(ctx context.Context, t delivery.Transition) (delivery.Permission, error) {
	p, err := c.Store.UpdateDelivery(ctx, t)
	if err != nil || t.Run == nil || t.Run.State == hooks.Skipped {
		return p, err
	}
	if t.Run.State == hooks.Running {
		c.runs.begin(*t.Run)
	} else {
		c.runs.end(ctx, *t.Run)
	}
	return p, nil
}

// hookFailed is the message of the log record of a run that did not succeed.
const hookFailed = "hook failed"

// logRun logs a run that has ended: as an error if it did not succeed, else for
// debugging.
func logRun(ctx context.Context, log *slog.Logger, r hooks.Run) {
	level, message := slog.LevelDebug, "hook completed"
	if r.State != hooks.Succeeded {
		level, message = slog.LevelError, hookFailed
	}
	if !log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("hook", r.Hook), slog.String("point", momentOf(r)), slog.String("action", string(r.Kind)), slog.String("run", r.ID),
		slog.Int("attempt", r.Attempt), slog.String("workload", r.Workload), slog.String("container", r.Container),
		slog.String("claim", r.Claim), slog.String("state", string(r.State)), slog.Float64("duration_ms", r.Duration),
	}
	if r.ExitCode != nil {
		attrs = append(attrs, slog.Int("exit_code", *r.ExitCode))
	}
	if r.Status != 0 {
		attrs = append(attrs, slog.Int("status", r.Status))
	}
	if r.Error != "" {
		attrs = append(attrs, slog.String("error", r.Error))
	}
	if text, _ := r.Stderr.Excerpt(hooks.ExcerptBytes); text != "" && level == slog.LevelError {
		attrs = append(attrs, slog.String("stderr", text))
	}
	if text, _ := r.Stdout.Excerpt(hooks.ExcerptBytes); text != "" && level == slog.LevelDebug {
		attrs = append(attrs, slog.String("output", text))
	}
	log.LogAttrs(ctx, level, message, attrs...)
}

// countedClaims times the claims of a service.
type countedClaims struct {
	*claim.Service
	m *metrics
	// workload returns ErrWorkloadNotFound if there is none.
	workload func(context.Context, string) (pool.Record, error)
}

func (c countedClaims) Claim(ctx context.Context, r claim.Request) (claim.Claim, bool, error) {
	begin := time.Now()
	k, created, err := c.Service.Claim(ctx, r)
	outcome := "active"
	unavailable, isUnavailable := errors.AsType[*claim.UnavailableError](err)
	switch {
	case c.m.isRefusal(err):
		outcome = "quota"
	case isUnavailable:
		outcome = string(unavailable.Reason)
	case errors.Is(err, pool.ErrWorkloadNotFound), errors.Is(err, claim.ErrInvalidTenant), err != nil && !c.isWorkload(ctx, r.Workload):
		return k, created, err // a label must not have a value that the caller chose
	case err != nil:
		outcome = "failed"
	case !created:
		outcome = "held"
	}
	c.m.claims.WithLabelValues(r.Workload, outcome).Observe(time.Since(begin).Seconds())
	return k, created, err
}

// isWorkload reports whether there is such a workload. A request can fail, or be
// canceled, before its workload is looked up.
func (c countedClaims) isWorkload(ctx context.Context, id string) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookupTimeout)
	defer cancel()
	_, err := c.workload(ctx, id)
	return err == nil
}

// lookupTimeout bounds the lookup of a workload for a metric.
const lookupTimeout = time.Second

// countedReleases times the releases of a service.
type countedReleases struct {
	*release.Service
	m *metrics
}

func (c countedReleases) Release(ctx context.Context, id string, r release.Request) (claim.Claim, error) {
	begin := time.Now()
	k, err := c.Service.Release(ctx, id, r)
	if k.Workload == "" {
		return k, err
	}
	outcome := string(k.State)
	if err != nil {
		outcome = "failed"
	}
	c.m.releases.WithLabelValues(k.Workload, outcome).Observe(time.Since(begin).Seconds())
	return k, err
}
