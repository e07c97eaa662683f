package hooks

import (
	"context"
	"maps"

	"github.com/hostler/hostler/runtime"
)

// Exec is the action that runs a command in the container.
type Exec struct {
	Command     []string // argv
	User        string   // empty: the container's
	Workdir     string   // empty: the container's
	Environment map[string]string
}

// Kind returns KindCommand.
func (e Exec) Kind() Kind { return KindCommand }

// Summary returns the argv. It omits the environment: values may be secret.
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

// WaitResult waits for the result that the container has for the attempt.
func (e Exec) WaitResult(ctx context.Context, c Call) (runtime.Result, error) {
	return c.Runtime.WaitResult(ctx, c.Container, runtime.Command{RunID: c.AttemptID, Timeout: c.Timeout})
}
