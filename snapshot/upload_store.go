package snapshot

import (
	"context"
	"errors"

	"github.com/hostler/hostler/snapshot/index"
	"github.com/hostler/hostler/snapshot/pack"
)

// store is the part of a pass that stores. It is used by one goroutine.
type store struct {
	*pass
	ctx    context.Context //nolint:containedctx // of the pass
	cancel context.CancelFunc
	to     *pack.Writer
	own    *ownPacks
	recent recentChunks
	built  map[int]builtPart

	// Of the part in progress:
	last    *lastIndex
	builder *index.Builder
	old     *compactor
	chunks  []index.Chunk // of the record in progress
	before  int64         // bytes that the writer had stored
}

// builtPart is the new index of a part.
type builtPart struct {
	root    index.Root // without its segments
	ref     pack.Ref
	written int64
}

func newStore(ctx context.Context, p *pass) *store {
	s := &store{pass: p, own: &ownPacks{Bucket: p.bucket}, built: map[int]builtPart{}}
	s.ctx, s.cancel = context.WithCancel(ctx)
	s.to = pack.NewWriter(s.ctx, s.own, p.dir+packsDir, p.repo.format, p.progress)
	return s
}

// run does the steps. When there is a new index, it stores what the writer
// holds.
func (s *store) run(ctx context.Context) error {
	for st := range s.steps {
		if err := st.do(s); err != nil {
			return err
		}
		s.room.Release(st.weight)
	}
	if !s.ended || len(s.built) == 0 {
		return context.Cause(ctx)
	}
	return s.to.Flush()
}

// discard ends the writer. It keeps nothing that is not flushed.
func (s *store) discard() error {
	s.cancel()
	s.closeOld()
	if err := s.to.Discard(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// complete sets what is known of the new parts when all is stored.
func (s *store) complete() {
	for i, b := range s.built {
		p := &s.parts[i]
		p.Index = locationOf(b.ref, s.to.RootedSize(b.ref.Pack))
		p.Files, p.Bytes, p.New = b.root.Files, b.root.Bytes, b.written
		p.Stored = 0
		for _, use := range b.root.Packs {
			p.Stored += use.Live
		}
		s.pass.known = append(s.pass.known, knownRoot{p.Index, &b.root})
	}
}

// begin begins the index of a part, with the first records of the last one.
func (s *store) begin(last *lastIndex, same int) error {
	s.last, s.old, s.chunks = last, nil, nil
	s.before, _ = s.to.Stored()
	s.builder = index.NewBuilder(s.to, s.repo.format, last.root, func(id pack.ID) bool { return last.avoid[id] })
	if len(last.avoid) > 0 {
		s.old = &compactor{repo: s.repo, from: last.from.Clone(), needed: s.needMemory}
	}
	from := last.cursor(s.ctx)
	defer from.close()
	for range same {
		if err := from.next(); err != nil {
			return err
		}
		if !from.ok {
			return errShortIndex
		}
		if err := s.record(from.now); err != nil {
			return err
		}
	}
	return nil
}

// chunk adds a chunk to the record in progress, and stores its data if there is
// any and it is not stored yet.
func (s *store) chunk(c index.Chunk, data []byte) error {
	if data != nil {
		ref, err := s.add(c.Ref.Hash, data)
		if err != nil {
			return err
		}
		c.Ref = ref
		s.buffers.put(data)
	}
	s.chunks = append(s.chunks, c)
	return nil
}

// add stores a chunk, unless it was stored not long ago.
func (s *store) add(h pack.Hash, data []byte) (pack.Ref, error) {
	if ref, ok := s.recent.find(h); ok {
		return ref, nil
	}
	ref, err := s.to.Add(pack.Data, h, data)
	if err != nil {
		return pack.Ref{}, err
	}
	s.recent.add(ref)
	return ref, s.checkMemory()
}

// remember adds a chunk of a file that has gone: it may have another name.
func (s *store) remember(c index.Chunk) {
	if c.Hole == 0 && !s.last.avoid[c.Ref.Pack] {
		s.recent.add(c.Ref)
	}
}

// record adds a record to the index, with its own chunks and those of the record
// in progress.
func (s *store) record(r index.Record) error {
	r.Chunks = append(s.chunks, r.Chunks...)
	s.chunks = r.Chunks[:0]
	for i, c := range r.Chunks {
		if c.Hole > 0 || !s.last.avoid[c.Ref.Pack] {
			continue
		}
		moved, err := s.move(c.Ref)
		if err != nil {
			return err
		}
		r.Chunks[i].Ref = moved
	}
	if err := s.builder.Add(r); err != nil {
		return err
	}
	return s.checkMemory()
}

// move stores a chunk of a pack that is replaced.
func (s *store) move(r pack.Ref) (pack.Ref, error) {
	if moved, ok := s.recent.find(r.Hash); ok {
		return moved, nil
	}
	data, err := s.old.chunk(s.ctx, r)
	if err != nil {
		return pack.Ref{}, err
	}
	return s.add(r.Hash, data)
}

// end completes the index of a part.
func (s *store) end(part int) error {
	root, ref, err := s.builder.Finish()
	if err != nil {
		return err
	}
	after, _ := s.to.Stored()
	s.built[part] = builtPart{
		root: index.Root{Totals: root.Totals, Packs: root.Packs}, ref: ref, written: after - s.before,
	}
	s.closeOld()
	return s.checkMemory()
}

func (s *store) closeOld() {
	if s.old != nil {
		s.old.from.Close()
		s.old = nil
	}
}

// checkMemory returns errLarge if the writer holds too much.
func (s *store) checkMemory() error {
	if stored, _ := s.to.Stored(); stored < peekSize {
		return nil
	}
	return s.needMemory()
}
