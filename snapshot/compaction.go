package snapshot

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/hostler/hostler/snapshot/index"
	"github.com/hostler/hostler/snapshot/pack"
)

// Each upload stores at least one pack, and leaves others of which little is
// needed. Without an end to that a download would need a request for each, and
// what is not needed would be kept.
const (
	smallPack    = 4 << 20 // needed bytes below which a pack is small
	minCompacted = 16      // small packs at which they are replaced
	maxCompacted = 64      // packs that one upload replaces
)

// compaction returns the packs of an index that the next one must not refer to.
// What is needed from them is stored again.
func compaction(root *index.Root) map[pack.ID]bool {
	var small []index.PackUse
	for _, p := range root.Packs {
		if p.Live < smallPack {
			small = append(small, p)
		}
	}
	if len(small) < minCompacted {
		return nil
	}
	slices.SortFunc(small, func(p, q index.PackUse) int {
		return cmp.Or(cmp.Compare(p.Live, q.Live), slices.Compare(p.ID[:], q.ID[:]))
	})
	replaced := map[pack.ID]bool{}
	for _, p := range small[:min(len(small), maxCompacted)] {
		replaced[p.ID] = true
	}
	return replaced
}

// compactor reads chunks of packs that are replaced. Most are small, and their
// chunks come in the order in which the pack has them, so it reads a pack whole
// and holds the last two. It is used by one goroutine.
type compactor struct {
	repo   repository
	from   *pack.Reader
	needed func() error // called before much memory is used
	held   []heldPack   // the last used one first
	buf    []byte
}

// heldPack is a pack in memory, or one that is too large for that.
type heldPack struct {
	id   pack.ID
	data []byte
}

const (
	maxHeldPacks = 2
	maxHeldSize  = pack.TargetSize + pack.MaxData
)

// chunk returns the bytes of a chunk. They are valid until the next call.
func (c *compactor) chunk(ctx context.Context, r pack.Ref) ([]byte, error) {
	if err := r.Check(pack.Data); err != nil {
		return nil, storedError(err)
	}
	held, err := c.hold(ctx, r.Pack)
	if err != nil {
		return nil, err
	}
	end := int(r.Offset) + int(r.Length)
	if end > len(held) {
		c.buf, err = c.from.Blob(ctx, c.buf[:0], pack.Data, r)
	} else {
		c.buf, err = c.from.Decode(c.buf[:0], pack.Data, r, held[r.Offset:end])
	}
	return c.buf, storedError(err)
}

// hold returns a pack, as far as it is held.
func (c *compactor) hold(ctx context.Context, id pack.ID) ([]byte, error) {
	if i := slices.IndexFunc(c.held, func(h heldPack) bool { return h.id == id }); i >= 0 {
		found := c.held[i]
		copy(c.held[1:], c.held[:i])
		c.held[0] = found
		return found.data, nil
	}
	data, err := c.read(ctx, id)
	if err != nil {
		return nil, err
	}
	c.held = append([]heldPack{{id, data}}, c.held[:min(len(c.held), maxHeldPacks-1)]...)
	return data, nil
}

// read reads a pack. What is longer than maxHeldSize is read chunk by chunk.
func (c *compactor) read(ctx context.Context, id pack.ID) ([]byte, error) {
	key := c.repo.dir + packsDir + id.String()
	object, err := c.repo.bucket.Get(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key, storedError(err))
	}
	defer object.Close()
	var data bytes.Buffer
	if _, err = io.CopyN(&data, object, peekSize/4); err == nil {
		if err := c.needed(); err != nil {
			return nil, err
		}
		_, err = io.CopyN(&data, object, maxHeldSize-peekSize/4)
	}
	switch {
	case errors.Is(err, io.EOF):
		return data.Bytes(), nil
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	return nil, nil // it is too large, or just as large
}
