package main

import (
	"cmp"
	"context"
	"net/http"
	goruntime "runtime"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/doctor"
	"github.com/hostler/hostler/transport"
)

// registry is a registry that lists its collectors, so that a test can compare them
// with the documentation: a scrape has no metric that was never counted.
type registry struct {
	*prometheus.Registry
	collectors []prometheus.Collector
}

func newRegistry() *registry { return &registry{Registry: prometheus.NewRegistry()} }

// MustRegister adds collectors.
func (r *registry) MustRegister(all ...prometheus.Collector) {
	r.Registry.MustRegister(all...)
	r.collectors = append(r.collectors, all...)
}

// observed returns what the gauges of this server are read from.
func (s *server) observed() observed {
	records := &doctor.Doctor{Records: s.db, Catalog: s.pools.Catalog}
	return observed{
		records: s.db, engine: func(ctx context.Context) error { return s.pools.Engine.Probe(ctx) }, protocol: s.rt.Protocols().Current, hookTimeout: records.HookTimeout,
		leads: func() bool { return s.member == nil || s.member.Leads() },
	}
}

// newBuildInfo returns the metric that names the program's version.
func newBuildInfo() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "hostler_build_info", Help: "1, with the version of the server.",
		ConstLabels: prometheus.Labels{"version": version(), "goversion": goruntime.Version()},
	}, func() float64 { return 1 })
}

// requestLatencies are the histogram buckets of requests in seconds. They are few,
// because there are as many series for each route.
var requestLatencies = []float64{.005, .025, .1, .5, 2.5, 10, 60}

// Labels of requests that have no route.
const (
	unmatchedRoute = "unmatched"
	otherLabel     = "other"
)

// newRequestCounter returns a function that counts requests: by their routes, because
// clients choose paths and methods.
func (m *metrics) newRequestCounter() func() (end func(api.Served)) {
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "hostler_http_requests_total", Help: "Requests that were answered, by their route and the status of the response.",
	}, []string{"method", "route", "code"})
	durations := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "hostler_http_request_duration_seconds", Help: "Time of requests, except streams and those to ports of claims.", Buckets: requestLatencies,
	}, []string{"method", "route"})
	inFlight := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "hostler_http_requests_in_flight", Help: "Requests that are being answered, streams included.",
	})
	m.registry.MustRegister(requests, durations, inFlight)
	return func() func(api.Served) {
		inFlight.Inc()
		return func(s api.Served) {
			inFlight.Dec()
			method, route := cmp.Or(s.Method, otherLabel), cmp.Or(s.Route, unmatchedRoute)
			requests.WithLabelValues(method, route, codeOf(s.Status)).Inc()
			if !s.IsStream {
				durations.WithLabelValues(method, route).Observe(s.Duration.Seconds())
			}
		}
	}
}

// codeOf returns the label of a status. A tenant's program answers requests to its
// ports with any number: those that HTTP does not define count as one.
func codeOf(status int) string {
	if http.StatusText(status) == "" {
		return otherLabel
	}
	return strconv.Itoa(status)
}

// newFollowerGauge returns a function that counts those who follow events.
func (m *metrics) newFollowerGauge() func() (end func()) {
	followers := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "hostler_event_followers", Help: "Streams of events that are open.",
	})
	m.registry.MustRegister(followers)
	return func() func() {
		followers.Inc()
		return followers.Dec
	}
}

// observeConnections adds the metrics of the connections of clients.
func (m *metrics) observeConnections(c *transport.Connections) {
	m.registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "hostler_connections", Help: "Connections of clients that are open. One with HTTP/2 counts as two."},
			func() float64 { open, _, _ := c.Counts(); return float64(open) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "hostler_connections_max", Help: "How many connections of clients may be open."},
			func() float64 { _, bound, _ := c.Counts(); return float64(bound) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "hostler_connections_closed_total", Help: "Connections that were closed because of a bound."},
			func() float64 { _, _, closed := c.Counts(); return float64(closed) }),
	)
}
