package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/hostler/hostler/snapshot"
)

// newTransferCounter returns a function that counts transfers of tenants' state
// that have ended.
func (m *metrics) newTransferCounter() func(workload, direction string, t snapshot.Transfer, err error) {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append([]string{"workload", "direction"}, labels...))
		m.registry.MustRegister(c)
		return c
	}
	transfers := counter("hostler_state_transfers_total", "Uploads and downloads of tenants' state that have ended, by outcome.", "outcome")
	sent := counter("hostler_state_transferred_bytes_total", "Bytes sent to sinks, or received from them.")
	files := counter("hostler_state_files_total", "Files of transferred states, by whether they were moved or skipped.", "handling")
	bytes := counter("hostler_state_bytes_total", "Bytes of files of transferred states, by whether they were moved or skipped.", "handling")
	duration := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "hostler_state_transfer_duration_seconds", Help: "Time of an upload or a download of a tenant's state.", Buckets: latencies,
	}, []string{"workload", "direction", "outcome"})
	m.registry.MustRegister(duration)
	return func(workload, direction string, t snapshot.Transfer, err error) {
		outcome := "completed"
		switch {
		case err != nil:
			outcome = "failed"
		case t.Unchanged:
			outcome = "unchanged"
		}
		transfers.WithLabelValues(workload, direction, outcome).Inc()
		duration.WithLabelValues(workload, direction, outcome).Observe(t.Duration.Seconds())
		sent.WithLabelValues(workload, direction).Add(float64(t.Sent))
		if err != nil {
			return
		}
		files.WithLabelValues(workload, direction, "moved").Add(float64(t.MovedFiles))
		files.WithLabelValues(workload, direction, "skipped").Add(float64(max(0, t.Files-t.MovedFiles)))
		bytes.WithLabelValues(workload, direction, "moved").Add(float64(t.MovedBytes))
		bytes.WithLabelValues(workload, direction, "skipped").Add(float64(max(0, t.Bytes-t.MovedBytes)))
	}
}
