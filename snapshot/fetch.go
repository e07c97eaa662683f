package snapshot

import (
	"context"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/runtime/tree"
	"github.com/hostler/hostler/snapshot/index"
	"github.com/hostler/hostler/snapshot/pack"
)

// Limits of a download that reads ahead.
const (
	maxItems    = 4096     // that wait to be written
	maxRange    = 4 << 20  // stored bytes of a request
	maxGap      = 64 << 10 // stored bytes that are read and not used, to save a request
	maxRequests = 6        // at once; each has the bytes of a range
	maxDecoders = 2
	maxUnsent   = 8   // requests that may still grow
	maxHeldRun  = 512 // chunks of a pack that is held, which are decoded at once
	itemSize    = 256 // what an item occupies, without its content, path and target
)

// Memory that the decoded chunks of one download occupy at most.
const (
	wideWindow   = 28 << 20
	narrowWindow = 12 << 20
)

// action is what an item does.
type action byte

const (
	addContent action = iota // to the file of the last create
	create
	remove
)

// item is one step of writing a tree: it creates or removes an entry, adds
// content, or creates a file and adds its first content.
type item struct {
	do    action
	known bool // the entry exists and only its metadata changes
	entry tree.Entry
	hole  int64
	blob  *blob
	cost  int
}

// blob is a chunk that is read, or will be. It may be in several items.
type blob struct {
	ref   pack.Ref
	data  []byte
	ready chan struct{} // closed when data is set
	uses  int           // by items that are not released; guarded by the fetcher's mu
}

// request is a range of a pack that has several chunks.
type request struct {
	pack        pack.ID
	held        bool
	offset, end int64
	blobs       []*blob
}

// takes reports whether a chunk can be added to the range.
func (r *request) takes(ref pack.Ref) bool {
	if r.held {
		return len(r.blobs) < maxHeldRun
	}
	offset, end := int64(ref.Offset), int64(ref.Offset)+int64(ref.Length)
	return offset >= r.end && offset-r.end <= maxGap && end-r.offset <= maxRange
}

// fetcher reads chunks in the order in which they are needed, ahead of their
// use. One goroutine adds items, and one other takes them.
type fetcher struct {
	ctx      context.Context //nolint:containedctx // of the requests
	cancel   context.CancelCauseFunc
	from     *pack.Reader
	held     pack.ID // the pack that from holds, if it holds one
	items    chan item
	unsent   []*request // in the order of their first chunks
	group    errgroup.Group
	decoders chan *pack.Reader
	buffers  chan []byte  // of ranges
	memory   chunkBuffers // of decoded chunks

	maxUsed, maxCount int

	mu    sync.Mutex // guards what follows
	used  int        // bytes of items and blobs that are not released
	count int        // items that are not released
	blobs map[pack.Ref]*blob
	freed chan struct{} // has an element after a release
}

// newFetcher returns a fetcher for about that many items, with a window of
// memory. The caller closes it. The pack held is one that the reader holds.
func newFetcher(ctx context.Context, from *pack.Reader, held pack.ID, items, window int) *fetcher {
	items = min(max(items, 16), maxItems)
	f := &fetcher{
		from: from, held: held, items: make(chan item, items), maxUsed: window, maxCount: items,
		decoders: make(chan *pack.Reader, maxDecoders), buffers: make(chan []byte, maxRequests),
		blobs: map[pack.Ref]*blob{}, freed: make(chan struct{}, 1),
	}
	f.ctx, f.cancel = context.WithCancelCause(ctx)
	f.group.SetLimit(maxRequests)
	for range maxDecoders {
		f.decoders <- from.Clone()
	}
	return f
}

// close ends the requests and waits for them.
func (f *fetcher) close() {
	f.cancel(errUploadAborted)
	_ = f.group.Wait()
	close(f.decoders)
	for decoder := range f.decoders {
		decoder.Close()
	}
}

// add appends an item, with content unless it is nil. It waits while too much is
// waiting.
func (f *fetcher) add(it item, content *index.Chunk) error {
	it.cost = itemSize + len(it.entry.Path) + len(it.entry.Target)
	if content == nil || content.Hole > 0 {
		if content != nil {
			it.hole = content.Hole
		}
		return f.push(it, it.cost)
	}
	f.mu.Lock()
	it.blob = f.blobs[content.Ref]
	if it.blob != nil {
		it.blob.uses++
	}
	f.mu.Unlock()
	if it.blob != nil {
		return f.push(it, it.cost)
	}
	if err := f.admit(it.cost + memoryOf(content.Ref)); err != nil {
		return err
	}
	it.blob = &blob{ref: content.Ref, ready: make(chan struct{}), uses: 1}
	f.mu.Lock()
	f.blobs[content.Ref] = it.blob
	f.mu.Unlock()
	f.items <- it // there is room: it was admitted
	f.want(it.blob)
	return nil
}

