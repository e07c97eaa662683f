package snapshot_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/hostler/hostler/runtime/tree"
)

// start is the time of the objects that tests create.
var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// errTruncated is the error of a scan that ends early.
var errTruncated = errors.New("cut off")

// scanFunc implements containers whose scans a function makes.
type scanFunc func(ctx context.Context, id string) tree.Scan

func (f scanFunc) ScanTree(ctx context.Context, id, _ string, _ tree.ScanOptions) (tree.Scan, error) {
	return f(ctx, id), nil
}

func (scanFunc) FillTree(context.Context, string, string, int64, func([]tree.Stamp)) (tree.Writer, error) {
	return nil, errors.ErrUnsupported
}

// testScan is a scan of n entries, as they are given.
type testScan struct {
	n       int
	entry   func(i int) tree.Entry
	content func(e tree.Entry) tree.Content
	opened  func(e tree.Entry) tree.Entry // set if a file is opened as another one
	end     error                         // in place of io.EOF

	at    int
	batch []tree.Entry
	reads int
}

const testBatch = 100

func (s *testScan) Next() ([]tree.Entry, error) {
	s.batch = s.batch[:0]
	for ; s.at < s.n && len(s.batch) < testBatch; s.at++ {
		s.batch = append(s.batch, s.entry(s.at))
	}
	if len(s.batch) == 0 {
		return nil, s.end
	}
	return s.batch, nil
}

func (s *testScan) Read(indexes []int, each func(int, tree.Entry, tree.Content) error) error {
	for _, i := range indexes {
		e := s.batch[i]
		content := s.content(e)
		if s.opened != nil {
			e = s.opened(e)
		}
		s.reads++
		if err := each(i, e, content); err != nil {
			return err
		}
	}
	return nil
}

func (*testScan) Close() error { return nil }

// listed returns a container that has these entries in every directory.
func listed(entries ...tree.Entry) scanFunc {
	return func(context.Context, string) tree.Scan { return scanOf(entries...) }
}

func scanOf(entries ...tree.Entry) *testScan {
	return &testScan{
		n: len(entries), entry: func(i int) tree.Entry { return entries[i] }, end: io.EOF,
		content: func(e tree.Entry) tree.Content { return extentsOf(incompressible(int(e.Size))) },
	}
}

// extent is data, or a hole, or a failure.
type extent struct {
	data string
	hole int64
	err  error
}

// extents is a content.
type extents struct{ list []extent }

func extentsOf(data string) tree.Content {
	c := &extents{}
	for part := range slices.Chunk([]byte(data), 64<<10) {
		c.list = append(c.list, extent{data: string(part)})
	}
	return c
}

func (c *extents) Next() ([]byte, int64, error) {
	if len(c.list) == 0 {
		return nil, 0, io.EOF
	}
	x := c.list[0]
	c.list = c.list[1:]
	return []byte(x.data), x.hole, x.err
}

// slowContent is incompressible, and pauses before each part, until ctx ends.
type slowContent struct {
	ctx   context.Context //nolint:containedctx // of the one scan
	noise *rand.ChaCha8
	left  int64
	part  int
	pause time.Duration
	buf   []byte
}

func (c *slowContent) Next() ([]byte, int64, error) {
	if c.left == 0 {
		return nil, 0, io.EOF
	}
	if c.pause > 0 {
		select {
		case <-time.After(c.pause):
		case <-c.ctx.Done():
			return nil, 0, context.Cause(c.ctx)
		}
	}
	if c.buf == nil {
		c.buf = make([]byte, c.part)
	}
	data := c.buf[:min(int64(c.part), c.left)]
	_, _ = c.noise.Read(data) // it never fails
	c.left -= int64(len(data))
	return data, 0, nil
}

// paced is a scan of one incompressible file, in parts with a pause before each.
func paced(ctx context.Context, size int64, part int, pause time.Duration) tree.Scan {
	s := scanOf(entry("f", tree.File, size))
	s.content = func(tree.Entry) tree.Content {
		return &slowContent{ctx: ctx, noise: rand.NewChaCha8([32]byte{}), left: size, part: part, pause: pause}
	}
	return s
}

// entry returns an entry of the container's user.
func entry(name string, kind tree.Kind, size int64) tree.Entry {
	e := tree.Entry{
		Path: name, Kind: kind, Mode: 0o644, Owner: tree.OwnUser, Group: tree.OwnGroup, Size: size, ModTime: time.Unix(1700000000, 0),
	}
	switch kind {
	case tree.Dir:
		e.Mode = 0o755
	case tree.Link:
		e.Mode, e.Target = 0, "target"
	}
	return e
}

// incompressible returns data that does not compress, the same each time.
func incompressible(n int) string {
	data := make([]byte, n)
	rand.NewChaCha8([32]byte{}).Read(data) //nolint:errcheck // it never fails
	return string(data)
}
