package store

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/hostler/hostler/activity"
)

// eventBufferLength is how many of the newest events are kept in memory at least.
const eventBufferLength = 2048

// eventBuffer is the newest end of the log, kept in memory so that followers, who
// nearly always want what has just been written, cost the database nothing.
// The database stays the truth: whoever asks for what the tail has dropped, or
// does not have yet, reads it there.
type eventBuffer struct {
	mu        sync.RWMutex     // guards what follows
	events    []activity.Event // without a gap, up to last
	last      int64
	pending   map[int64]activity.Event // committed here before what comes before them was heard of
	lastKnown int64                    // the newest event that was heard of, maybe after a gap
	changed   chan struct{}            // closed and replaced when events come
	closed    bool
}

func newEventBuffer() *eventBuffer {
	return &eventBuffer{pending: map[int64]activity.Event{}, changed: make(chan struct{})}
}

// reset sets the tail to the end of the log: the number of the last event, and
// the newest ones. A tail that has come further stays as it is.
func (t *eventBuffer) reset(last int64, newest []activity.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(newest); n > 0 {
		last = max(last, newest[n-1].Seq) // some may have come after the number was read
	}
	if last <= t.last {
		return
	}
	t.last, t.events = last, newest
	maps.DeleteFunc(t.pending, func(seq int64, _ activity.Event) bool { return seq <= last })
	t.appendPending()
	t.notify()
}

// add takes committed events, in order of their numbers, and wakes the
// followers if it did not know of them. With one server that makes one change
// at a time there are no gaps; others commit in between, and two transactions
// may be told of in another order than that of their commits.
func (t *eventBuffer) add(events []activity.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	news := false
	for _, e := range events {
		if _, early := t.pending[e.Seq]; early || e.Seq <= t.last {
			continue
		}
		news = true
		if e.Seq == t.last+1 {
			t.events, t.last = append(t.events, e), e.Seq
			continue
		}
		t.pending[e.Seq] = e
		t.lastKnown = max(t.lastKnown, e.Seq)
	}
	if news {
		t.appendPending()
		t.notify()
	}
}

// appendPending appends what waited for the events before it, and forgets what is old.
// It is called with mu held.
func (t *eventBuffer) appendPending() {
	for e, ok := t.pending[t.last+1]; ok; e, ok = t.pending[t.last+1] {
		delete(t.pending, e.Seq)
		t.events, t.last = append(t.events, e), e.Seq
	}
	t.lastKnown = max(t.lastKnown, t.last)
	if len(t.pending) > eventBufferLength {
		clear(t.pending) // the database has them
	}
	if len(t.events) > 2*eventBufferLength {
		t.events = slices.Clone(t.events[len(t.events)-eventBufferLength:])
	}
}

// lastContiguous is the number of the last event without a gap before it.
func (t *eventBuffer) lastContiguous() int64 {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.last
}

// discard forgets the events up to seq: retention has removed them.
func (t *eventBuffer) discard(seq int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := 0
	for i < len(t.events) && t.events[i].Seq <= seq {
		i++
	}
	t.events = slices.Clone(t.events[i:])
}

// stop wakes the followers for the last time.
func (t *eventBuffer) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.closed = true
		t.notify()
	}
}

// notify is called with mu held.
func (t *eventBuffer) notify() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// subscribe returns a channel that is closed when events come after this call.
func (t *eventBuffer) subscribe() <-chan struct{} {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.changed
}

// page is the page of matching events after seq; ok is false when the tail
// does not reach back so far, or knows that it misses some.
func (t *eventBuffer) page(f activity.Filter, after int64, limit int) (p activity.Page, ok bool, err error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.closed {
		return p, false, ErrClosed
	}
	first := t.last + 1
	if len(t.events) > 0 {
		first = t.events[0].Seq
	}
	if after < first-1 || t.last < t.lastKnown {
		return p, false, nil
	}
	p.Next = max(after, t.last)
	for _, e := range t.events[min(after-(first-1), int64(len(t.events))):] {
		if !matchesFilter(f, e) {
			continue
		}
		p.Items = append(p.Items, e)
		if len(p.Items) == limit {
			p.Next = e.Seq
			break
		}
	}
	return p, true, nil
}

// matchesFilter says whether f asks for e: what conditions (events.go) asks of the
// database.
func matchesFilter(f activity.Filter, e activity.Event) bool {
	for _, field := range []struct{ want, have string }{
		{f.Workload, e.Workload},
		{f.Container, e.Container},
		{f.Tenant, e.Tenant},
		{f.Claim, e.Claim},
		{f.Point, e.Point},
	} {
		if field.want != "" && field.want != field.have {
			return false
		}
	}
	return len(f.Types) == 0 || slices.ContainsFunc(f.Types, func(want activity.Type) bool {
		return e.Type == want || strings.HasPrefix(string(e.Type), string(want)+".")
	})
}
