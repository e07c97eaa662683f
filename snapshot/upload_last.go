package snapshot

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/hostler/hostler/runtime/tree"
	"github.com/hostler/hostler/snapshot/index"
	"github.com/hostler/hostler/snapshot/pack"
)

// lastIndex is the index of the last snapshot of a mapping.
type lastIndex struct {
	root  *index.Root // nil when there is none
	from  *pack.Reader
	avoid map[pack.ID]bool // packs that the next index must not refer to
}

// smallIndex is how many segments may be read without memory from the quota.
// Several are read ahead.
const smallIndex = 2

// openLast opens the last index. The caller calls close.
func (u *upload) openLast(ctx context.Context, last *Part) (*lastIndex, error) {
	if last == nil {
		return &lastIndex{}, nil
	}
	repo := u.repository(u.dir, u.previous)
	l := &lastIndex{from: pack.NewReader(&sharedRanges{from: u.bucket}, u.dir+packsDir, repo.format, nil)}
	var err error
	if l.root, err = repo.openPart(ctx, l.from, *last); err != nil {
		l.from.Close()
		return nil, err
	}
	if len(l.root.Segments) > smallIndex {
		if err := u.needMemory(); err != nil {
			l.close()
			return nil, err
		}
	}
	l.avoid = compaction(l.root)
	return l, nil
}

func (l *lastIndex) close() {
	if l.from != nil {
		l.from.Close()
	}
}

// cursor returns a cursor before the first record. The caller calls close.
func (l *lastIndex) cursor(ctx context.Context) *cursor {
	if l.root == nil {
		return &cursor{}
	}
	return &cursor{records: l.root.Records(ctx, l.from)}
}

// cursor is at one record of an index.
type cursor struct {
	records *index.Records // nil when there is no index
	now     index.Record   // its chunks are valid until the next record
	ok      bool           // there is a record
}

// next goes to the next record.
func (c *cursor) next() error {
	c.ok = false
	if c.records == nil {
		return nil
	}
	r, err := c.records.Next()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return storedError(err)
	}
	c.now, c.ok = r, true
	return nil
}

// nextEntry goes to the first record of the next entry.
func (c *cursor) nextEntry() error {
	for {
		if err := c.next(); err != nil || !c.ok || !c.now.Continued {
			return err
		}
	}
}

// at reports whether the cursor is at the entry of a path.
func (c *cursor) at(path string) bool { return c.ok && c.now.Path == path }

func (c *cursor) close() {
	if c.records != nil {
		c.records.Close()
	}
}

// seenFiles knows which files are as they were when their content was stored.
// The index is read a second time for it, a batch of entries ahead, because the
// container is asked for a batch's files before any of it is compared.
type seenFiles struct {
	ahead *cursor
	seen  *seenReader
	stamp tree.Stamp // of the file that the cursor is at
}

// isSame reports whether a listed file is the one that was seen. The paths of
// calls ascend.
func (s *seenFiles) isSame(e tree.Entry) (bool, error) {
	for s.ahead.ok && tree.Compare(s.ahead.now.Path, e.Path) < 0 {
		if err := s.next(); err != nil {
			return false, err
		}
	}
	last := s.ahead.now
	return s.ahead.at(e.Path) && last.Kind == tree.File && last.Size == e.Size && last.ModTime.Equal(e.ModTime) &&
		!e.Stamp.IsZero() && e.Stamp == s.stamp, nil
}

// next goes to the next entry.
func (s *seenFiles) next() error {
	if err := s.ahead.nextEntry(); err != nil {
		return err
	}
	if s.ahead.ok && s.ahead.now.Kind == tree.File {
		s.stamp = s.seen.next()
	}
	return nil
}

func (s *seenFiles) close() {
	s.ahead.close()
	s.seen.close()
}

// maxWindow bounds the chunks of a file's last content that are held.
const maxWindow = 4 * index.MaxChunks

// lastContent is the content that a file had in the last snapshot. It holds a
// window of it, around the chunks that are compared.
type lastContent struct {
	from   *cursor
	more   bool // there are records that are not in the window
	window []index.Chunk
	begin  int // number of the window's first chunk
	known  map[pack.Hash]pack.Ref
	// odd means that a record does not have the chunks that an upload gives it, so
	// that records cannot be compared.
	odd bool
}

// newLastContent returns the content of the file that a cursor is at. The cursor
// is used until the file is complete.
func newLastContent(from *cursor) *lastContent {
	l := &lastContent{from: from, known: map[pack.Hash]pack.Ref{}}
	l.add()
	return l
}

// add adds the record that the cursor is at to the window.
func (l *lastContent) add() {
	r := l.from.now
	l.more = r.More
	l.odd = l.odd || r.More && len(r.Chunks) != index.MaxChunks
	l.window = append(l.window, r.Chunks...)
	for _, c := range r.Chunks {
		if c.Hole == 0 {
			l.known[c.Ref.Hash] = c.Ref
		}
	}
	if drop := len(l.window) - maxWindow; drop > 0 {
		for _, c := range l.window[:drop] {
			if l.known[c.Ref.Hash] == c.Ref {
				delete(l.known, c.Ref.Hash)
			}
		}
		l.window, l.begin = slices.Delete(l.window, 0, drop), l.begin+drop
	}
}

// reach makes the window contain the chunks around the nth.
func (l *lastContent) reach(n int) error {
	for l.more && l.begin+len(l.window) <= n+index.MaxChunks {
		if err := l.from.next(); err != nil {
			return err
		}
		if !l.from.ok {
			return nil
		}
		l.add()
	}
	return nil
}

// find returns where a chunk is that the file had.
func (l *lastContent) find(h pack.Hash) (pack.Ref, bool) {
	r, ok := l.known[h]
	return r, ok
}

// isNth reports whether the nth chunk was the same.
func (l *lastContent) isNth(n int, c index.Chunk) bool {
	if l.odd || n < l.begin || n >= l.begin+len(l.window) {
		return false
	}
	was := l.window[n-l.begin]
	return was.Hole == c.Hole && was.Ref.Size == c.Ref.Size && was.Ref.Hash == c.Ref.Hash
}

// endsAt reports whether the content had n chunks.
func (l *lastContent) endsAt(n int) bool { return !l.more && n == l.begin+len(l.window) }
