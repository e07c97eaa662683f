package main

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hostler/hostler/delivery"
	"github.com/hostler/hostler/doctor"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/internal/singleflight"
	"github.com/hostler/hostler/memory"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/store"
)

// Bounds of what a scrape reads. Prometheus waits for ten seconds by default.
const (
	observationAge     = 5 * time.Second // how long an observation serves other scrapes
	observationTimeout = 5 * time.Second
	measuredWorkloads  = 1000 // the series of one are about 40
	examinedHooks      = 100
)

// recordReader is the part of the store that is read for scrapes.
type recordReader interface {
	LastSeq(ctx context.Context) (int64, error)
	CountLive(ctx context.Context) (int64, error)
	IsShared() bool
	Measure(ctx context.Context, q store.MeasureQuery) (store.Measures, error)
	DeliveryStatus(ctx context.Context) (delivery.Status, error)
	MemoryUsage(ctx context.Context) (map[memory.Level]memory.Usage, error)
	FollowedFiles(ctx context.Context) (pool.FollowedFiles, error)
}

// observed are what a server's gauges are read from.
type observed struct {
	records     recordReader
	leads       func() bool
	engine      func(ctx context.Context) error // returns why it is not available
	protocol    int
	hookTimeout func(ctx context.Context, r hooks.Run) time.Duration
}

// stuckHooks are those of a workload that have run for longer than their timeouts.
type stuckHooks struct {
	n      int
	oldest time.Time
}

// recordsObservation is what the leader has read of the records.
type recordsObservation struct {
	store.Measures
	deliveries delivery.Status
	memory     map[memory.Level]memory.Usage
	files      pool.FollowedFiles
	replicas   int64
	stuck      map[string]stuckHooks // by workload
}

// readRecords reads the records if this server leads: otherwise it reads only
// whether the database answers, and returns nil.
func (o *observed) readRecords(ctx context.Context) (*recordsObservation, error) {
	if !o.leads() {
		_, err := o.records.LastSeq(ctx)
		return nil, err
	}
	r, now := &recordsObservation{replicas: 1}, time.Now()
	var err error
	r.Measures, err = o.records.Measure(ctx, store.MeasureQuery{
		Protocol: o.protocol, Workloads: measuredWorkloads, OverdueBefore: now.Add(-doctor.RunEndGrace), Overdue: examinedHooks,
	})
	if err != nil {
		return nil, err
	}
	if r.deliveries, err = o.records.DeliveryStatus(ctx); err != nil {
		return nil, err
	}
	if r.memory, err = o.records.MemoryUsage(ctx); err != nil {
		return nil, err
	}
	if r.files, err = o.records.FollowedFiles(ctx); err != nil {
		return nil, err
	}
	if o.records.IsShared() {
		if r.replicas, err = o.records.CountLive(ctx); err != nil {
			return nil, err
		}
	}
	r.stuck = map[string]stuckHooks{}
	for _, run := range r.Overdue {
		if now.Sub(run.StartedAt) < o.hookTimeout(ctx, run)+doctor.RunEndGrace {
			continue
		}
		s := r.stuck[run.Workload]
		if s.n == 0 { // the oldest is first
			s.oldest = run.StartedAt
		}
		s.n++
		r.stuck[run.Workload] = s
	}
	return r, nil
}

// observation keeps what a read has returned for observationAge. Concurrent callers
// share one read.
type observation[T any] struct {
	read  func(context.Context) (T, error)
	calls singleflight.Group[struct{}, struct{}, T]

	mu   sync.Mutex // guards the fields below
	at   time.Time
	last T
	err  error
}

// get returns what was read at most observationAge ago, or the error of that read.
func (o *observation[T]) get() (T, error) {
	if value, err, ok := o.kept(); ok {
		return value, err
	}
	call, first := o.calls.Join(context.Background(), struct{}{}, struct{}{})
	if !first {
		<-call.Done()
		return call.Result()
	}
	defer call.End()
	value, err, ok := o.kept() // by a call that has ended in between
	if !ok {
		ctx, cancel := context.WithTimeout(call.Context(), observationTimeout)
		defer cancel()
		value, err = o.read(ctx)
		o.keep(value, err)
	}
	call.SetResult(value, err)
	return value, err
}

func (o *observation[T]) kept() (value T, err error, ok bool) { //nolint:revive,staticcheck // the error is a value here
	o.mu.Lock()
	defer o.mu.Unlock()
	age := time.Since(o.at)
	return o.last, o.err, !o.at.IsZero() && age >= 0 && age < observationAge
}

func (o *observation[T]) keep(value T, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.at, o.last, o.err = time.Now(), value, err
}

// observe registers the gauges that are read at a scrape.
func (m *metrics) observe(o observed) {
	m.registry.MustRegister(
		&recordGauges{leads: o.leads, records: observation[*recordsObservation]{read: o.readRecords}},
		&engineGauge{observation[struct{}]{read: func(ctx context.Context) (struct{}, error) { return struct{}{}, o.engine(ctx) }}},
	)
}

// engineGauge shows whether the engine answers.
type engineGauge struct{ status observation[struct{}] }

var engineDesc = prometheus.NewDesc("hostler_engine_up", "Whether the engine answers this server: 1 or 0.", nil, nil)

// Describe implements prometheus.Collector.
func (*engineGauge) Describe(ch chan<- *prometheus.Desc) { ch <- engineDesc }

// Collect implements prometheus.Collector.
func (g *engineGauge) Collect(ch chan<- prometheus.Metric) {
	_, err := g.status.get()
	ch <- prometheus.MustNewConstMetric(engineDesc, prometheus.GaugeValue, boolGauge(err == nil))
}

func boolGauge(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
