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
	packMemory   = 24 << 20  // of one, to compress it
)

// memoryQuota gives uploads their memory, in the order in which they ask. While
// several workloads want some, each has at most half of it, or one upload.
type memoryQuota struct {
	total int64

	// mu guards what follows.
	mu      sync.Mutex
	free    int64
	held    map[string]int64 // by workload
	waiting []*memoryRequest // the first has waited longest
}

// memoryRequest is the memory of one upload.
type memoryRequest struct {
	workload string
	size     int64
	granted  chan struct{} // closed when the upload has it
}

func newMemoryQuota(total int64) *memoryQuota {
	return &memoryQuota{total: total, free: total, held: map[string]int64{}}
}

// acquire waits until the turn is given. The caller returns it with put, unless
// there is an error.
func (t *memoryQuota) acquire(ctx context.Context, req *memoryRequest) error {
	t.mu.Lock()
	t.waiting = append(t.waiting, req)
	t.grant()
	t.mu.Unlock()
	select {
	case <-req.granted:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.waiting, req); i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
	} else {
		t.reclaim(req)
	}
	t.grant()
	return context.Cause(ctx)
}

// release returns a turn.
func (t *memoryQuota) release(req *memoryRequest) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reclaim(req)
	t.grant()
}

// isContended reports whether uploads wait for a turn.
func (t *memoryQuota) isContended() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.waiting) > 0
}

// reclaim takes a turn's memory back. The caller holds mu.
func (t *memoryQuota) reclaim(req *memoryRequest) {
	t.free += req.size
	t.held[req.workload] -= req.size
	if t.held[req.workload] == 0 {
		delete(t.held, req.workload)
	}
}

// grant gives turns to those who wait: to the first one for which there is
// memory, and who is within its workload's share. Who needs more than is free
// is not overtaken by others, or it would wait for ever. The caller holds mu.
func (t *memoryQuota) grant() {
	for i := 0; i < len(t.waiting); {
		first := t.waiting[i]
		if !t.isWithinShare(first) {
			i++
			continue
		}
		if first.size > t.free {
			return
		}
		t.free -= first.size
		t.held[first.workload] += first.size
		t.waiting = slices.Delete(t.waiting, i, i+1)
		close(first.granted)
		i = 0 // who was beyond its share may be alone now
	}
}

// isWithinShare reports whether one more turn is within its workload's share.
func (t *memoryQuota) isWithinShare(req *memoryRequest) bool {
	held := t.held[req.workload]
	if held == 0 || held+req.size <= t.total/2 {
		return true
	}
	other := func(w *memoryRequest) bool { return w.workload != req.workload }
	return !slices.ContainsFunc(t.waiting, other)
}

// uploadSize is the memory of one upload. What would take more than there is goes
// alone.
func (s *Sink) uploadSize() int64 {
	n := int64(packMemory)
	if b, ok := s.bucket.(interface{ putMemory() int64 }); ok {
		n += b.putMemory()
	}
	return min(n, uploadMemory)
}

// acquireMemory waits until there is memory for the upload, which keeps it until
// releaseMemory. To wait does not count as time that the upload takes, unless it has
// stored something: Prune must not take that for left behind.
func (u *upload) acquireMemory(ctx context.Context) error {
	if u.memory != nil {
		return nil
	}
	if u.sent == 0 && u.limit.Stop() {
		defer u.limit.Reset(uploadTimeout)
	}
	wanted := &memoryRequest{u.origin.Workload, u.uploadSize(), make(chan struct{})}
	if err := u.quota.acquire(ctx, wanted); err != nil {
		return fmt.Errorf("wait for other uploads: %w", err)
	}
	u.memory = wanted
	return nil
}

func (u *upload) releaseMemory() {
	if u.memory != nil {
		u.quota.release(u.memory)
	}
}
