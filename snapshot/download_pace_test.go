package snapshot_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/tree"
	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/snapshot/snapshottest"
)

// stalledTrees is a container that does not answer a call, from the one with a
// number on. A scan of it has endless entries.
type stalledTrees struct {
	call  string
	after int
	slow  time.Duration // instead of never
}

func (s *stalledTrees) ScanTree(ctx context.Context, _, _ string, _ tree.ScanOptions) (tree.Scan, error) {
	c := stalledCalls{s, ctx}
	return &endlessScan{stalledCalls: c}, c.stall("scan")
}

func (s *stalledTrees) FillTree(ctx context.Context, _, _ string, _ int64, _ func([]tree.Stamp)) (tree.Writer, error) {
	c := stalledCalls{s, ctx}
	if err := c.stall("fill"); err != nil {
		return nil, err
	}
	return c, nil
}

// stalledCalls are the calls of one scan or one writer.
type stalledCalls struct {
	*stalledTrees
	ctx context.Context //nolint:containedctx // of the scan or writer
}

func (s stalledCalls) stall(call string) error {
	if s.stalledTrees == nil || call != s.call {
		return nil
	}
	if s.after--; s.after >= 0 {
		return nil
	}
	if s.slow > 0 {
		<-time.After(s.slow)
		return context.Cause(s.ctx)
	}
	<-s.ctx.Done()
	return errors.Join(runtime.ErrUnavailable, s.ctx.Err())
}

func (s stalledCalls) Create(tree.Entry) error { return s.stall("create") }
func (s stalledCalls) Write([]byte) error      { return s.stall("write") }
func (s stalledCalls) Hole(int64) error        { return s.stall("hole") }
func (s stalledCalls) Remove(string) error     { return s.stall("remove") }
func (s stalledCalls) Close() error            { return s.stall("close") }
func (s stalledCalls) Abort(error)             {}

type endlessScan struct {
	stalledCalls
	n int
}

func (s *endlessScan) Next() ([]tree.Entry, error) {
	if err := s.stall("next"); err != nil {
		return nil, err
	}
	s.n++
	return []tree.Entry{{Path: fmt.Sprintf("%010d", s.n), Kind: tree.Dir}}, nil
}

func (*endlessScan) Read([]int, func(int, tree.Entry, tree.Content) error) error { return nil }
func (*endlessScan) Close() error                                                { return nil }

// A container that does not take its files, or takes them too slowly, does not
// block the download. It is the container's error.
func TestStalledDownload(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		to    stalledTrees
		holds string
		text  string
		most  time.Duration
	}{
		"from the start":     {to: stalledTrees{call: "fill"}, text: "within 3m", most: 3 * time.Minute},
		"at the first entry": {to: stalledTrees{call: "create"}, text: "for 1m", most: time.Minute},
		"in the middle":      {to: stalledTrees{call: "write", after: 9}, text: "for 1m", most: time.Minute},
		"at a hole":          {to: stalledTrees{call: "hole"}, text: "for 1m", most: time.Minute},
		"at the end":         {to: stalledTrees{call: "close"}, text: "for 1m", most: time.Minute},
		"too slow":           {to: stalledTrees{call: "write", slow: 30 * time.Second}, text: "less than 64 KiB a second", most: 2 * time.Minute},
		"no list":            {to: stalledTrees{call: "scan"}, holds: "s0", text: "within 3m", most: 3 * time.Minute},
		"no end of a list":   {to: stalledTrees{call: "next", after: 3}, holds: "s0", text: "for 1m", most: time.Minute},
		"a slow list":        {to: stalledTrees{call: "next", slow: 2 * time.Second}, holds: "s0", text: "less than 64 KiB", most: 2 * time.Minute},
		"an endless list":    {to: stalledTrees{}, holds: "s0", text: "max_files", most: time.Minute},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newDownloads(t)
				h.sync.MaxFiles = 1000
				sparse := fileOf("b", "x")
				sparse.hole = 1 << 39
				h.store("s1", []stateFile{fileOf("a", incompressible(6<<20)), sparse})
				begin := time.Now()
				to := h.to("c")
				to.Holds = test.holds
				_, err := h.sink.Download(t.Context(), &test.to, to)
				require.ErrorIs(t, err, snapshot.ErrContainer)
				require.ErrorContains(t, err, test.text)
				require.LessOrEqual(t, time.Since(begin), test.most)
			})
		})
	}
}

// A slow sink is never the container's error, and the end of the caller's context
// ends a download with its cause.
func TestSlowSinkOfDownload(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newDownloads(t)
		h.store("s1", []stateFile{fileOf("a", incompressible(6<<20))})
		h.bucket.Before(func(snapshottest.Call) error {
			<-time.After(time.Hour)
			return nil
		})
		id := h.container()
		_, err := h.download(id)
		require.NoError(t, err)

		cause := errors.New("the server stops")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(150*time.Minute, func() { cancel(cause) })
		_, err = h.sink.Download(ctx, h.rt, h.to(h.container()))
		require.ErrorIs(t, err, cause)
		require.NotErrorIs(t, err, snapshot.ErrContainer)
	})
}
