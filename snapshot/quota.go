package snapshot

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// The memory of uploads. A server with a container limit of 512 MiB must not be
// killed because many tenants with large states release at once, so there are
// only as many concurrent uploads as there is memory for. Uploads that wait get
// their memory in order. Uploads that store less than peekSize never wait.
const (
	uploadMemory = 192 << 20 // of all uploads together
	// passMemory is that of one: a pack.Writer, whose packs rarely reach their
	// maximum, chunks that wait for it, and the buffers that cut and read.
	passMemory = 48 << 20
)

// memoryQuota grants memory to uploads, in the order of their requests. While
// uploads of several workloads wait, each workload has at most half of it, or
// one upload.
type memoryQuota struct {
	total int64

	// mu guards what follows.
	mu      sync.Mutex
	free    int64
	held    map[string]int64 // by workload
	waiting []*memoryRequest // the first has waited longest
	slow    *memoryRequest   // may be slow while others wait; nil if there is none
}

// memoryRequest is one upload's request for memory.
type memoryRequest struct {
	workload string
	size     int64
	granted  chan struct{} // closed when the memory is granted
	waited   time.Duration // for its container, while it was slow; the quota's mu guards it
}

func newMemoryQuota(total int64) *memoryQuota {
	return &memoryQuota{total: total, free: total, held: map[string]int64{}}
}

// acquire waits until the memory is granted. The caller calls release, unless
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

// tryAcquire grants memory if no upload has to wait for it.
func (t *memoryQuota) tryAcquire(req *memoryRequest) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting) > 0 || req.size > t.free {
		return false
	}
	t.waiting = append(t.waiting, req)
	t.grant()
	return true
}

// release returns the memory of a request.
func (t *memoryQuota) release(req *memoryRequest) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reclaim(req)
	t.grant()
}

// checkSlow returns why an upload that is slower than contendedRate is aborted,
// if it is. It has waited that long for its container since the last call. While
// others wait for memory, one upload at a time may be slow, unless it has more
// than half of the memory.
func (t *memoryQuota) checkSlow(req *memoryRequest, waited time.Duration) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting) == 0 {
		return nil
	}
	if t.slow == nil && req.size <= t.total/2 {
		t.slow = req
	}
	if t.slow != req {
		return errContended
	}
	if req.waited += waited; req.waited >= maxSlow {
		return errSlowTooLong
	}
	return nil
}

// reclaim makes a request's memory free again. The caller holds mu.
func (t *memoryQuota) reclaim(req *memoryRequest) {
	t.free += req.size
	t.held[req.workload] -= req.size
	if t.held[req.workload] == 0 {
		delete(t.held, req.workload)
	}
	if t.slow == req {
		t.slow = nil
	}
}

// grant grants memory to waiting requests: to the first one for which there is
// enough, and which is within its workload's share. No request overtakes one
// that needs more than is free, because that one would wait indefinitely. The
// caller holds mu.
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
		i = 0 // a request beyond its share may now be the only one
	}
}

// isWithinShare reports whether one more request is within its workload's
// share.
func (t *memoryQuota) isWithinShare(req *memoryRequest) bool {
	held := t.held[req.workload]
	if held == 0 || held+req.size <= t.total/2 {
		return true
	}
	other := func(w *memoryRequest) bool { return w.workload != req.workload }
	return !slices.ContainsFunc(t.waiting, other)
}

// uploadSize returns the memory of one upload. An upload that would need more
// than the total runs alone.
func (s *Sink) uploadSize() int64 {
	n := int64(passMemory)
	if b, ok := s.bucket.(interface{ UploadMemory() int64 }); ok {
		n += b.UploadMemory()
	}
	return min(n, uploadMemory)
}

// acquireMemory waits until there is memory for the upload, which keeps it
// until releaseMemory. The wait does not count toward uploadTimeout, unless the
// upload has stored something: Prune would remove those objects as garbage.
func (u *upload) acquireMemory(ctx context.Context) error {
	if u.sent == 0 && u.limit.Stop() {
		defer func() {
			u.limit.Reset(uploadTimeout)
			u.began = time.Now()
		}()
	}
	wanted := u.newRequest()
	if err := u.quota.acquire(ctx, wanted); err != nil {
		return fmt.Errorf("wait for other uploads: %w", err)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.memory = wanted
	return nil
}

func (u *upload) newRequest() *memoryRequest {
	return &memoryRequest{workload: u.origin.Workload, size: u.uploadSize(), granted: make(chan struct{})}
}

// needMemory returns errLarge if the upload has no memory, and others wait for
// theirs or have all of it. The container must not wait that long for the next
// question: its files would be of different times.
func (u *upload) needMemory() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.memory != nil {
		return nil
	}
	wanted := u.newRequest()
	if !u.quota.tryAcquire(wanted) {
		return errLarge
	}
	u.memory = wanted
	return nil
}

// checkPace is checkSlow of the upload, if it has memory.
func (u *upload) checkPace(waited time.Duration) error {
	u.mu.Lock()
	memory := u.memory
	u.mu.Unlock()
	if memory == nil {
		return nil
	}
	return u.quota.checkSlow(memory, waited)
}

func (u *upload) releaseMemory() {
	if u.memory != nil {
		u.quota.release(u.memory)
	}
}
