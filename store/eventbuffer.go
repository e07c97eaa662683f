package store

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/hostler/hostler/activity"
)

// eventBufferLength is the minimum number of the newest events that are kept in
// memory.
const eventBufferLength = 2048

// eventBuffer holds the newest events of the log in memory. Followers nearly
// always read what was just written, and so cost the database nothing. The
// database stays authoritative: events that the buffer has dropped, or does not
// have yet, are read from there. An event that retention has removed from between
// others has a placeholder, which has a number and no type.
type eventBuffer struct {
	mu        sync.RWMutex     // guards what follows
	events    []activity.Event // without a gap, up to last
	last      int64
	pending   map[int64]activity.Event // committed here before the preceding events were received
	lastKnown int64                    // the newest event that the log is known to have: it was received, perhaps after a gap, or expect was called
	rewinds   int                      // how often the log turned out to have lost its newest events
	changed   chan struct{}            // closed and replaced when events come
	closed    bool
}

func newEventBuffer() *eventBuffer {
	return &eventBuffer{pending: map[int64]activity.Event{}, changed: make(chan struct{})}
}

// reset sets the buffer to the end of the log: the number of the last event,
// and the newest events. A buffer that is further ahead stays unchanged.
func (t *eventBuffer) reset(last int64, newest []activity.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(newest); n > 0 {
		last = max(last, newest[n-1].Seq) // some may have been added after the number was read
	}
	if last <= t.last {
		return
	}
	t.last, t.events = last, newest
	maps.DeleteFunc(t.pending, func(seq int64, _ activity.Event) bool { return seq <= last })
	t.appendPending()
	t.notify()
}

// add appends committed events, in order of their numbers, and wakes the
// followers if any of the events is new. With one server that makes one change
// at a time there are no gaps. Other servers commit in between, and two
// transactions may be reported in another order than that of their commits.
func (t *eventBuffer) add(events []activity.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	added := false
	for _, e := range events {
		if t.contradicts(e) {
			t.rewind(e.Seq - 1)
		}
		if _, early := t.pending[e.Seq]; early || e.Seq <= t.last {
			continue
		}
		added = true
		if e.Seq == t.last+1 {
			t.events, t.last = append(t.events, e), e.Seq
			continue
		}
		t.pending[e.Seq] = e
		t.lastKnown = max(t.lastKnown, e.Seq)
	}
	if added {
		t.appendPending()
		t.notify()
	}
}

// appendPending appends the events that waited for a predecessor, and drops the
// oldest. The caller holds mu.
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

// expect records that the log has the event with that number: a page that ends before
// it is read from the database.
func (t *eventBuffer) expect(seq int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lastKnown = max(t.lastKnown, seq)
}

// verify compares the buffer with the end of the log, as it was read after the
// event before was known, and drops what the log does not have. That happens in
// a failover to a standby that missed the last commits.
func (t *eventBuffer) verify(before, last int64, newest []activity.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range newest {
		if t.contradicts(e) {
			t.rewind(e.Seq - 1)
			return
		}
	}
	if before > last {
		t.rewind(min(t.last, last))
	}
}

// contradicts reports whether the buffer has another event with the number. The
// caller holds mu.
func (t *eventBuffer) contradicts(e activity.Event) bool {
	if len(t.events) == 0 || e.Seq < t.events[0].Seq || e.Seq > t.last {
		return false
	}
	have := t.events[e.Seq-t.events[0].Seq]
	if isRemoved(have) || isRemoved(e) {
		return false
	}
	return have.Type != e.Type || !have.Time.Equal(e.Time) || have.Workload != e.Workload || have.Container != e.Container ||
		have.Tenant != e.Tenant || have.Claim != e.Claim || have.Run != e.Run
}

// rewind drops the events after seq, which the log does not have. The caller
// holds mu.
func (t *eventBuffer) rewind(seq int64) {
	t.rewinds++
	first := t.last + 1 - int64(len(t.events))
	t.events = slices.Clone(t.events[:max(0, seq+1-first)])
	t.last, t.lastKnown = seq, seq
	clear(t.pending) // the database has what is committed
	t.notify()
}

// lastContiguous returns the number of the last event without a gap before it.
func (t *eventBuffer) lastContiguous() int64 {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.last
}

// newestKnown returns the number of the newest event that the log is known to have.
func (t *eventBuffer) newestKnown() int64 {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return max(t.last, t.lastKnown)
}

// discard drops the events up to seq, which retention has removed.
func (t *eventBuffer) discard(seq int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := 0
	for i < len(t.events) && t.events[i].Seq <= seq {
		i++
	}
	t.events = slices.Clone(t.events[i:])
}

// remove drops events from between others. Other servers may have them for some
// time.
func (t *eventBuffer) remove(seqs []int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, seq := range seqs {
		if len(t.events) > 0 && seq >= t.events[0].Seq && seq <= t.last {
			t.events[seq-t.events[0].Seq] = activity.Event{Seq: seq}
		}
	}
}

// isRemoved reports whether e is the placeholder of a removed event.
func isRemoved(e activity.Event) bool { return e.Type == "" }

// withPlaceholders returns consecutive stored events with placeholders for those
// that are missing after a number and up to another one.
func withPlaceholders(stored []activity.Event, after, last int64) []activity.Event {
	all := make([]activity.Event, 0, max(last-after, 0))
	for seq := after + 1; seq <= last; seq++ {
		if len(stored) > 0 && stored[0].Seq == seq {
			all, stored = append(all, stored[0]), stored[1:]
			continue
		}
		all = append(all, activity.Event{Seq: seq})
	}
	return all
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

// notify wakes the followers. The caller holds mu.
func (t *eventBuffer) notify() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// subscribe returns a channel that is closed when events are added after this
// call.
func (t *eventBuffer) subscribe() <-chan struct{} {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.changed
}

// page returns the page of matching events after seq. It returns ok false when
// the buffer does not reach back to seq, or knows that it misses events.
func (t *eventBuffer) page(f activity.Filter, after int64, limit int) (p activity.Page, ok bool, err error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.closed {
		return p, false, ErrClosed
	}
	p.Rewinds = t.rewinds
	first := t.last + 1
	if len(t.events) > 0 {
		first = t.events[0].Seq
	}
	// Events do not have the labels of their claims.
	if after < first-1 || t.last < t.lastKnown || len(f.Labels) > 0 {
		return p, false, nil
	}
	p.Next = max(after, t.last)
	for _, e := range t.events[min(after-(first-1), int64(len(t.events))):] {
		if isRemoved(e) || !matchesFilter(f, e) {
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

// matchesFilter reports whether f selects e. It is the counterpart of the
// conditions in events.go.
func matchesFilter(f activity.Filter, e activity.Event) bool {
	for _, field := range []struct{ want, have string }{
		{f.Workload, e.Workload},
		{f.Container, e.Container},
		{f.Tenant, e.Tenant},
		{f.Claim, e.Claim},
		{f.Point, e.Point},
		{f.Actor, e.Actor},
		{f.Run, e.Run},
	} {
		if field.want != "" && field.want != field.have {
			return false
		}
	}
	if f.Untrusted != nil && *f.Untrusted != e.Untrusted || e.Priority != nil && *e.Priority < f.MinPriority {
		return false
	}
	ofType := len(f.Types) == 0 || slices.ContainsFunc(f.Types, func(want activity.Type) bool {
		return e.Type == want || strings.HasPrefix(string(e.Type), string(want)+".")
	})
	return ofType && f.Scope.Includes(e.Tenant, e.Workload, e.Claim) // last: a scope may have many selectors
}
