package store

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/hostler/hostler/delivery"
	"github.com/hostler/hostler/hooks"
)

// groupLimit bounds how many transitions share a transaction.
const groupLimit = 128

// errUngrouped indicates that a transition must be performed in a transaction of
// its own. Nothing of its group was done.
var errUngrouped = errors.New("the transition is not one for a group")

// deliveryGroups performs the starts and the ends of attempts that are reported
// at the same time in one transaction. Each of them has an event, so in
// transactions of their own they would wait for each other's flush to the disk.
// SQLite's writer does the same with all changes.
//
// It has no goroutine: the caller that finds no group in progress performs the
// next one, and then hands over to one that waits.
type deliveryGroups struct {
	writer writer

	mu      sync.Mutex // guards the fields below
	waiting []*groupedTransition
	busy    bool // a group is in progress, or its performer is being woken
}

// groupedTransition is a transition that waits for its group. woken is closed
// when isFirst or err is set.
type groupedTransition struct {
	delivery.Transition
	woken   chan struct{}
	isFirst bool // its caller performs the next group
	err     error
}

// isGroupable reports whether a transition is the start or the end of an attempt
// that runs on the server. Such transitions change only rows of their own.
func isGroupable(m delivery.Transition) bool {
	if m.Run == nil || m.Run.Kind.Rule().InContainer || m.Run.State == hooks.Skipped {
		return false
	}
	isStart := m.State == delivery.Running && m.Run.State == hooks.Running
	isEnd := m.Run.State != hooks.Running && slices.Equal(m.From, []delivery.State{delivery.Running})
	_, _, large, err := outputColumns(*m.Run)
	return (isStart || isEnd) && !large && err == nil
}

// update performs a transition with others. errUngrouped means that it must be
// performed alone: the delivery is perhaps in another state, or locked.
func (g *deliveryGroups) update(ctx context.Context, m delivery.Transition) error {
	c := &groupedTransition{Transition: m, woken: make(chan struct{})}
	g.mu.Lock()
	g.waiting = append(g.waiting, c)
	c.isFirst = !g.busy
	g.busy = true
	isFirst := c.isFirst
	g.mu.Unlock()
	if !isFirst {
		select {
		case <-c.woken:
		case <-ctx.Done():
			if g.leave(c) {
				return context.Cause(ctx)
			}
			<-c.woken
		}
	}
	if c.isFirst {
		g.perform(ctx)
	}
	return c.err
}

// leave removes a transition that is still to be performed by another caller.
func (g *deliveryGroups) leave(c *groupedTransition) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := slices.Index(g.waiting, c)
	if at < 0 || c.isFirst {
		return false
	}
	g.waiting = slices.Delete(g.waiting, at, at+1)
	return true
}

// perform performs the transitions that wait, the first of which is the caller's,
// and wakes their callers and the performer of the next group.
func (g *deliveryGroups) perform(ctx context.Context) {
	g.mu.Lock()
	n := min(len(g.waiting), groupLimit)
	group := slices.Clone(g.waiting[:n])
	g.waiting = slices.Delete(g.waiting, 0, n)
	g.mu.Unlock()
	// The others do not depend on this caller's context.
	err := g.writer.update(context.WithoutCancel(ctx), func(t *tx) error { return updateGroup(t, group) })
	if err != nil && n > 1 && !errors.Is(err, ErrUnavailable) {
		err = errUngrouped // one that cannot be stored does not fail the others
	}
	for i, c := range group {
		c.err = err
		if i > 0 {
			close(c.woken)
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.busy = len(g.waiting) > 0
	if g.busy {
		g.waiting[0].isFirst = true
		close(g.waiting[0].woken)
	}
}

// lockGroup locks the deliveries that are as their transitions expect them. It
// waits for no lock: a change that locks several deliveries in another order
// would wait for this one.
const lockGroup = `SELECT d.id FROM deliveries d
	JOIN unnest($1::text[], $2::bigint[], $3::boolean[], $5::bigint[]) AS w (id, attempt, ends, seq)
		ON w.id COLLATE "C" = d.id AND w.seq = d.seq
	WHERE NOT w.ends AND d.state IN ('queued', 'scheduled')
	OR w.ends AND d.state = 'running' AND d.owner = $4
		AND EXISTS (SELECT 1 FROM runs r WHERE r.id = d.id AND r.attempt = w.attempt AND r.` + runningCondition + `)
	FOR UPDATE OF d SKIP LOCKED`

// updateGroup performs all transitions of a group, or none.
func updateGroup(t *tx, group []*groupedTransition) error {
	ids, attempts, ends := make([]string, len(group)), make([]int64, len(group)), make([]bool, len(group))
	seqs := make([]int64, len(group))
	for i, c := range group {
		ids[i], attempts[i], ends[i], seqs[i] = c.ID, int64(c.Run.Attempt), c.Run.State != hooks.Running, c.Seq
	}
	if len(slices.Compact(slices.Sorted(slices.Values(ids)))) < len(ids) {
		return errUngrouped // the second transition of a delivery depends on the first
	}
	n, err := t.exec(lockGroup, ids, attempts, ends, t.owner, seqs)
	if err != nil {
		return err
	}
	if n != int64(len(group)) {
		return errUngrouped
	}
	for _, c := range group {
		if err := saveDelivery(t, c.Delivery); err != nil {
			return err
		}
		if err := saveGroupedRun(t, *c.Run); err != nil {
			return err
		}
		if err := t.addEvents(c.Events...); err != nil {
			return err
		}
	}
	return nil
}

// saveGroupedRun adds a run that starts, or ends one that is running.
func saveGroupedRun(t *tx, r hooks.Run) error {
	if r.State == hooks.Running {
		return addRun(t, r)
	}
	if err := execLater(t, updateRun, &r, boolToInt(false)); err != nil {
		return err
	}
	return t.addEvents(endEvents(r)...)
}
