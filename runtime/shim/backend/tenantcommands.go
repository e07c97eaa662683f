package backend

import (
	"context"
	"time"

	"github.com/hostler/hostler/runtime"
)

// OpenCommand implements runtime.Commander.OpenCommand.
func (c Containers) OpenCommand(ctx context.Context, id string, cmd runtime.TenantCommand) (runtime.CommandStream, error) {
	stream, err := c.sessions.Get(id).OpenCommand(ctx, cmd)
	return stream, wrap(err, "open a command in the container %s", id)
}

// AttachCommand implements runtime.Commander.AttachCommand.
func (c Containers) AttachCommand(ctx context.Context, id, commandID string, fence, after int64) (runtime.CommandStream, error) {
	stream, err := c.sessions.Get(id).AttachCommand(ctx, commandID, fence, after)
	return stream, wrap(err, "attach to a command in the container %s", id)
}

// Commands implements runtime.Commander.Commands.
func (c Containers) Commands(ctx context.Context, id string, fence int64) ([]runtime.CommandStatus, error) {
	all, err := c.sessions.Get(id).Commands(ctx, fence)
	return all, wrap(err, "list the commands in the container %s", id)
}

// EndCommand implements runtime.Commander.EndCommand.
func (c Containers) EndCommand(ctx context.Context, id, commandID string, fence int64) error {
	return wrap(c.sessions.Get(id).EndCommand(ctx, commandID, fence), "end a command in the container %s", id)
}

// EndCommands implements runtime.Commander.EndCommands.
func (c Containers) EndCommands(ctx context.Context, id string, fence int64, grace time.Duration) error {
	return wrap(c.sessions.Get(id).EndCommands(ctx, fence, grace), "end the commands in the container %s", id)
}
