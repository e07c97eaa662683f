package snapshot

import (
	"math/bits"
	"sync"
)

// chunkBuffers reuses the memory of chunks that the store has stored: a state of
// any size would otherwise pass through new memory. It has a pool for each size,
// from minBuffer on, each twice the one before. It is safe for concurrent use.
type chunkBuffers [7]sync.Pool

const minBuffer = 64 << 10

// get returns a buffer of a size.
func (b *chunkBuffers) get(size int) []byte {
	if size <= minBuffer/2 {
		return make([]byte, size)
	}
	i := bits.Len(uint((size - 1) / minBuffer)) //nolint:gosec // positive
	if i >= len(b) {
		return make([]byte, size)
	}
	if free, ok := b[i].Get().(*[]byte); ok {
		return (*free)[:size]
	}
	return make([]byte, size, minBuffer<<i)
}

// put returns a buffer that is not used any more.
func (b *chunkBuffers) put(buf []byte) {
	i := bits.Len(uint(cap(buf)/minBuffer)) - 1 //nolint:gosec // not negative
	if i >= 0 && i < len(b) && cap(buf) == minBuffer<<i {
		b[i].Put(&buf)
	}
}
