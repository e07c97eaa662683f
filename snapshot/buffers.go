package snapshot

import (
	"math/bits"
	"sync"
)

// chunkBuffers reuses the memory of chunks that are stored, or written into a
// container: a state of any size would otherwise pass through new memory. It has a
// pool for each size, from minBuffer on, each twice the one before. It is safe for
// concurrent use.
type chunkBuffers [bufferSizes]sync.Pool

const (
	minBuffer   = 64 << 10
	bufferSizes = 7
)

// bufferFor returns which pool has buffers for a size, and their capacity. A size
// that has none has a buffer of its own, and the pool is -1.
func bufferFor(size int) (pool, capacity int) {
	if size <= minBuffer/2 {
		return -1, size
	}
	i := bits.Len(uint((size - 1) / minBuffer)) //nolint:gosec // positive
	if i >= bufferSizes {
		return -1, size
	}
	return i, minBuffer << i
}

// get returns a buffer of a size.
func (b *chunkBuffers) get(size int) []byte {
	i, capacity := bufferFor(size)
	if i >= 0 {
		if free, ok := b[i].Get().(*[]byte); ok {
			return (*free)[:size]
		}
	}
	return make([]byte, size, capacity)
}

// put returns a buffer that is not used any more.
func (b *chunkBuffers) put(buf []byte) {
	i := bits.Len(uint(cap(buf)/minBuffer)) - 1 //nolint:gosec // not negative
	if i >= 0 && i < len(b) && cap(buf) == minBuffer<<i {
		b[i].Put(&buf)
	}
}
