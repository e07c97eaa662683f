package main

import (
	"context"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/builtin"
	"github.com/hostler/hostler/hooks/gate"
	"github.com/hostler/hostler/hooks/runner"
)

// gates returns what decides about the commands, files and requests of tenants.
func (s *server) gates(actions runner.Executors, hookRunner *runner.Runner) *gate.Service {
	return gate.New(gate.Options{
		Revisions: s.pools.Catalog, Attempt: hookRunner.EventAttempt,
		Executors: actions, Builtins: builtin.NewExecutor(s.log), Redact: s.requests.Redactor().Redact, AddSecrets: s.requests.AddSecrets,
		OnRefused: s.metrics.countRefused, Log: s.log,
		Record: func(ctx context.Context, r hooks.Run) error {
			err := s.db.RunRefused(ctx, r)
			if err == nil {
				logRun(ctx, s.log, r)
			}
			return err
		},
	})
}

// countRefused counts what a hook of a gate has refused. What gates permit is not
// counted: it has no record.
func (m *metrics) countRefused(r hooks.Run) {
	point := string(r.Point)
	m.runs.WithLabelValues(r.Workload, point, string(r.Kind), string(r.State)).Observe(r.Duration / 1000)
	m.states.WithLabelValues(r.Workload, point, r.Hook, string(r.Kind), string(r.State)).Inc()
	for _, name := range m.failures {
		name.WithLabelValues(r.Workload, point, r.Hook).Inc()
	}
}
