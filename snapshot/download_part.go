package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/runtime/tree"
	"github.com/hostler/hostler/snapshot/index"
	"github.com/hostler/hostler/snapshot/pack"
)

// downloadPart puts the part of the snapshot that belongs to a mapping into the
// container.
func (d *download) downloadPart(ctx context.Context, mapping int) error {
	m := d.sync.Mappings[mapping]
	number, p := numberedPart(d.done.Snapshot, m.SinkPath)
	if d.to.Holds == "" && p.Files == 0 {
		return nil
	}
	from := d.repository(d.dir, d.head).reader(d.progress)
	defer from.Close()
	t := &partDownload{download: d, mapping: mapping, part: p, from: from, root: &index.Root{}}
	if number >= 0 {
		var err error
		if t.root, err = d.repository(d.dir, d.head).openPart(ctx, from, p); err != nil {
			return err
		}
	}
	// The list of a snapshot that the container holds is read, and cannot be
	// replaced as well.
	if number < 0 || !hasSeenList(p) || d.to.Holds == d.done.Snapshot.ID {
		return t.run(ctx)
	}
	t.seen = newSeenList()
	var g errgroup.Group
	g.Go(func() error {
		t.seen.store(ctx, d.bucket, seenKey(d.dir, d.done.Snapshot.ID, d.to.Container, number))
		return nil
	})
	err := t.run(ctx)
	t.seen.end(err == nil)
	_ = g.Wait()
	return err
}

// numberedPart returns the part of a sink path and its number in the snapshot, -1
// if it has none.
func numberedPart(s Snapshot, sinkPath string) (int, Part) {
	i := slices.IndexFunc(s.Parts, func(p Part) bool { return p.SinkPath == sinkPath })
	if i < 0 {
		return i, Part{SinkPath: sinkPath}
	}
	return i, s.Parts[i]
}

// partDownload is the download of one part.
type partDownload struct {
	*download
	mapping int
	part    Part
	from    *pack.Reader
	root    *index.Root
	seen    *seenList // nil when there is none

	fetch *fetcher
	// What follows is of the goroutine that reads the index.
	ahead []index.Record // that were read before they were needed, with their own chunks
	files int
	bytes int64
}

// run writes the part, while its index and its chunks are read ahead.
func (t *partDownload) run(ctx context.Context) error {
	if t.to.Holds != "" {
		if err := t.makeDirs(ctx); err != nil {
			return err
		}
	}
	late, err := t.runAhead(ctx)
	if err == nil && len(late) > 0 {
		err = t.removeLate(ctx, late)
	}
	return err
}

func (t *partDownload) runAhead(ctx context.Context) (late []string, err error) {
	window, done := t.window()
	defer done()
	g, ctx := errgroup.WithContext(ctx)
	t.fetch = newFetcher(ctx, t.from, t.heldPack(), 2*t.root.Files, window)
	defer t.fetch.close()
	g.Go(func() (err error) {
		records := t.root.Records(ctx, t.from)
		defer records.Close()
		if late, err = t.plan(ctx, records); err == nil {
			t.fetch.finish()
		}
		return err
	})
	g.Go(func() error {
		to := newPace(ctx, nil)
		defer to.stop()
		var stamped func([]tree.Stamp)
		if t.seen != nil {
			stamped = t.seen.stamped
		}
		return t.writeTree(to, t.sync.Mappings[t.mapping], stamped, func(w *containerWriter) error { return t.writeItems(t.fetch, w) })
	})
	err = g.Wait()
	t.done.Files += t.files
	t.done.Bytes += t.bytes
	return late, err
}

// heldPack returns the pack that the reader holds, if it holds one.
func (t *partDownload) heldPack() pack.ID {
	ref, err := t.part.Index.ref()
	if err != nil || t.part.Index.PackSize > pack.MaxHeld || t.part.Index.PackSize <= 0 {
		return pack.ID{}
	}
	return ref.Pack
}

// plan adds all that has to be written to the fetcher. It returns directories
// that are to be removed after that.
func (t *partDownload) plan(ctx context.Context, records *index.Records) (late []string, err error) {
	if t.to.Holds != "" {
		return t.planDifference(ctx, records)
	}
	for {
		r, err := t.next(records)
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		if err == nil {
			err = t.write(r, false)
		}
		if err != nil {
			return nil, err
		}
	}
}

// next returns the next record of the index.
func (t *partDownload) next(records *index.Records) (index.Record, error) {
	if len(t.ahead) > 0 {
		r := t.ahead[0]
		t.ahead = t.ahead[1:]
		return r, nil
	}
	r, err := records.Next()
	if err == nil && !r.Continued {
		err = t.check(r)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("the index in pack %s: %w", t.part.Index.Pack, storedError(err))
	}
	return r, err
}

// check counts a record that begins an entry. The list of snapshots has the
// limits: what exceeds them is not written, although the index finds out at its
// end.
func (t *partDownload) check(r index.Record) error {
	if t.files >= t.part.Files || r.Size > t.part.Bytes-t.bytes {
		return fmt.Errorf("%w: it has more than the %d files of %d bytes that the list of snapshots names", ErrCorrupt, t.part.Files, t.part.Bytes)
	}
	t.files++
	t.bytes += r.Size
	return nil
}

// write adds what a record has to the fetcher. A known entry exists, and only its
// metadata differs.
func (t *partDownload) write(r index.Record, known bool) error {
	it := item{do: addContent}
	if !r.Continued {
		it = item{do: create, entry: r.Entry, known: known}
		if t.seen != nil && r.Kind == tree.File {
			t.seen.created()
		}
		if len(r.Chunks) == 0 {
			return t.fetch.add(it, nil)
		}
	}
	for i := range r.Chunks {
		if err := t.fetch.add(it, &r.Chunks[i]); err != nil {
			return err
		}
		it = item{do: addContent}
	}
	return nil
}
