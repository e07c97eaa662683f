package process

import (
	"context"
	"fmt"
	"slices"

	"github.com/hostler/hostler/runtime"
)

// DialPort implements runtime.Ports.DialPort. The loopback interface of a container
// is the machine's, where much listens that is not the container's: a connection is
// opened only to a port that the spec lists.
func (r *Runtime) DialPort(ctx context.Context, id string, port int, fence int64) (runtime.PortConn, error) {
	p, err := r.lookup(id)
	if err != nil {
		return nil, err
	}
	c, err := p.readRecord()
	if err != nil {
		return nil, err
	}
	if !slices.Contains(c.Ports, port) {
		return nil, fmt.Errorf("%w: a container without a network of its own has the ports that its workload lists, and %d is none of them",
			runtime.ErrPortRefused, port)
	}
	return r.Containers.DialPort(ctx, id, port, fence)
}
