package membership

import (
	"context"
	"io"
	"io/fs"
	"time"

	"github.com/hostler/hostler/runtime"
)

// The methods below are those that serve tenants.

func (g guarded) OpenCommand(ctx context.Context, id string, cmd runtime.TenantCommand) (stream runtime.CommandStream, err error) {
	err = g.held(func() error {
		stream, err = g.Runtime.OpenCommand(ctx, id, cmd)
		return err
	})
	return stream, err
}

// AttachCommand is a change: it acknowledges output.
func (g guarded) AttachCommand(ctx context.Context, id, commandID string, fence, after int64) (stream runtime.CommandStream, err error) {
	err = g.held(func() error {
		stream, err = g.Runtime.AttachCommand(ctx, id, commandID, fence, after)
		return err
	})
	return stream, err
}

func (g guarded) EndCommand(ctx context.Context, id, commandID string, fence int64) error {
	return g.held(func() error { return g.Runtime.EndCommand(ctx, id, commandID, fence) })
}

func (g guarded) EndCommands(ctx context.Context, id string, fence int64, grace time.Duration) error {
	return g.held(func() error { return g.Runtime.EndCommands(ctx, id, fence, grace) })
}

func (g guarded) WriteFile(ctx context.Context, id string, ref runtime.FileRef, mode fs.FileMode, content io.Reader) (info runtime.FileInfo, err error) {
	err = g.held(func() error {
		info, err = g.Runtime.WriteFile(ctx, id, ref, mode, content)
		return err
	})
	return info, err
}

func (g guarded) RemoveFile(ctx context.Context, id string, ref runtime.FileRef, recursive bool) error {
	return g.held(func() error { return g.Runtime.RemoveFile(ctx, id, ref, recursive) })
}

func (g guarded) WriteTree(ctx context.Context, id string, ref runtime.FileRef, archive io.Reader) error {
	return g.held(func() error { return g.Runtime.WriteTree(ctx, id, ref, archive) })
}

func (g guarded) DialPort(ctx context.Context, id string, port int, fence int64) (conn runtime.PortConn, err error) {
	err = g.held(func() error {
		conn, err = g.Runtime.DialPort(ctx, id, port, fence)
		return err
	})
	return conn, err
}

func (g guarded) ClosePorts(ctx context.Context, id string, fence int64) error {
	return g.held(func() error { return g.Runtime.ClosePorts(ctx, id, fence) })
}
