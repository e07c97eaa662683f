package fake

import (
	"context"

	"github.com/hostler/hostler/runtime"
)

// DialPort implements runtime.Ports.DialPort.
func (rt *Runtime) DialPort(context.Context, string, int, int64) (runtime.PortConn, error) {
	return nil, runtime.ErrUnsupported
}

// ClosePorts implements runtime.Ports.ClosePorts.
func (rt *Runtime) ClosePorts(context.Context, string, int64) error { return nil }
