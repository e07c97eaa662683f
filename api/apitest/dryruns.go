package apitest

import (
	"context"
	"fmt"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/dryrun"
	"github.com/hostler/hostler/pool"
)

type dryRuns struct{ *Backend }

// Run returns a hook of each kind.
func (b dryRuns) Run(_ context.Context, workload, on string, given map[string]string) (dryrun.Result, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.Records[workload]; !ok {
		return dryrun.Result{}, fmt.Errorf("workload %s: %w", workload, pool.ErrWorkloadNotFound)
	}
	tenant := dryrun.Variable{Name: "TENANT_ID", Value: "sample-tenant", Source: dryrun.Sample}
	if v, ok := given["TENANT_ID"]; ok {
		tenant.Value, tenant.Source = v, dryrun.Given
	}
	return dryrun.Result{Workload: workload, Point: hooks.Point(on), Hooks: []dryrun.Hook{
		{
			Name: "register", Action: hooks.KindHTTP, Runs: true, Holds: true, Timeout: 10000,
			Variables: []dryrun.Variable{tenant, {Name: "TOKEN", Value: "•••", Source: dryrun.OfSecret}},
			Request: &dryrun.Request{
				Method: "PUT", URL: "https://registry.example/" + tenant.Value, Headers: map[string]string{"Authorization": "•••"},
				Body: `{"a": 1}`, Warnings: []string{"the variable X is empty"},
			},
		},
		{
			Name: "greet", Action: hooks.KindScript, Condition: "CLAIM_SOURCE == recycled", Timeout: 30000,
			Variables: []dryrun.Variable{{Name: "KEY_ID", Source: dryrun.Captured, Untrusted: true, Missing: true}},
			Command: &dryrun.Command{
				Args: []string{"/bin/sh"}, Script: "echo\necho b\n", User: "app", Workdir: "/w",
				Environment: map[string]string{"HOSTLER_HOOK": "greet"}, Stdin: "{}",
			},
		},
		{Name: "log", Action: hooks.KindBuiltin, Runs: true, Holds: true, Variables: []dryrun.Variable{}, Timeout: 10000, Builtin: &dryrun.Builtin{Name: "log", With: map[string]any{"level": "info"}}},
		{Name: "off", Action: hooks.KindWebhook, Disabled: true, Holds: true, Variables: []dryrun.Variable{}, Timeout: 10000, Error: "invalid request: url: there is no host"},
	}}, nil
}
