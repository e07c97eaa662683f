package hooks

import (
	"context"
	"maps"

	"github.com/hostler/hostler/runtime"
)

// Exec is the action that runs a command inside the container.
type Exec struct {
	Command     []string // argv
	User        string   // empty for the container's own
	Workdir     string   // empty for the container's own
	Environment map[string]string
}

// Kind is "exec".
func (e Exec) Kind() string { return "exec" }

// Summary is the argv. The environment is left out: values may be secret.
func (e Exec) Summary() []string { return e.Command }

// Run runs the command once.
func (e Exec) Run(ctx context.Context, c Call) (runtime.Result, error) {
	env := make(map[string]string, len(e.Environment)+len(c.Environment))
	maps.Copy(env, e.Environment)
	maps.Copy(env, c.Environment)
	return c.Runtime.Exec(ctx, c.Container, runtime.Command{
		RunID:       c.AttemptID,
		Args:        e.Command,
		Environment: env,
		User:        e.User,
		Workdir:     e.Workdir,
		Timeout:     c.Timeout,
	})
}

// WaitResult asks the container.
func (e Exec) WaitResult(ctx context.Context, c Call) (runtime.Result, error) {
	return c.Runtime.WaitResult(ctx, c.Container, runtime.Command{RunID: c.AttemptID, Timeout: c.Timeout})
}
