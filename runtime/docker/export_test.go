package docker

import (
	"context"
	"io"
)

// ShimVolume returns the name of the volume with the shim.
func (r *Runtime) ShimVolume() string { return r.shim.volume() }

// Dial opens another stream to the shim in a container.
func (r *Runtime) Dial(ctx context.Context, id string) (io.ReadWriteCloser, error) {
	stream, _, err := r.dial(ctx, id)
	return stream, err
}

// RunOwn runs a program in a container as the engine runs the shim's, and
// returns what it printed.
func (r *Runtime) RunOwn(ctx context.Context, id string, args ...string) (string, error) {
	c, err := r.lookupRunning(ctx, id)
	if err != nil {
		return "", err
	}
	s, err := r.startProgram(ctx, c.ID, args...)
	if err != nil {
		return "", err
	}
	defer s.Close()
	text, err := io.ReadAll(s)
	return string(text), err
}
