package membership

import (
	"context"
	"io"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/tree"
)

// Guard returns a runtime that changes nothing unless this server holds its
// lease. The database rejects the writes of a server that was taken over from.
// An engine does not, and this server's container may belong to another server
// by then. Callers get runtime.ErrUnavailable, so they undo nothing and discard
// nothing.
func (m *Member) Guard(rt runtime.Runtime) runtime.Runtime { return guarded{rt, m} }

// guarded checks the lease before every method that changes a container.
type guarded struct {
	runtime.Runtime
	member *Member
}

func (g guarded) Create(ctx context.Context, spec runtime.Spec) error {
	return g.held(func() error { return g.Runtime.Create(ctx, spec) })
}

func (g guarded) Start(ctx context.Context, id string, fence int64) error {
	return g.held(func() error { return g.Runtime.Start(ctx, id, fence) })
}

func (g guarded) Restart(ctx context.Context, id string, fence int64) error {
	return g.held(func() error { return g.Runtime.Restart(ctx, id, fence) })
}

func (g guarded) RestartWith(ctx context.Context, id string, fence int64, environment map[string]string) error {
	return g.held(func() error { return g.Runtime.RestartWith(ctx, id, fence, environment) })
}

func (g guarded) Stop(ctx context.Context, id string, fence int64) error {
	return g.held(func() error { return g.Runtime.Stop(ctx, id, fence) })
}

func (g guarded) Destroy(ctx context.Context, id string) error {
	return g.held(func() error { return g.Runtime.Destroy(ctx, id) })
}

func (g guarded) CopyIn(ctx context.Context, id, dir string, fence int64, tar io.Reader) error {
	return g.held(func() error { return g.Runtime.CopyIn(ctx, id, dir, fence, tar) })
}

func (g guarded) FillTree(ctx context.Context, id, dir string, fence int64, stamped func([]tree.Stamp)) (w tree.Writer, err error) {
	err = g.held(func() error {
		w, err = g.Runtime.FillTree(ctx, id, dir, fence, stamped)
		return err
	})
	return w, err
}

func (g guarded) RecordBaseline(ctx context.Context, id string, fence int64) error {
	return g.held(func() error { return g.Runtime.RecordBaseline(ctx, id, fence) })
}

func (g guarded) Wipe(ctx context.Context, id string, fence int64) error {
	return g.held(func() error { return g.Runtime.Wipe(ctx, id, fence) })
}

func (g guarded) ServeRequests(ctx context.Context, id string, fence int64, handle runtime.RequestHandler) error {
	return g.held(func() error { return g.Runtime.ServeRequests(ctx, id, fence, handle) })
}

func (g guarded) ImageHooks(ctx context.Context, id string, points []string, fence int64) (found runtime.ImageHooks, err error) {
	err = g.held(func() error {
		found, err = g.Runtime.ImageHooks(ctx, id, points, fence)
		return err
	})
	return found, err
}

func (g guarded) Exec(ctx context.Context, id string, cmd runtime.Command) (res runtime.Result, err error) {
	err = g.held(func() error {
		res, err = g.Runtime.Exec(ctx, id, cmd)
		return err
	})
	return res, err
}

// held makes a change if the lease is held.
func (g guarded) held(change func() error) error {
	if err := g.member.CheckLease(); err != nil {
		return err
	}
	return change()
}
