package snapshot

import (
	"archive/tar"
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/runtime/tree"
	"github.com/hostler/hostler/snapshot/pack"
)

// zeros are the content of holes.
var zeros [64 << 10]byte

// exportBuffer is the size of the writes of an export.
const exportBuffer = 128 << 10

// Export writes a snapshot, or the current one for "", as a tar in the pax format.
// Names are those in the container without the first slash, in the order of
// tree.Compare. What belongs to the container's user belongs to 0:0 in the tar.
// Holes are zeros. It calls open once it has found the snapshot, for the writer that
// gets the tar. The error is ErrReplaced if newer snapshots replaced it before its
// end, and it took longer than the grace. After an error the tar has no end, so that it does not look complete.
func (s *Sink) Export(ctx context.Context, o Owner, id string, open func(Snapshot) (io.Writer, error)) (Snapshot, error) {
	exported, err := s.export(ctx, o, id, open)
	if err != nil {
		return exported, fmt.Errorf("export snapshot %s of tenant %q of workload %s: %w", cmp.Or(id, exported.ID), o.Tenant, o.Workload, err)
	}
	return exported, nil
}

func (s *Sink) export(ctx context.Context, o Owner, id string, open func(Snapshot) (io.Writer, error)) (Snapshot, error) {
	dir, err := ownerDir(s.sync.Sink, o)
	if err != nil {
		return Snapshot{}, err
	}
	h, err := s.loadManifest(ctx, dir, o)
	if err != nil {
		return Snapshot{}, err
	}
	found, err := h.selected(id)
	if err == nil && len(found) == 0 {
		err = ErrNoSnapshot
	}
	if err != nil {
		return Snapshot{}, err
	}
	w, err := open(found[0])
	if err != nil {
		return found[0], err
	}
	buffered := bufio.NewWriterSize(w, exportBuffer)
	e := &exporter{repository: s.repository(dir, h), to: tar.NewWriter(buffered)}
	e.reader = e.repository.reader(nil)
	defer e.reader.Close()
	parts := slices.Clone(found[0].Parts)
	for i := range parts {
		parts[i].Path = s.pathOf(parts[i])
	}
	slices.SortFunc(parts, func(a, b Part) int { return tree.Compare(a.Path, b.Path) })
	for _, p := range parts {
		if err := e.part(ctx, p); err != nil {
			return found[0], fmt.Errorf("%s: %w", p.Path, s.replacedError(ctx, dir, o, found[0], storedError(err)))
		}
	}
	if err := e.to.Close(); err != nil {
		return found[0], err
	}
	return found[0], buffered.Flush()
}

// replacedError returns the error of reading a snapshot. When what is missing was
// removed because the snapshot is not kept any more, it is ErrReplaced.
func (s *Sink) replacedError(ctx context.Context, dir string, o Owner, read Snapshot, err error) error {
	if !isDamage(err) {
		return err
	}
	if now, loadErr := s.loadManifest(ctx, dir, o); loadErr == nil && !now.has(read.ID) {
		return fmt.Errorf("%w: %s", ErrReplaced, err.Error())
	}
	return err
}

// selected returns the snapshot of an id, or all for "".
func (h manifest) selected(id string) ([]Snapshot, error) {
	if id == "" {
		return h.Snapshots, nil
	}
	i := slices.IndexFunc(h.Snapshots, func(s Snapshot) bool { return s.ID == id })
	if i < 0 {
		return nil, ErrNoSnapshot
	}
	return h.Snapshots[i : i+1], nil
}

// pathOf returns where a part is in containers: its mapping may have another path
// since.
func (s *Sink) pathOf(p Part) string {
	for _, m := range s.sync.Mappings {
		if m.SinkPath == p.SinkPath {
			return m.Path
		}
	}
	return p.Path
}

// exporter writes a tar. It is used by one goroutine.
type exporter struct {
	repository repository
	reader     *pack.Reader
	to         *tar.Writer
	batch      batch
	chunk      []byte
}

// part writes the entries of a part.
func (e *exporter) part(ctx context.Context, p Part) error {
	root, err := e.repository.openPart(ctx, e.reader, p)
	if err != nil {
		return err
	}
	base := strings.Trim(p.Path, "/")
	if root.Files == 0 && base != "" {
		// So that an import finds the part.
		return e.header(tree.Entry{Kind: tree.Dir, Mode: 0o755, Owner: tree.OwnUser, Group: tree.OwnGroup, ModTime: time.Unix(0, 0)}, base)
	}
	records := root.Records(ctx, e.reader)
	defer records.Close()
	steps := &stepReader{from: records}
	for {
		err := e.batch.fill(steps)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if err := e.batch.fetch(ctx, e.reader, func(pack.Ref) bool { return true }); err != nil {
			return err
		}
		for _, s := range e.batch.steps {
			if err := e.step(s, base); err != nil {
				return err
			}
		}
		if err != nil {
			return nil
		}
	}
}

func (e *exporter) step(s readStep, base string) error {
	if s.begins {
		name := s.Path
		if base != "" {
			name = base + "/" + name
		}
		return e.header(s.Entry, name)
	}
	if s.chunk.Hole > 0 {
		return e.hole(s.chunk.Hole)
	}
	stored, err := e.batch.bytes(s.chunk.Ref)
	if err != nil {
		return err
	}
	if e.chunk, err = e.reader.Decode(e.chunk[:0], pack.Data, s.chunk.Ref, stored); err != nil {
		return err
	}
	_, err = e.to.Write(e.chunk)
	return err
}

// hole writes zeros.
func (e *exporter) hole(size int64) error {
	for size > 0 {
		n, err := e.to.Write(zeros[:min(size, int64(len(zeros)))])
		if err != nil {
			return err
		}
		size -= int64(n)
	}
	return nil
}

// header writes the header of an entry.
func (e *exporter) header(entry tree.Entry, name string) error {
	h := &tar.Header{
		Name: name, Mode: int64(entry.Mode), Uid: int(max(entry.Owner, 0)), Gid: int(max(entry.Group, 0)),
		ModTime: entry.ModTime, Format: tar.FormatPAX, Typeflag: tar.TypeReg,
	}
	switch entry.Kind {
	case tree.File:
		h.Size = entry.Size
	case tree.Dir:
		h.Typeflag = tar.TypeDir
		h.Name += "/"
	case tree.Link:
		h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, entry.Target, 0o777
	}
	return e.to.WriteHeader(h)
}
