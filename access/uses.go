package access

import (
	"context"
	"time"

	"github.com/hostler/hostler/runtime"
)

// Uses records what tenants do with their containers. Its methods do not wait for
// storage, except CommandStarting. No argument, variable, query, header or content
// is recorded.
type Uses interface {
	// CommandStarting records that a command is about to start, before it does: its
	// end is recorded whatever happens to this server. After ErrCommandOpen the caller
	// may attach to the command that runs, and must not start another one, whose end
	// would be that of the earlier one.
	CommandStarting(ctx context.Context, g Grant, c CommandUse) error
	// CommandEnded records how it ended. A second call for one command does nothing.
	CommandEnded(g Grant, id string, result runtime.Result, err error)
	// FileUsed records that a file was read, written or removed.
	FileUsed(g Grant, f FileUse, bytes int64)
	// RequestCompleted records a request to a port.
	RequestCompleted(g Grant, r PortUse, done RequestDone)
}

// RequestDone is how a request to a port ended.
type RequestDone struct {
	Status   int // of HTTP; 0 for a connection
	Sent     int64
	Received int64
	Duration time.Duration
}

// noUses records nothing.
type noUses struct{}

func (noUses) CommandStarting(context.Context, Grant, CommandUse) error { return nil }
func (noUses) CommandEnded(Grant, string, runtime.Result, error)        {}
func (noUses) FileUsed(Grant, FileUse, int64)                           {}
func (noUses) RequestCompleted(Grant, PortUse, RequestDone)             {}
