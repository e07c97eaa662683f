package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/hostler/hostler/runtime/tree"
	"github.com/hostler/hostler/snapshot/index"
	"github.com/hostler/hostler/snapshot/pack"
	"github.com/hostler/hostler/workload"
)

// maxScanned is how many times max_files entries a container may list.
const maxScanned = 10

// scanCursor lists what a container has. It is used by one goroutine.
type scanCursor struct {
	scan  tree.Scan // nil when the directory does not exist
	pace  *pace
	batch []tree.Entry
	left  int // entries that it may still return
}

// openScan begins to list the directory of a mapping.
func (d *download) openScan(ctx context.Context, m workload.Mapping) (*scanCursor, error) {
	c := &scanCursor{pace: newPace(ctx, nil), left: min(d.sync.MaxFiles, math.MaxInt/maxScanned) * maxScanned}
	c.pace.beginWait()
	scan, err := d.files.ScanTree(c.pace.ctx, d.to.Container, m.Path, tree.ScanOptions{})
	if cut := c.pace.endWait(0); cut != nil {
		err = cut
	}
	if isMissing(err) {
		return c, nil
	}
	if err != nil {
		if scan != nil {
			_ = scan.Close()
		}
		c.pace.stop()
		return nil, fmt.Errorf("list the container's files: %w", err)
	}
	c.scan = scan
	return c, nil
}

// peek returns the next entry, nil after the last one.
func (c *scanCursor) peek() (*tree.Entry, error) {
	for len(c.batch) == 0 {
		if c.scan == nil {
			return nil, nil
		}
		c.pace.beginWait()
		batch, err := c.scan.Next()
		if cut := c.pace.endWait(len(batch) * paceOfEntry); cut != nil {
			err = cut
		}
		if errors.Is(err, io.EOF) {
			c.end()
			return nil, nil
		}
		if c.left -= len(batch); err == nil && c.left < 0 {
			err = fmt.Errorf("%w: %w: it has more than %d times max_files entries", ErrContainer, ErrTooLarge, maxScanned)
		}
		if err != nil {
			return nil, fmt.Errorf("list the container's files: %w", err)
		}
		c.batch = batch
	}
	return &c.batch[0], nil
}

func (c *scanCursor) skip() { c.batch = c.batch[1:] }

func (c *scanCursor) end() {
	if c.scan != nil {
		_ = c.scan.Close() // it is read to its end, or not needed
		c.scan = nil
	}
}

func (c *scanCursor) close() {
	c.end()
	c.pace.stop()
}

// heldCursor has what the server knows of the files that it last put into the
// container, or read from it. It is only a hint: without it, every file is
// written again. It is used by one goroutine.
type heldCursor struct {
	from    *pack.Reader
	records *index.Records // nil when there are none, or no more
	seen    *seenReader
	now     index.Record // the first one of a file
	stamp   tree.Stamp
}

// openHeld opens the index of the held part, if it has a seen list.
func (t *partDownload) openHeld(ctx context.Context) (*heldCursor, error) {
	number, p := numberedPart(t.held, t.part.SinkPath)
	h := &heldCursor{seen: &seenReader{}}
	if number < 0 || !hasSeenList(p) {
		return h, nil
	}
	r := t.repository(t.dir, t.head)
	h.from = r.reader(t.progress)
	root, err := r.openPart(ctx, h.from, p)
	if err != nil {
		h.from.Close()
		h.from = nil
		return h, context.Cause(ctx)
	}
	h.seen = openSeen(ctx, t.bucket, seenKey(t.dir, t.held.ID, t.to.Container, number))
	h.records = root.Records(ctx, h.from)
	h.advance()
	return h, nil
}

// advance reads the next file. Damage ends the hints.
func (h *heldCursor) advance() {
	for h.records != nil {
		r, err := h.records.Next()
		if err != nil {
			h.end()
			return
		}
		if r.Kind == tree.File && !r.Continued {
			h.now, h.stamp = r, h.seen.next()
			return
		}
	}
}

func (h *heldCursor) end() {
	if h.records != nil {
		h.records.Close()
		h.records = nil
	}
}

// find returns the record of a file, its first one if it has several, and the
// stamp that it had. The paths of calls ascend.
func (h *heldCursor) find(p string) (index.Record, tree.Stamp, bool) {
	for h.records != nil && tree.Compare(h.now.Path, p) < 0 {
		h.advance()
	}
	if h.records == nil || h.now.Path != p {
		return index.Record{}, tree.Stamp{}, false
	}
	return h.now, h.stamp, true
}

// rest reads the next record of a file that has several.
func (h *heldCursor) rest() (index.Record, bool) {
	r, err := h.records.Next()
	if err != nil || !r.Continued {
		h.end()
		return index.Record{}, false
	}
	return r, true
}

func (h *heldCursor) close() {
	h.end()
	h.seen.close()
	if h.from != nil {
		h.from.Close()
	}
}
