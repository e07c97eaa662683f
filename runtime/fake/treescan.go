package fake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/hostler/hostler/runtime"
	runtimetree "github.com/hostler/hostler/runtime/tree"
)

var _ runtimetree.Trees = (*Runtime)(nil)

// treeCall is a ScanTree or a FillTree that has begun.
type treeCall struct {
	ctx   context.Context //nolint:containedctx // of the call that began it
	rt    *Runtime
	c     *container
	exits int      // of the container when it began
	base  location // the directory
}

// openTree begins a call for a directory. The container is not locked.
func (rt *Runtime) openTree(ctx context.Context, c *container, dir string) (treeCall, error) {
	base, err := c.lookupDir(dir)
	c.mu.Lock()
	defer c.mu.Unlock()
	return treeCall{ctx: ctx, rt: rt, c: c, exits: c.exits, base: base}, err
}

// part performs a part of the call, which holds the container's lock. Paths are
// those that it is about.
func (t *treeCall) part(op string, paths []string, action func() error) error {
	call := Call{Op: op, ID: t.c.spec.ID, Args: paths}
	before, after := t.rt.faults.traps(call)
	err := context.Cause(t.ctx)
	if err == nil {
		err = t.rt.perform(t.ctx, call, before, after, func() error { return t.locked(action) })
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: %w", call.subject(), err)
	}
	return err
}

func (t *treeCall) locked(action func() error) error {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	if t.c.state != runtime.Running || t.c.exits != t.exits {
		return runtime.ErrContainerExited
	}
	return action()
}

