package store

import (
	"slices"
	"strings"
	"sync"

	"github.com/hostler/hostler/activity"
)

// tailLength is how many of the newest events are kept in memory at least.
const tailLength = 2048

// tail is the newest end of the log, kept in memory so that followers, who
// nearly always want what has just been written, cost the database nothing.
// The database stays the truth: whoever asks for what the tail has dropped
// reads it there. It is whole because this process alone writes the database.
type tail struct {
	mu      sync.RWMutex     // guards what follows
	events  []activity.Event // without a gap, up to last
	last    int64
	changed chan struct{} // closed and replaced when events come
	closed  bool
}

func newTail() *tail { return &tail{changed: make(chan struct{})} }

// begin sets the tail to the end of a log that was there before.
func (t *tail) begin(last int64, newest []activity.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last, t.events = last, newest
}

// add appends committed events and wakes the followers.
func (t *tail) add(events []activity.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = events[len(events)-1].Seq
	t.events = append(t.events, events...)
	if len(t.events) > 2*tailLength {
		t.events = slices.Clone(t.events[len(t.events)-tailLength:])
	}
	t.wake()
}

// drop forgets the events up to seq: retention has removed them.
func (t *tail) drop(seq int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := 0
	for i < len(t.events) && t.events[i].Seq <= seq {
		i++
	}
	t.events = slices.Clone(t.events[i:])
}

// close wakes the followers for the last time.
func (t *tail) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.closed = true
		t.wake()
	}
}

// wake is called with mu held.
func (t *tail) wake() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// wait returns a channel that is closed when events come after this call.
func (t *tail) wait() <-chan struct{} {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.changed
}

// page is the page of matching events after seq; ok is false when the tail
// does not reach back so far.
func (t *tail) page(f activity.Filter, after int64, limit int) (p activity.Page, ok bool, err error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.closed {
		return p, false, ErrClosed
	}
	first := t.last + 1
	if len(t.events) > 0 {
		first = t.events[0].Seq
	}
	if after < first-1 {
		return p, false, nil
	}
	p.Next = max(after, t.last)
	for _, e := range t.events[min(after-(first-1), int64(len(t.events))):] {
		if !matches(f, e) {
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

// matches says whether f asks for e: what conditions (events.go) asks of the
// database.
func matches(f activity.Filter, e activity.Event) bool {
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
