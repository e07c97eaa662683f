package snapshot

import (
	"context"
	"errors"
	"io"

	"github.com/hostler/hostler/runtime/tree"
	"github.com/hostler/hostler/snapshot/index"
	"github.com/hostler/hostler/workload"
)

// partScan merges what is in the container with the last index of a mapping.
type partScan struct {
	*pass
	mapping workload.Mapping
	check   entryCheck
	seen    seenFiles
	old     *cursor
	above   ancestors // with those that the pattern excludes
	blocked string    // the last entry that is not a directory
	out     *recordWriter
	stamps  *stampList

	plans []plan // of the entries of a batch
	reads []int  // those of them that are read
	buf   []byte // a file, until it is known to be new
}

// plan is what is done with an entry.
type plan byte

const (
	planKeep   plan = iota // it is written as it is listed
	planLeave              // the pattern excludes it
	planSame               // its content is that of the last snapshot
	planRead               // its content is read
	planRemove             // it has gone since it was listed
)

func (p *pass) newPartScan(ctx context.Context, m workload.Mapping, last *Part, from *lastIndex) *partScan {
	s := &partScan{
		pass: p, mapping: m, old: from.cursor(ctx), out: &recordWriter{pass: p, ctx: ctx, last: from},
		seen: seenFiles{ahead: from.cursor(ctx), seen: &seenReader{}},
	}
	s.stamps = p.newStamps(last)
	if s.stamps.lastKey != "" && hasSeenList(*last) {
		s.seen.seen = openSeen(ctx, p.bucket, s.stamps.lastKey)
	}
	return s
}

// begin goes to the first records. A mapping without a last index has changed.
func (s *partScan) begin() error {
	if err := s.old.next(); err != nil {
		return err
	}
	if err := s.seen.next(); err != nil {
		return err
	}
	if s.out.last.root == nil {
		return s.out.change()
	}
	return nil
}

func (s *partScan) close() {
	s.old.close()
	s.seen.close()
}

// releaseReason is the reason of an upload after which nothing runs in the
// container.
const releaseReason = "release"

func (s *partScan) scanOptions() tree.ScanOptions {
	return tree.ScanOptions{Live: s.origin.Reason != releaseReason}
}

// scan lists what is in the container, and reads what is not known.
func (s *partScan) scan(ctx context.Context) error {
	from := newPace(ctx, s.checkPace)
	defer from.stop()
	from.beginWait()
	scan, err := s.files.ScanTree(from.ctx, s.origin.Container, s.mapping.Path, s.scanOptions())
	if err != nil && !isMissing(err) {
		return from.result(err)
	}
	if err == nil {
		err = s.batches(pacedScan{scan, from})
		if closed := scan.Close(); err == nil {
			err = closed
		}
	} else {
		err = nil
	}
	if err == nil {
		err = s.rest()
	}
	return from.result(containerError(err))
}

// batches merges all batches of a scan.
func (s *partScan) batches(scan tree.Scan) error {
	for {
		entries, err := scan.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = s.batch(scan, entries)
		}
		if err != nil {
			return err
		}
	}
}

// batch merges a batch: what is not read is merged when the next file that is
// read begins.
func (s *partScan) batch(scan tree.Scan, entries []tree.Entry) error {
	s.plans, s.reads = s.plans[:0], s.reads[:0]
	for i, e := range entries {
		p, err := s.plan(e)
		if err != nil {
			return err
		}
		s.plans = append(s.plans, p)
		if p == planRead {
			s.reads = append(s.reads, i)
		}
	}
	next := 0
	until := func(end int) error {
		for ; next < end; next++ {
			if s.plans[next] == planRead {
				s.plans[next] = planRemove
			}
			if err := s.merge(entries[next], s.plans[next], nil); err != nil {
				return err
			}
		}
		return nil
	}
	if len(s.reads) > 0 {
		err := scan.Read(s.reads, func(i int, as tree.Entry, content tree.Content) error {
			if i < next || i >= len(entries) || s.plans[i] != planRead {
				return archiveErrorf("the file %d of %d was read", i, len(entries))
			}
			if err := checkOpened(entries[i], as); err != nil {
				return err
			}
			if err := until(i); err != nil {
				return err
			}
			next = i + 1
			return s.merge(as, planRead, content)
		})
		if err != nil {
			return err
		}
	}
	return until(len(entries))
}

// plan checks an entry and decides what is done with it.
func (s *partScan) plan(e tree.Entry) (plan, error) {
	if err := s.check.check(e); err != nil {
		return 0, err
	}
	if !matches(s.mapping.Pattern, e.Path) {
		return planLeave, s.bounds.leaveOut(e.Size)
	}
	if e.Kind != tree.File {
		return planKeep, nil
	}
	same, err := s.seen.isSame(e)
	if err != nil || same {
		return planSame, err
	}
	// Reading it takes a buffer of its size, or one that cuts.
	if e.Size > peekSize {
		return planRead, s.needMemory()
	}
	return planRead, nil
}