func (f *fetcher) push(it item, cost int) error {
	if err := f.admit(cost); err != nil {
		return err
	}
	f.items <- it // there is room: it was admitted
	return nil
}

// finish is called after the last item.
func (f *fetcher) finish() {
	f.sendAll()
	close(f.items)
}

// admit waits until there is room for an item of that many bytes. When there is
// none, it waits until half is free: with every chunk that just fits, requests
// would be of one chunk.
func (f *fetcher) admit(cost int) error {
	if f.tryAdmit(cost, f.maxUsed-cost, f.maxCount-1) {
		return context.Cause(f.ctx)
	}
	f.sendAll() // what is waited for may be in a request that was not sent
	for !f.tryAdmit(cost, f.maxUsed/2, f.maxCount/2) {
		select {
		case <-f.freed:
		case <-f.ctx.Done():
			return context.Cause(f.ctx)
		}
	}
	return nil
}

// tryAdmit admits an item unless more than this is used.
func (f *fetcher) tryAdmit(cost, used, count int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.used > used || f.count > count {
		return false
	}
	f.used += cost
	f.count++
	return true
}

// next returns the next item, whose content is read; ok is false after the last
// one. The caller releases the item.
func (f *fetcher) next() (it item, ok bool, err error) {
	select {
	case it, ok = <-f.items:
	case <-f.ctx.Done():
		return item{}, false, context.Cause(f.ctx)
	}
	if it.blob != nil {
		select {
		case <-it.blob.ready:
		case <-f.ctx.Done():
			return item{}, false, context.Cause(f.ctx)
		}
	}
	return it, ok, nil
}

// memoryOf returns what the decoded bytes of a chunk occupy.
func memoryOf(ref pack.Ref) int {
	_, capacity := bufferFor(int(ref.Size) + pack.Spare)
	return capacity
}

// release makes the memory of an item free.
func (f *fetcher) release(it item) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.used -= it.cost
	f.count--
	if it.blob != nil {
		if it.blob.uses--; it.blob.uses == 0 {
			delete(f.blobs, it.blob.ref)
			f.used -= memoryOf(it.blob.ref)
			f.memory.put(it.blob.data)
			it.blob.data = nil
		}
	}
	select {
	case f.freed <- struct{}{}:
	default:
	}
}

// want adds a chunk to a request that is not sent, or begins one.
func (f *fetcher) want(b *blob) {
	for i, r := range f.unsent {
		if r.pack != b.ref.Pack {
			continue
		}
		if r.takes(b.ref) {
			r.blobs, r.end = append(r.blobs, b), int64(b.ref.Offset)+int64(b.ref.Length)
			return
		}
		f.send(i)
		break
	}
	if len(f.unsent) >= maxUnsent {
		f.send(0)
	}
	offset := int64(b.ref.Offset)
	f.unsent = append(f.unsent, &request{
		pack: b.ref.Pack, held: b.ref.Pack == f.held, offset: offset, end: offset + int64(b.ref.Length), blobs: []*blob{b},
	})
}

func (f *fetcher) sendAll() {
	for len(f.unsent) > 0 {
		f.send(0)
	}
}

// send sends a request. It waits while there are too many.
func (f *fetcher) send(i int) {
	r := f.unsent[i]
	f.unsent = slices.Delete(f.unsent, i, i+1)
	f.group.Go(func() error {
		if err := f.fetch(r); err != nil {
			f.cancel(storedError(err))
		}
		return nil
	})
}

// fetch reads the chunks of a request, and verifies each.
func (f *fetcher) fetch(r *request) error {
	var stored []byte
	if !r.held {
		select {
		case stored = <-f.buffers:
		default:
		}
		var err error
		if stored, err = f.from.Range(f.ctx, r.pack, r.offset, r.end-r.offset, stored[:0]); err != nil {
			return err
		}
		defer func() { f.buffers <- stored }() // one for each request at once
	}
	decoder := <-f.decoders
	defer func() { f.decoders <- decoder }()
	for _, b := range r.blobs {
		if f.ctx.Err() != nil {
			return context.Cause(f.ctx)
		}
		err := b.ref.Check(pack.Data) // before it has memory
		if err != nil {
			return err
		}
		to := f.memory.get(int(b.ref.Size) + pack.Spare)[:0]
		if r.held {
			b.data, err = decoder.Blob(f.ctx, to, pack.Data, b.ref)
		} else {
			b.data, err = decoder.Decode(to, pack.Data, b.ref, stored[int64(b.ref.Offset)-r.offset:][:b.ref.Length])
		}
		if err != nil {
			return err
		}
		close(b.ready)
	}
	return nil
}
