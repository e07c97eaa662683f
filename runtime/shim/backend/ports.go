package backend

import (
	"context"

	"github.com/hostler/hostler/runtime"
)

// DialPort implements runtime.Ports.DialPort.
func (c Containers) DialPort(context.Context, string, int, int64) (runtime.PortConn, error) {
	return nil, runtime.ErrUnsupported
}

// ClosePorts implements runtime.Ports.ClosePorts.
func (c Containers) ClosePorts(context.Context, string, int64) error { return nil }
