package docker

import (
	"context"
	"io"
)

// ShimVolume is the name of the volume with the shim.
func (r *Runtime) ShimVolume() string { return r.shim.volume() }

// Dial is one more stream to the shim in a container.
func (r *Runtime) Dial(ctx context.Context, id string) (io.ReadWriteCloser, error) {
	stream, _, err := r.dial(ctx, id)
	return stream, err
}
