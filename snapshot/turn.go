package snapshot

import (
	"context"
	"fmt"

	"golang.org/x/sync/semaphore"
)

// What uploads take. A server for which its container's limit leaves 512 MiB
// must not be killed because many tenants with large states release at once,
// so only as many are sent at a time as there is memory for. Who has to wait
// is served in turn. Archives within holdback never wait.
const (
	uploadMemory = 192 << 20 // of all uploads together
	packing      = 24 << 20  // of one, to compress it
)

func newMemory() *semaphore.Weighted { return semaphore.NewWeighted(uploadMemory) }

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
	if u.turn {
		return nil
	}
	if u.sent == 0 && u.limit.Stop() {
		defer u.limit.Reset(longestUpload)
	}
	if err := u.memory.Acquire(ctx, u.takes()); err != nil {
		return fmt.Errorf("wait for other uploads: %w", err)
	}
	u.turn = true
	return nil
}

func (u *upload) endTurn() {
	if u.turn {
		u.memory.Release(u.takes())
	}
}
