package snapshot

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/hostler/hostler/internal/flow"
)

// ownPacks puts the packs of one upload or import into a bucket, and removes them if
// it fails before it commits: who may try again at any time could otherwise fill
// the bucket with what Prune removes a day later.
type ownPacks struct {
	Bucket
	mu   sync.Mutex // guards keys
	keys []string
}

const (
	// maxOwnPacks bounds the packs that are removed: 128 GiB. Others are left to Prune.
	maxOwnPacks = 1 << 14
	// removeTimeout bounds the removal, because a release waits for it.
	removeTimeout = time.Minute
)

// Put implements pack.Putter.
func (o *ownPacks) Put(ctx context.Context, key string, r io.Reader) error {
	o.mu.Lock()
	if len(o.keys) < maxOwnPacks {
		o.keys = append(o.keys, key)
	}
	o.mu.Unlock()
	flow.Failpoint("snapshot", "object", "before")
	err := o.Bucket.Put(ctx, key, r)
	flow.Failpoint("snapshot", "object", "after")
	return err
}

// remove removes the packs. Nothing puts one any more, and no list of snapshots that
// was stored, or may have been, refers to them.
func (s *Sink) remove(ctx context.Context, o *ownPacks) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	_, _ = s.deleteAll(ctx, o.keys) // what is left is left to Prune
}
