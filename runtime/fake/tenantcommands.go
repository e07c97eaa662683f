package fake

import (
	"context"
	"time"

	"github.com/hostler/hostler/runtime"
)

// OpenCommand implements runtime.Commander.OpenCommand.
func (rt *Runtime) OpenCommand(context.Context, string, runtime.TenantCommand) (runtime.CommandStream, error) {
	return nil, runtime.ErrUnsupported
}

// AttachCommand implements runtime.Commander.AttachCommand.
func (rt *Runtime) AttachCommand(context.Context, string, string, int64, int64) (runtime.CommandStream, error) {
	return nil, runtime.ErrUnsupported
}

// Commands implements runtime.Commander.Commands.
func (rt *Runtime) Commands(context.Context, string, int64) ([]runtime.CommandStatus, error) {
	return nil, runtime.ErrUnsupported
}

// EndCommand implements runtime.Commander.EndCommand.
func (rt *Runtime) EndCommand(context.Context, string, string, int64) error {
	return runtime.ErrUnsupported
}

// EndCommands implements runtime.Commander.EndCommands.
func (rt *Runtime) EndCommands(context.Context, string, int64, time.Duration) error { return nil }
