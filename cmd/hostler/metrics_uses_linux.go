package main

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hostler/hostler/access"
	"github.com/hostler/hostler/activity"
)

// newRecorder returns the recorder of what tenants do with their containers, and
// counts that.
func (m *metrics) newRecorder(store access.UseStore, commands access.Commands, log *slog.Logger) *access.Recorder {
	execs := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "hostler_execs_total", Help: "Commands of tenants that a server has seen end, by how: completed or failed.",
	}, []string{"workload", "state"})
	files := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "hostler_file_uses_total", Help: "Files that tenants have read, written or removed.",
	}, []string{"workload", "action"})
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "hostler_port_requests_total", Help: "Requests of tenants to ports of their containers that have completed.",
	}, []string{"workload"})
	omitted := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "hostler_uses_omitted_total", Help: "Uses of containers without an event, because there were too many.",
	}, []string{"kind"})
	m.registry.MustRegister(execs, files, requests, omitted)
	return access.NewRecorder(access.RecorderOptions{
		Store: store, Commands: commands, Log: log,
		OnUse: func(workload string, t activity.Type) {
			switch t {
			case activity.ExecCompleted:
				execs.WithLabelValues(workload, "completed").Inc()
			case activity.ExecFailed:
				execs.WithLabelValues(workload, "failed").Inc()
			case activity.FileRead:
				files.WithLabelValues(workload, "read").Inc()
			case activity.FileWritten:
				files.WithLabelValues(workload, "written").Inc()
			case activity.FileRemoved:
				files.WithLabelValues(workload, "removed").Inc()
			case activity.RequestCompleted:
				requests.WithLabelValues(workload).Inc()
			}
		},
		OnOmitted: func(kind string) { omitted.WithLabelValues(kind).Inc() },
	})
}
