package fake

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/hostler/hostler/runtime"
	runtimetree "github.com/hostler/hostler/runtime/tree"
)

// FillTree begins to write into a directory.
func (rt *Runtime) FillTree(ctx context.Context, id, dir string, fence int64, stamped func([]runtimetree.Stamp)) (runtimetree.Writer, error) {
	var w *treeWriter
	err := rt.do(ctx, Call{Op: "fill_tree", ID: id, Args: []string{dir}, Fence: fence}, func(c *container) error {
		call, err := rt.openTree(ctx, c, dir)
		if err == nil {
			err = c.files.checkWritable(call.base, nil)
		}
		if err == nil {
			err = c.admitCopy(fence)
		}
		w = &treeWriter{treeCall: call, stamps: stampReports{report: stamped}}
		return err
	})
	if err != nil {
		return nil, err
	}
	return w, nil
}

// treeWriter writes a tree. An entry appears under its name when it is complete.
type treeWriter struct {
	treeCall
	last   string // the path of the last Create or Remove
	isLeaf bool   // the last one was the Create of what is no directory
	file   *node  // of the last Create, until it is complete
	left   int64  // bytes that this file lacks
	stamps stampReports
	err    error // returned by every further call
}

var (
	errWriterEnded = errors.New("the tree has ended")
	errWrongSize   = errors.New("the content does not have the file's size")
)

// do performs a part of the call. The first error is final.
func (w *treeWriter) do(op, name string, action func() error) error {
	if w.err != nil {
		return w.err
	}
	w.err = w.part(op, []string{name}, func() error {
		if err := w.complete(); err != nil {
			return err
		}
		return action()
	})
	if len(w.stamps.next) >= stampBatch {
		w.stamps.flush()
	}
	return w.err
}

// Create begins an entry.
func (w *treeWriter) Create(e runtimetree.Entry) error {
	return w.do("fill_create", e.Path, func() error {
		if err := w.checkPath(e.Path); err != nil {
			return err
		}
		n, err := w.newNode(e)
		if err != nil {
			return err
		}
		w.isLeaf = e.Kind != runtimetree.Dir
		if e.Kind == runtimetree.File {
			w.file, w.left = n, e.Size
			return nil
		}
		return w.place(n)
	})
}

// checkPath returns an error for a path that leads elsewhere or is not in order.
func (w *treeWriter) checkPath(name string) error {
	if !isBelow(name) || path.Clean(name) != name || name == "." || checkFilePath("/"+name) != nil {
		return fmt.Errorf("%w: the path %q", runtime.ErrBadArchive, name)
	}
	if w.last != "" && runtimetree.Compare(w.last, name) >= 0 {
		return fmt.Errorf("%w: %q after %q", runtime.ErrBadArchive, name, w.last)
	}
	if w.isLeaf && strings.HasPrefix(name, w.last+"/") {
		return fmt.Errorf("%w: %q below what is no directory", runtime.ErrBadArchive, name)
	}
	w.last, w.isLeaf = name, false
	return nil
}

// newNode returns what an entry describes.
func (w *treeWriter) newNode(e runtimetree.Entry) (*node, error) {
	kinds := map[runtimetree.Kind]fs.FileMode{
		runtimetree.File: 0, runtimetree.Dir: fs.ModeDir, runtimetree.Link: fs.ModeSymlink,
	}
	kind, ok := kinds[e.Kind]
	if !ok || e.Size < 0 {
		return nil, fmt.Errorf("%w: the entry %q", runtime.ErrBadArchive, e.Path)
	}
	n := &node{
		mode: kind | fs.FileMode(e.Mode).Perm(), target: e.Target, modified: e.ModTime,
		uid: ownerOf(e.Owner, w.c.user.UID), gid: ownerOf(e.Group, w.c.user.GID),
	}
	if e.Mode&stickyBit != 0 {
		n.mode |= fs.ModeSticky
	}
	if e.Kind == runtimetree.Dir {
		n.children = make(map[string]*node)
	}
	if e.Kind == runtimetree.Link {
		n.mode |= fs.ModePerm
	}
	return n, nil
}

// ownerOf returns the owner of what an entry describes. The reserved user has no
// files.
func ownerOf(id int64, own int) int {
	const maxID = 1<<32 - 2
	if id < 0 || id > maxID || id == runtime.ReservedUser {
		return own
	}
	return int(id)
}

