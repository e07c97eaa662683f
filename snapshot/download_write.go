package snapshot

import (
	"errors"
	"strings"

	"github.com/hostler/hostler/internal/flow"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/tree"
	"github.com/hostler/hostler/workload"
)

// What counts as transferred to or from a container, in bytes. An entry counts as
// several, so that a tree of small files is not too slow.
const (
	paceOfEntry = 256
	paceOfWrite = 256 << 10 // at most, so that one write is not too slow
)

// containerWriter writes a tree into a container, and bounds how long it waits.
// It is used by one goroutine.
type containerWriter struct {
	to    tree.Writer
	below string // what the paths are relative to, below the writer's directory
	pace  *pace
}

// isMissing reports whether a directory of a container does not exist.
func isMissing(err error) bool { return errors.Is(err, runtime.ErrFileNotFound) }

// openWriter begins to write into the directory of a mapping, which need not
// exist.
func (d *download) openWriter(to *pace, m workload.Mapping, stamped func([]tree.Stamp)) (*containerWriter, error) {
	if m.Volume != "" {
		return d.fill(to, m.Volume, relativeTo(m.Path, m.Volume), stamped)
	}
	w, err := d.fill(to, m.Path, "", stamped)
	if !isMissing(err) {
		return w, err
	}
	return d.fill(to, "/", relativeTo(m.Path, "/"), stamped)
}

// writeTree writes a tree into the directory of a mapping. The function fill
// writes it.
func (d *download) writeTree(to *pace, m workload.Mapping, stamped func([]tree.Stamp), fill func(*containerWriter) error) error {
	w, err := d.openWriter(to, m, stamped)
	if err != nil {
		return to.result(err)
	}
	if err = fill(w); err == nil {
		err = w.wait(0, w.to.Close)
	}
	if err != nil {
		err = to.result(err)
		w.to.Abort(err)
	}
	return err
}

// relativeTo returns the path of p relative to a directory, "" for the
// directory itself.
func relativeTo(p, dir string) string {
	return strings.TrimPrefix(strings.TrimPrefix(p, dir), "/")
}

func (d *download) fill(to *pace, dir, below string, stamped func([]tree.Stamp)) (*containerWriter, error) {
	w := &containerWriter{below: below, pace: to}
	err := w.wait(0, func() (err error) {
		w.to, err = d.files.FillTree(to.ctx, d.to.Container, dir, d.to.Fence, stamped)
		return err
	})
	if err != nil && w.to != nil {
		w.to.Abort(err) // it was begun, too late
	}
	return w, err
}

// wait makes a call that transfers n bytes.
func (w *containerWriter) wait(n int, call func() error) error {
	w.pace.beginWait()
	err := call()
	if cut := w.pace.endWait(n); cut != nil {
		return cut
	}
	return err
}

func (w *containerWriter) path(p string) string {
	if w.below == "" {
		return p
	}
	return w.below + "/" + p
}

func (w *containerWriter) create(e tree.Entry) error {
	e.Path = w.path(e.Path)
	return w.wait(paceOfEntry, func() error { return w.to.Create(e) })
}

func (w *containerWriter) remove(p string) error {
	return w.wait(paceOfEntry, func() error { return w.to.Remove(w.path(p)) })
}

func (w *containerWriter) write(data []byte) error {
	for len(data) > 0 {
		part := data[:min(len(data), paceOfWrite)]
		if err := w.wait(len(part), func() error { return w.to.Write(part) }); err != nil {
			return err
		}
		flow.Failpoint("snapshot", "content", "after")
		data = data[len(part):]
	}
	return nil
}

func (w *containerWriter) hole(size int64) error {
	return w.wait(paceOfEntry, func() error { return w.to.Hole(size) })
}

// writeItems writes what a fetcher returns.
func (d *download) writeItems(f *fetcher, w *containerWriter) error {
	for {
		it, ok, err := f.next()
		if err != nil || !ok {
			return err
		}
		if err := d.writeItem(it, w); err != nil {
			return err
		}
		f.release(it)
	}
}

func (d *download) writeItem(it item, w *containerWriter) error {
	switch it.do {
	case remove:
		return w.remove(it.entry.Path)
	case create:
		if err := w.create(it.entry); err != nil {
			return err
		}
		d.count(it)
	}
	switch {
	case it.hole > 0:
		return w.hole(it.hole)
	case it.blob != nil:
		return w.write(it.blob.data)
	}
	return nil
}

// count counts an entry that was written. A directory that exists keeps what it
// contains: only its metadata was written.
func (d *download) count(it item) {
	if it.known {
		return
	}
	d.done.MovedFiles++
	if it.entry.Kind == tree.File {
		d.done.MovedBytes += it.entry.Size
	}
}
