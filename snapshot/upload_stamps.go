package snapshot

import (
	"github.com/hostler/hostler/runtime/tree"
)

// Limits of the stamps of an upload.
const (
	// maxStampsHeld bounds the stamps of an upload that are in memory. For more of
	// them, of files that were read although nothing has changed, there is no list.
	maxStampsHeld = 256 << 10
	// spillStamps is from where on the list of a new snapshot is stored while it is
	// made.
	spillStamps = 16 << 10
	// missedSeen is the share of files, one of so many, that an unchanged upload
	// reads before their list is replaced.
	missedSeen = 8
)

// stampList collects the stamps of a part's files, in the order of its index.
// As long as they are those of the last list, they are only counted.
type stampList struct {
	*pass
	part    int
	lastKey string // of the last list in this container; "" for none

	files  int
	read   int // of these, those that were read
	begin  int // stamps that the last list begins with, as this one does
	held   []tree.Stamp
	writer *seenWriter // once it is stored while it is made
	failed bool        // there is no list
}

// newStamps returns the list of the next part.
func (p *pass) newStamps(last *Part) *stampList {
	l := &stampList{pass: p, part: len(p.stamps)}
	current, _ := p.previous.current()
	for i := range current.Parts {
		if last != nil && current.Parts[i].SinkPath == last.SinkPath {
			l.lastKey = seenKey(p.dir, current.ID, p.origin.Container, i)
		}
	}
	p.stamps = append(p.stamps, l)
	return l
}

// add adds the stamp of the next file. The argument known means that the last
// list has it at this place, if it has all before.
func (l *stampList) add(s tree.Stamp, known bool) {
	l.files++
	switch {
	case l.failed:
	case known && l.begin == l.files-1:
		l.begin++
	case l.writer != nil:
		l.failed = l.writer.add(s) != nil
	default:
		l.hold(s)
	}
}

// hold keeps a stamp until the end, or begins to store the list.
func (l *stampList) hold(s tree.Stamp) {
	l.held = append(l.held, s)
	if l.stampsHeld++; l.stampsHeld < spillStamps {
		return
	}
	if l.changed {
		l.open(l.id)
		return
	}
	if l.stampsHeld >= maxStampsHeld {
		l.failed = true
		l.forget()
	}
}

func (l *stampList) forget() {
	l.stampsHeld -= len(l.held)
	l.held = nil
}

// open begins to store the list for a snapshot, with what there is.
func (l *stampList) open(snapshot string) {
	var err error
	if l.writer, err = newSeenWriter(l.ctx, l.bucket, seenKey(l.dir, snapshot, l.origin.Container, l.part)); err != nil {
		l.failed = true
		return
	}
	if l.begin > 0 {
		last := openSeen(l.ctx, l.bucket, l.lastKey)
		defer last.close()
		for range l.begin {
			l.failed = l.failed || l.writer.add(last.next()) != nil
		}
	}
	for _, s := range l.held {
		l.failed = l.failed || l.writer.add(s) != nil
	}
	l.forget()
}

// recall reads what was only counted, so that the last list can be replaced.
func (l *stampList) recall() bool {
	if l.failed || l.writer != nil || l.begin+len(l.held) > maxStampsHeld {
		return false
	}
	var all []tree.Stamp
	last := openSeen(l.ctx, l.bucket, l.lastKey)
	defer last.close()
	for range l.begin {
		all = append(all, last.next())
	}
	l.held, l.begin = append(all, l.held...), 0
	return true
}

// end stores the list, or what is left of it, for a snapshot.
func (l *stampList) end(snapshot string) {
	if l.writer == nil && !l.failed {
		l.open(snapshot)
	}
	if l.writer != nil && !l.failed {
		_ = l.writer.finish() // without it the files are read
		l.writer = nil
	}
	l.abort()
}

// abort discards what is not complete.
func (l *stampList) abort() {
	if l.writer != nil {
		l.writer.abort()
		l.writer = nil
	}
}

// storeStamps stores the lists of a new snapshot, and replaces those of the
// current one that had little to do with the container.
func (p *pass) storeStamps() {
	current, _ := p.previous.current()
	changed := p.isChanged(p.parts)
	for i, l := range p.stamps {
		large := hasSeenList(p.parts[i])
		switch {
		case large && changed:
			l.end(p.id)
		case large && l.read > l.files/missedSeen && l.recall():
			if p.bucket.Delete(p.ctx, seenKey(p.dir, current.ID, p.origin.Container, i)) == nil {
				l.end(current.ID)
			}
		}
	}
}

func (p *pass) abortStamps() {
	for _, l := range p.stamps {
		l.abort()
	}
}
