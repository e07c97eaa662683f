package snapshot

import (
	"context"
	"sync"

	"github.com/hostler/hostler/runtime/tree"
)

// The least state for which a seen list is stored: a smaller one is read faster.
const (
	minSeenBytes = 1 << 20
	minSeenFiles = 256
)

// hasSeenList reports whether a seen list is stored for a part.
func hasSeenList(p Part) bool { return p.Bytes >= minSeenBytes || p.Files >= minSeenFiles }

// maxPending bounds the stamps that wait: for the container, which returns them,
// or for the bucket. A list that exceeds it is not stored.
const maxPending = 1 << 17

// seenList collects the stamps of the files of a part, and stores them while
// the files are written.
type seenList struct {
	more chan struct{} // has an element after a change

	mu      sync.Mutex  // guards what follows
	queue   []seenStamp // of files, in order
	known   int         // how many of these at the beginning are known
	pending int         // how many are not known
	ended   bool
	failed  bool
}

type seenStamp struct {
	stamp tree.Stamp
	known bool
}

func newSeenList() *seenList { return &seenList{more: make(chan struct{}, 1)} }

// created adds a file whose stamp will be known later.
func (l *seenList) created() { l.add(seenStamp{}) }

// kept adds a file that is in the container already.
func (l *seenList) kept(s tree.Stamp) { l.add(seenStamp{s, true}) }

func (l *seenList) add(s seenStamp) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed = l.failed || len(l.queue) >= maxPending; l.failed {
		l.queue, l.known = nil, 0
		l.wake()
		return
	}
	l.queue = append(l.queue, s)
	if !s.known {
		l.pending++
	}
	l.advance()
}

// advance passes the stamps that are known. The caller holds mu.
func (l *seenList) advance() {
	for l.known < len(l.queue) && l.queue[l.known].known {
		l.known++
	}
	l.wake()
}

func (l *seenList) wake() {
	select {
	case l.more <- struct{}{}:
	default:
	}
}

// stamped adds the stamps of created files, in their order. A container can
// return more than there are files: these are ignored.
func (l *seenList) stamped(stamps []tree.Stamp) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range stamps {
		if l.failed || l.pending == 0 {
			break
		}
		l.queue[l.known] = seenStamp{s, true}
		l.pending--
		l.advance()
	}
}

// end ends the list. It is stored if the download was complete.
func (l *seenList) end(complete bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended, l.failed = true, l.failed || !complete
	for i := range l.queue { // files without a stamp are read again
		l.queue[i].known = true
	}
	l.advance()
}

// take returns stamps that are known, in the order of their files, none at the
// end.
func (l *seenList) take(ctx context.Context, to []tree.Stamp) (stamps []tree.Stamp, ok bool) {
	for {
		l.mu.Lock()
		for _, s := range l.queue[:l.known] {
			to = append(to, s.stamp)
		}
		l.queue, l.known = l.queue[l.known:], 0
		ended, failed := l.ended, l.failed
		l.mu.Unlock()
		if failed {
			return nil, false
		}
		if len(to) > 0 || ended {
			return to, true
		}
		select {
		case <-l.more:
		case <-ctx.Done():
			return nil, false
		}
	}
}

// store stores the list. A failure has no effect on the download: it makes the
// next upload slower.
func (l *seenList) store(ctx context.Context, b Bucket, key string) {
	// The container may have held the same snapshot before. No object is written
	// twice.
	if err := b.Delete(ctx, key); err != nil {
		l.fail()
		return
	}
	w, err := newSeenWriter(ctx, b, key)
	if err != nil {
		l.fail()
		return
	}
	var stamps []tree.Stamp
	for err == nil {
		var ok bool
		stamps, ok = l.take(ctx, stamps[:0])
		if !ok {
			w.abort()
			return
		}
		if len(stamps) == 0 {
			_ = w.finish()
			return
		}
		for _, s := range stamps {
			if err == nil {
				err = w.add(s)
			}
		}
	}
	l.fail()
	w.abort()
}

// fail makes the list end: it is not stored.
func (l *seenList) fail() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed, l.queue, l.known = true, nil, 0
}