// ScanTree begins to list a directory. What it has not returned yet is listed as
// it is by then.
func (rt *Runtime) ScanTree(ctx context.Context, id, dir string, _ runtimetree.ScanOptions) (runtimetree.Scan, error) {
	var s *treeScan
	err := rt.do(ctx, Call{Op: "scan_tree", ID: id, Args: []string{dir}}, func(c *container) error {
		call, err := rt.openTree(ctx, c, dir)
		if err != nil {
			return err
		}
		s = &treeScan{treeCall: call, buffer: make([]byte, scanChunk)}
		c.mu.Lock()
		defer c.mu.Unlock()
		s.push(call.base.node, "")
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// The sizes of what a scan returns at once.
const (
	scanBatch = 64       // entries
	scanChunk = 64 << 10 // bytes of content
)

// treeScan is a scan.
type treeScan struct {
	treeCall
	open     []openDir // from the directory to the current one
	entries  []runtimetree.Entry
	buffer   []byte // of content: a caller that keeps it finds other content there
	readable bool   // Read may be called
	err      error  // returned by every further call
}

// openDir is a directory of which some entries are listed.
type openDir struct {
	node  *node
	path  string
	names []string // of the entries that are not listed yet, in order
}

// push begins to list a directory. The container's lock is held.
func (s *treeScan) push(dir *node, name string) {
	s.open = append(s.open, openDir{node: dir, path: name, names: slices.Sorted(maps.Keys(dir.children))})
}

// Next returns the next entries.
func (s *treeScan) Next() ([]runtimetree.Entry, error) {
	if s.err != nil {
		return nil, s.err
	}
	clear(s.entries)
	s.entries = s.entries[:0]
	s.err = s.part("scan_next", []string{s.base.path}, func() error {
		for len(s.entries) < scanBatch && len(s.open) > 0 {
			s.step()
		}
		if len(s.entries) == 0 {
			return io.EOF
		}
		return nil
	})
	if s.readable = s.err == nil; !s.readable {
		return nil, s.err
	}
	s.rt.moved.count(func(m *Moved) { m.Listed += len(s.entries) })
	return s.entries, nil
}

// step lists at most one entry.
func (s *treeScan) step() {
	top := &s.open[len(s.open)-1]
	if len(top.names) == 0 {
		s.open = s.open[:len(s.open)-1]
		return
	}
	name := top.names[0]
	top.names = top.names[1:]
	n := top.node.children[name]
	if n == nil {
		return // it has gone
	}
	full := path.Join(top.path, name)
	s.entries = append(s.entries, s.c.treeEntry(full, n))
	if n.mode.IsDir() {
		s.push(n, full)
	}
}

// treeEntry describes a node. The caller holds the lock.
func (c *container) treeEntry(name string, n *node) runtimetree.Entry {
	e := runtimetree.Entry{
		Path: name, Kind: runtimetree.File, Mode: uint32(n.mode.Perm()),
		Owner: int64(n.uid), Group: int64(n.gid), ModTime: n.modified,
	}
	if n.mode&fs.ModeSticky != 0 {
		e.Mode |= stickyBit
	}
	if n.uid == c.user.UID {
		e.Owner = runtimetree.OwnUser
	}
	if n.gid == c.user.GID {
		e.Group = runtimetree.OwnGroup
	}
	switch {
	case n.mode.IsDir():
		e.Kind = runtimetree.Dir
	case n.mode&fs.ModeSymlink != 0:
		e.Kind, e.Mode, e.Target = runtimetree.Link, 0, n.target
	default:
		e.Size, e.Stamp = n.size(), c.files.stamp(n)
	}
	return e
}

// stickyBit is the sticky bit of an Entry's mode.
const stickyBit = 0o1000

var errScanMisuse = errors.New("the scan has no such file to read")

// Read reads files of the last result of Next.
func (s *treeScan) Read(indexes []int, each func(index int, as runtimetree.Entry, content runtimetree.Content) error) error {
	if s.err != nil {
		return s.err
	}
	if !s.readable || !slices.IsSorted(indexes) {
		return errScanMisuse
	}
	s.readable = false
	paths := make([]string, len(indexes))
	for i, index := range indexes {
		if index < 0 || index >= len(s.entries) || i > 0 && indexes[i-1] == index {
			return errScanMisuse
		}
		paths[i] = s.entries[index].Path
	}
	for i, index := range indexes {
		as, content, err := s.openFile(paths[i])
		if err != nil {
			s.err = err
			return err
		}
		if content == nil {
			continue
		}
		if err := each(index, as, content); err != nil {
			return err
		}
	}
	return nil
}

// openFile opens a file as it is at this moment; the content is nil if it is not a
// file.
func (s *treeScan) openFile(name string) (as runtimetree.Entry, content runtimetree.Content, err error) {
	err = s.part("scan_read", []string{name}, func() error {
		n := s.base.node
		for part := range strings.SplitSeq(name, "/") {
			if n = n.children[part]; n == nil {
				return nil
			}
		}
		if !n.mode.IsRegular() {
			return nil
		}
		as = s.c.treeEntry(name, n)
		content = &treeContent{data: n.data, holes: n.holes, buffer: s.buffer}
		s.rt.moved.count(func(m *Moved) { m.FilesRead, m.BytesRead = m.FilesRead+1, m.BytesRead+int64(len(n.data)) })
		return nil
	})
	return as, content, err
}

// Close ends the scan.
func (s *treeScan) Close() error {
	s.err, s.open = fs.ErrClosed, nil
	return nil
}

// treeContent is a file's content as it was when the file was opened.
type treeContent struct {
	data   []byte
	holes  []hole
	at     int // in data
	buffer []byte
}

// Next returns the next extent.
func (c *treeContent) Next() (data []byte, size int64, err error) {
	end := len(c.data)
	if len(c.holes) > 0 {
		end = c.holes[0].after
	}
	switch {
	case c.at < end:
		n := copy(c.buffer, c.data[c.at:end])
		c.at += n
		return c.buffer[:n], 0, nil
	case len(c.holes) > 0:
		size = c.holes[0].size
		c.holes = c.holes[1:]
		return nil, size, nil
	}
	return nil, 0, io.EOF
}
