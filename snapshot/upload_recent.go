package snapshot

import (
	"encoding/binary"

	"github.com/hostler/hostler/snapshot/pack"
)

// maxRecent bounds the chunks of each of the two generations of recentChunks.
const maxRecent = 16 << 10

// recentChunks finds chunks that were stored not long ago, so that copies of a
// file are stored once. It forgets the oldest half when it is full.
type recentChunks struct {
	now, before map[uint64]pack.Ref
}

// find returns where a chunk is.
func (c *recentChunks) find(h pack.Hash) (pack.Ref, bool) {
	short := binary.LittleEndian.Uint64(h[:])
	r, ok := c.now[short]
	if !ok {
		r, ok = c.before[short]
	}
	return r, ok && r.Hash == h
}

// add remembers a chunk.
func (c *recentChunks) add(r pack.Ref) {
	if c.now == nil || len(c.now) >= maxRecent {
		c.now, c.before = map[uint64]pack.Ref{}, c.now
	}
	c.now[binary.LittleEndian.Uint64(r.Hash[:])] = r
}