// merge adds an entry to the index, after the directories above it that the
// pattern excludes.
func (s *partScan) merge(e tree.Entry, p plan, content tree.Content) error {
	if p == planRemove {
		return nil
	}
	s.above.descend(e.Path)
	if p != planLeave {
		for i := range s.above.dirs {
			d := &s.above.dirs[i]
			if d.written {
				continue
			}
			d.written = true
			dir := d.entry
			dir.Path = s.above.name[:d.end]
			if err := s.mergeKept(dir, planKeep, nil); err != nil {
				return err
			}
		}
	}
	s.above.advance(e, p != planLeave)
	if p == planLeave {
		return nil
	}
	return s.mergeKept(e, p, content)
}

// mergeKept adds an entry to the index, after those of the last one that come
// before it.
func (s *partScan) mergeKept(e tree.Entry, p plan, content tree.Content) error {
	for s.old.ok && tree.Compare(s.old.now.Path, e.Path) < 0 {
		if err := s.onlyOld(); err != nil {
			return err
		}
	}
	if err := s.bounds.add(&e); err != nil {
		return err
	}
	if e.Kind != tree.Dir {
		s.blocked = e.Path
	}
	switch p {
	case planRead:
		return s.read(e, content)
	case planSame:
		return s.sameContent(e)
	}
	return s.withoutContent(e)
}

// rest ends the merge with what only the last index has.
func (s *partScan) rest() error {
	for s.old.ok {
		if err := s.onlyOld(); err != nil {
			return err
		}
	}
	return nil
}

// onlyOld is for an entry that is not in the container. A mapping that only adds
// keeps it, unless it is below something that is not a directory.
func (s *partScan) onlyOld() error {
	if s.mapping.Mode != workload.ModeCopy || s.blocked != "" && isInside(s.old.now.Path, s.blocked) {
		return s.dropOld()
	}
	r := s.old.now
	if err := s.bounds.add(&r.Entry); err != nil {
		return err
	}
	return s.keepOld(r.Entry, tree.Stamp{}, false)
}

// dropOld leaves out an entry of the last index.
func (s *partScan) dropOld() error {
	if err := s.out.change(); err != nil {
		return err
	}
	const few = 16
	for _, c := range s.old.now.Chunks[:min(len(s.old.now.Chunks), few)] {
		if err := s.out.remember(c); err != nil {
			return err
		}
	}
	return s.old.nextEntry()
}

// keepOld writes the entry that the cursor is at, with the metadata of e.
func (s *partScan) keepOld(e tree.Entry, stamp tree.Stamp, unread bool) error {
	if s.old.now.Kind == tree.File {
		s.stamps.add(stamp, unread && !s.out.changed)
	}
	r := s.old.now
	r.Entry = e
	r.Stamp = tree.Stamp{}
	for {
		if err := s.out.same(r); err != nil {
			return err
		}
		if err := s.old.next(); err != nil || !s.old.at(e.Path) {
			return err
		}
		r = s.old.now
	}
}

// sameContent is for a file whose content is that of the last snapshot.
func (s *partScan) sameContent(e tree.Entry) error {
	was := s.old.now
	if !s.old.at(e.Path) || was.Kind != tree.File || was.Size != e.Size {
		return errShortIndex // it was there a moment ago
	}
	if !sameMetadata(was.Entry, e) {
		if err := s.out.change(); err != nil {
			return err
		}
	}
	return s.keepOld(e, e.Stamp, true)
}

// withoutContent is for a directory or a link. The time of either is no change:
// that of a directory changes with its contents, and neither describes the
// state.
func (s *partScan) withoutContent(e tree.Entry) error {
	if s.old.at(e.Path) {
		was := s.old.now.Entry
		e.ModTime = was.ModTime
		if sameMetadata(was, e) {
			return s.keepOld(e, tree.Stamp{}, false)
		}
		if err := s.dropOld(); err != nil {
			return err
		}
	}
	return s.out.write(index.Record{Entry: e})
}

// sameMetadata reports whether two entries of a path are the same but for their
// contents.
func sameMetadata(a, b tree.Entry) bool {
	return a.Kind == b.Kind && a.Mode == b.Mode && a.Owner == b.Owner && a.Group == b.Group && a.Size == b.Size &&
		a.Target == b.Target && a.ModTime.Equal(b.ModTime)
}

// read is for a file whose content is read.
func (s *partScan) read(as tree.Entry, content tree.Content) error {
	s.moved.MovedFiles++
	s.moved.MovedBytes += as.Size
	if as.Size > peekSize {
		if err := s.needMemory(); err != nil {
			return err
		}
	}
	f := &fileWriter{out: s.out, head: as}
	f.head.Stamp = tree.Stamp{}
	here := s.old.at(as.Path)
	if here && s.old.now.Kind == tree.File {
		f.last = newLastContent(s.old)
	}
	if f.last == nil || !sameMetadata(s.old.now.Entry, as) {
		if err := s.out.change(); err != nil {
			return err
		}
	}
	s.stamps.add(as.Stamp, false)
	s.stamps.read++
	if err := s.cut(f, as, content); err != nil {
		return err
	}
	if err := f.end(); err != nil {
		return err
	}
	if !here {
		return nil
	}
	for s.old.at(as.Path) {
		if err := s.old.next(); err != nil {
			return err
		}
	}
	return nil
}
