package snapshot

import (
	"bytes"
	"context"
	"io"
	"slices"
	"sync"

	"github.com/hostler/hostler/snapshot/pack"
)

// sharedRanges reads each range once for two readers of which one is a little
// behind the other: those of a last index. It is safe for concurrent use.
type sharedRanges struct {
	from pack.Ranger

	mu   sync.Mutex // guards what follows
	held []*sharedRange
}

// sharedRange is a range that one reader has asked for, and the other one has
// not.
type sharedRange struct {
	key          string
	offset, size int64
	read         chan struct{} // closed when the rest is known
	data         []byte
	err          error
}

// Bounds of the ranges that are held. Either reader reads a few segments ahead.
const (
	maxSharedRanges = 16
	maxSharedSize   = 512 << 10
)

// GetRange implements pack.Ranger.
func (s *sharedRanges) GetRange(ctx context.Context, key string, offset, size int64) (io.ReadCloser, error) {
	if size > maxSharedSize {
		return s.from.GetRange(ctx, key, offset, size)
	}
	r, first := s.take(key, offset, size)
	if first {
		r.data, r.err = s.readAll(ctx, r)
		close(r.read)
		return io.NopCloser(bytes.NewReader(r.data)), r.err
	}
	select {
	case <-r.read:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if r.err != nil { // the other reader may have ended
		return s.from.GetRange(ctx, key, offset, size)
	}
	return io.NopCloser(bytes.NewReader(r.data)), nil
}

// take returns the range that the other reader has asked for, or a new one.
func (s *sharedRanges) take(key string, offset, size int64) (r *sharedRange, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	same := func(r *sharedRange) bool { return r.key == key && r.offset == offset && r.size == size }
	if i := slices.IndexFunc(s.held, same); i >= 0 {
		r = s.held[i]
		s.held = slices.Delete(s.held, i, i+1)
		return r, false
	}
	r = &sharedRange{key: key, offset: offset, size: size, read: make(chan struct{})}
	if len(s.held) == maxSharedRanges {
		s.held = slices.Delete(s.held, 0, 1)
	}
	s.held = append(s.held, r)
	return r, true
}

func (s *sharedRanges) readAll(ctx context.Context, r *sharedRange) ([]byte, error) {
	object, err := s.from.GetRange(ctx, r.key, r.offset, r.size)
	if err != nil {
		return nil, err
	}
	defer object.Close()
	data := make([]byte, r.size)
	_, err = io.ReadFull(object, data)
	return data, err
}