// place puts a node under the path of the last Create.
func (w *treeWriter) place(n *node) error {
	p, err := w.locate(w.last, true)
	if err != nil {
		return err
	}
	old := p.node
	if old != nil && old.mode.IsDir() {
		if n.mode.IsDir() {
			old.mode, old.uid, old.gid, old.modified = n.mode, n.uid, n.gid, n.modified
			w.c.files.countChange(p)
			w.rt.moved.count(func(m *Moved) { m.Created++ })
			return nil
		}
		if err := w.unlink(p); err != nil {
			return err
		}
		p.node = nil
	}
	if err := w.c.files.addNode(p, n, nil); err != nil {
		return fmt.Errorf("create %q: %w", w.last, err)
	}
	w.rt.moved.count(func(m *Moved) {
		m.Created++
		if n.mode.IsRegular() {
			m.FilesWritten, m.BytesWritten = m.FilesWritten+1, m.BytesWritten+int64(len(n.data))
		}
	})
	return nil
}

// locate finds a path below the directory. It follows no link. Parents are created
// where they are missing, in place of what is no directory, or else the location is
// empty.
func (w *treeWriter) locate(name string, create bool) (location, error) {
	p := w.base
	parts := strings.Split(name, "/")
	for i, part := range parts {
		p = location{parent: p.node, name: part, path: path.Join(p.path, part), node: p.node.children[part], mount: p.mount}
		if p.node != nil && p.node.mount != nil {
			p.mount = p.node.mount
		}
		if i == len(parts)-1 {
			break
		}
		if p.node != nil && p.node.mode.IsDir() {
			continue
		}
		if !create {
			return location{}, nil
		}
		dir := newDir(0o755, w.c.user)
		if err := w.c.files.addNode(p, dir, nil); err != nil {
			return location{}, err
		}
		p.node = dir
	}
	return p, nil
}

// Write adds data to the current file.
func (w *treeWriter) Write(data []byte) error {
	return w.add(int64(len(data)), func(n *node) { n.data = append(n.data, data...) })
}

// Hole adds zeros to the current file.
func (w *treeWriter) Hole(size int64) error {
	return w.add(size, func(n *node) { n.addHole(size) })
}

func (w *treeWriter) add(size int64, change func(*node)) error {
	switch {
	case w.err != nil:
	case w.file == nil || size < 0 || size > w.left:
		w.err = errWrongSize
	default:
		w.left -= size
		change(w.file)
	}
	return w.err
}

// complete completes the current file.
func (w *treeWriter) complete() error {
	n := w.file
	if n == nil {
		return nil
	}
	if w.left != 0 {
		return errWrongSize
	}
	w.file = nil
	if err := w.place(n); err != nil {
		return err
	}
	w.stamps.next = append(w.stamps.next, w.c.files.stamp(n))
	return nil
}

// Remove removes what has a path.
func (w *treeWriter) Remove(name string) error {
	return w.do("fill_remove", name, func() error {
		if err := w.checkPath(name); err != nil {
			return err
		}
		p, err := w.locate(name, false)
		if err != nil || p.node == nil {
			return err
		}
		w.rt.moved.count(func(m *Moved) { m.Removed++ })
		return w.unlink(p)
	})
}

// unlink removes a name and everything below.
func (w *treeWriter) unlink(p location) error {
	err := w.c.files.checkEntry(p, nil)
	if err == nil {
		err = w.c.files.checkRemovable(p.node, nil)
	}
	if err != nil {
		return fmt.Errorf("remove %q: %w", p.path, err)
	}
	delete(p.parent.children, p.name)
	w.c.files.countChange(p)
	return nil
}

// Close finishes the tree.
func (w *treeWriter) Close() error {
	err := w.do("fill_close", w.base.path, func() error { return nil })
	w.end(errWriterEnded)
	return err
}

// Abort ends it. A file that is not complete does not appear.
func (w *treeWriter) Abort(cause error) { w.end(errors.Join(errWriterEnded, cause)) }

func (w *treeWriter) end(err error) {
	w.stamps.end()
	if w.err == nil {
		w.err = err
	}
	w.file = nil
}

// stampBatch is how many stamps are reported at once.
const stampBatch = 16

// stampReports reports stamps, from a goroutine of its own.
type stampReports struct {
	report  func([]runtimetree.Stamp)
	next    []runtimetree.Stamp // not reported yet
	running chan struct{}       // closed when the last report has ended; nil before the first
}

// flush reports what was added since the last report. The container is not locked.
func (s *stampReports) flush() {
	s.wait()
	batch := s.next
	s.next = nil
	if s.report == nil || len(batch) == 0 {
		return
	}
	done := make(chan struct{})
	s.running = done
	go func() { // the next flush, or the end, waits for it
		defer close(done)
		s.report(batch)
	}()
}

func (s *stampReports) wait() {
	if s.running != nil {
		<-s.running
	}
}

// end reports what is left, and waits.
func (s *stampReports) end() {
	s.flush()
	s.wait()
	s.running = nil
}
