package workqueue

import (
	"container/heap"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/hostler/hostler/internal/backoff"
)

// Options are the limits of a Queue. A limit of 0 is none.
type Options[K comparable] struct {
	// Group returns the group of a key; nil: all keys are of one group.
	Group func(K) string
	// Owner returns the owner of a key's group; nil: all groups are of one owner. Of
	// the groups that may start an execution, one of the owner with the fewest
	// executions does.
	Owner func(K) string
	// PerGroup is how many executions of one group run at once.
	PerGroup int
	// Reserved is how many slots only groups without an execution may use.
	Reserved int
	// Parked and ParkedPerGroup are how many executions may be parked. While one
	// of them is reached, no execution starts, of any group or of that one.
	Parked, ParkedPerGroup int
	// Backoff is how long a key waits after its execution has failed.
	Backoff backoff.Policy
	// Log gets the panics of executions; nil: nothing does.
	Log *slog.Logger
}

// Queue holds keys until Run executes them. It is safe for concurrent use.
type Queue[K comparable] struct {
	options Options[K]
	changed chan struct{} // buffers one signal: an execution may start

	mu      sync.Mutex // guards the fields below
	items   map[K]*item[K]
	delayed timeline[K]          // the items whose time has not come
	groups  map[string]*group[K] // those with ready items or executions
	turns   []*group[K]          // those with ready items, the next one first
	owners  map[string]int       // running executions of those that have any
	total   usage
	added   int // number of items that were put into delayed
}

// item is a key that waits, is executed, or both.
type item[K comparable] struct {
	key      K
	waits    bool
	at       time.Time // when to execute it, if it waits
	index    int       // in delayed, if it is there
	added    int       // its order among those with the same time
	ready    *group[K] // where it is ready, or nil
	running  bool
	failures int
}

// group is what is ready and what is executed of one group.
type group[K comparable] struct {
	name  string
	owner string
	ready []*item[K]
	usage usage
}

// usage counts executions.
type usage struct{ running, parked int }

// New returns an empty queue.
func New[K comparable](o Options[K]) *Queue[K] {
	if o.Group == nil {
		o.Group = func(K) string { return "" }
	}
	if o.Owner == nil {
		o.Owner = func(K) string { return "" }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Queue[K]{
		options: o, changed: make(chan struct{}, 1),
		items: map[K]*item[K]{}, groups: map[string]*group[K]{}, owners: map[string]int{},
	}
}

// Add has the key executed as soon as possible. It never blocks.
func (q *Queue[K]) Add(key K) { q.AddAfter(key, 0) }

// AddAfter has the key executed once d has passed, or earlier if it is added
// with an earlier time. It does not change a key that waits for its retry.
func (q *Queue[K]) AddAfter(key K, d time.Duration) {
	at := time.Now().Add(d)
	q.mu.Lock()
	defer q.mu.Unlock()
	i := q.items[key]
	if i == nil {
		i = &item[K]{key: key, index: notDelayed}
		q.items[key] = i
	}
	if i.waits && (i.ready != nil || !at.Before(i.at) || i.failures > 0 && !i.running) {
		return
	}
	q.schedule(i, at)
}

// Forget removes a key that waits, and its failures. An execution continues and
// is not retried.
func (q *Queue[K]) Forget(key K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := q.items[key]
	if i == nil {
		return
	}
	delete(q.items, key)
	if i.index != notDelayed {
		heap.Remove(&q.delayed, i.index)
	}
	if g := i.ready; g != nil {
		g.ready = slices.DeleteFunc(g.ready, func(o *item[K]) bool { return o == i })
		q.tidy(g)
	}
	if i.running { // the key stays busy, and its execution finds another item
		q.items[key] = &item[K]{key: key, index: notDelayed, running: true}
	}
}

// schedule has the item executed at a time, or at the end of its execution if
// that is later.
func (q *Queue[K]) schedule(i *item[K], at time.Time) {
	i.waits, i.at = true, at
	if i.running {
		return
	}
	if i.index != notDelayed {
		heap.Fix(&q.delayed, i.index)
	} else {
		q.added++
		i.added = q.added
		heap.Push(&q.delayed, i)
	}
	q.signal()
}

// take starts the execution of the next key, if there is a slot for it.
// Otherwise it returns when the next time of a key comes.
func (q *Queue[K]) take(slots int) (*Task[K], time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	next := now.Add(time.Hour)
	for len(q.delayed) > 0 {
		i := q.delayed[0]
		if i.at.After(now) {
			next = i.at
			break
		}
		heap.Pop(&q.delayed)
		q.makeReady(i)
	}
	at := q.nextTurn(slots)
	if at < 0 {
		return nil, next
	}
	g := q.turns[at]
	i := g.ready[0]
	g.ready = slices.Delete(g.ready, 0, 1)
	q.turns = slices.Delete(q.turns, at, at+1)
	if len(g.ready) > 0 {
		q.turns = append(q.turns, g) // its next turn comes after those of the others
	}
	i.ready, i.waits, i.running = nil, false, true
	g.usage.running++
	q.total.running++
	q.owners[g.owner]++
	return &Task[K]{Key: i.key, queue: q, item: i, group: g}, next
}

// makeReady appends the item to its group, which then has a turn.
func (q *Queue[K]) makeReady(i *item[K]) {
	name := q.options.Group(i.key)
	g := q.groups[name]
	if g == nil {
		g = &group[K]{name: name, owner: q.options.Owner(i.key)}
		q.groups[name] = g
	}
	if len(g.ready) == 0 {
		q.turns = append(q.turns, g)
	}
	g.ready = append(g.ready, i)
	i.ready = g
}

// nextTurn returns the index of the group that starts the next execution, or -1.
func (q *Queue[K]) nextTurn(slots int) int {
	next, fewest := -1, slots
	for at, g := range q.turns {
		if n := q.owners[g.owner]; n < fewest && q.hasSlot(g, slots) {
			next, fewest = at, n
		}
		if fewest == 0 {
			break // no owner has fewer, or there is no slot
		}
	}
	return next
}

// hasSlot reports whether an execution of the group may start.
func (q *Queue[K]) hasSlot(g *group[K], slots int) bool {
	o, free := q.options, slots-q.total.running
	isBelow := func(n, limit int) bool { return limit == 0 || n < limit }
	return free > 0 && (g.usage.running == 0 || free > o.Reserved) && isBelow(g.usage.running, o.PerGroup) &&
		isBelow(q.total.parked, o.Parked) && isBelow(g.usage.parked, o.ParkedPerGroup)
}

// free frees the slot of an execution of the group.
func (q *Queue[K]) free(g *group[K]) {
	q.total.running--
	g.usage.running--
	if q.owners[g.owner]--; q.owners[g.owner] == 0 {
		delete(q.owners, g.owner)
	}
}

// tidy removes what is kept of a group that has no ready items any more.
func (q *Queue[K]) tidy(g *group[K]) {
	if len(g.ready) > 0 {
		return
	}
	q.turns = slices.DeleteFunc(q.turns, func(o *group[K]) bool { return o == g })
	if g.usage == (usage{}) {
		delete(q.groups, g.name)
	}
}

func (q *Queue[K]) signal() {
	select {
	case q.changed <- struct{}{}:
	default:
	}
}
