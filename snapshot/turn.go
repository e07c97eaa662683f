package snapshot

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// What uploads take. A server for which its container's limit leaves 512 MiB
// must not be killed because many tenants with large states release at once,
// so only as many are sent at a time as there is memory for. Who has to wait
// is served in turn. Archives within holdback never wait.
const (
	uploadMemory = 192 << 20 // of all uploads together
	packing      = 24 << 20  // of one, to compress it
)

// turns gives uploads their memory, in the order in which they ask. While
// several workloads want some, each has at most half of it, or one upload.
type turns struct {
	total int64

	// mu guards what follows.
	mu      sync.Mutex
	free    int64
	held    map[string]int64 // by workload
	waiting []*turn          // the first has waited longest
}

// turn is the memory of one upload.
type turn struct {
	workload string
	takes    int64
	given    chan struct{} // closed when the upload has it
}

func newTurns(total int64) *turns {
	return &turns{total: total, free: total, held: map[string]int64{}}
}

// take waits until the turn is given. The caller returns it with put, unless
// there is an error.
func (t *turns) take(ctx context.Context, wanted *turn) error {
	t.mu.Lock()
	t.waiting = append(t.waiting, wanted)
	t.give()
	t.mu.Unlock()
	select {
	case <-wanted.given:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.waiting, wanted); i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
	} else {
		t.back(wanted)
	}
	t.give()
	return context.Cause(ctx)
}

// put returns a turn.
func (t *turns) put(given *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.back(given)
	t.give()
}

// crowded reports whether uploads wait for a turn.
func (t *turns) crowded() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.waiting) > 0
}

// back takes a turn's memory back. The caller holds mu.
func (t *turns) back(given *turn) {
	t.free += given.takes
	t.held[given.workload] -= given.takes
	if t.held[given.workload] == 0 {
		delete(t.held, given.workload)
	}
}

// give gives turns to those who wait: to the first one for which there is
// memory, and who is within its workload's share. Who needs more than is free
// is not overtaken by others, or it would wait for ever. The caller holds mu.
func (t *turns) give() {
	for i := 0; i < len(t.waiting); {
		first := t.waiting[i]
		if !t.within(first) {
			i++
			continue
		}
		if first.takes > t.free {
			return
		}
		t.free -= first.takes
		t.held[first.workload] += first.takes
		t.waiting = slices.Delete(t.waiting, i, i+1)
		close(first.given)
		i = 0 // who was beyond its share may be alone now
	}
}

// within reports whether one more turn is within its workload's share.
func (t *turns) within(wanted *turn) bool {
	held := t.held[wanted.workload]
	if held == 0 || held+wanted.takes <= t.total/2 {
		return true
	}
	other := func(w *turn) bool { return w.workload != wanted.workload }
	return !slices.ContainsFunc(t.waiting, other)
}

// takes is the memory of one upload. What would take more than there is goes
// alone.
func (s *Sink) takes() int64 {
	n := int64(packing)
	if b, ok := s.bucket.(interface{ putTakes() int64 }); ok {
		n += b.putTakes()
	}
	return min(n, uploadMemory)
}

// takeTurn waits until there is memory for the upload, which keeps it until
// endTurn. To wait does not count as time that the upload takes, unless it has
// stored something: Prune must not take that for left behind.
func (u *upload) takeTurn(ctx context.Context) error {
	if u.turn != nil {
		return nil
	}
	if u.sent == 0 && u.limit.Stop() {
		defer u.limit.Reset(longestUpload)
	}
	wanted := &turn{u.origin.Workload, u.takes(), make(chan struct{})}
	if err := u.turns.take(ctx, wanted); err != nil {
		return fmt.Errorf("wait for other uploads: %w", err)
	}
	u.turn = wanted
	return nil
}

func (u *upload) endTurn() {
	if u.turn != nil {
		u.turns.put(u.turn)
	}
}
