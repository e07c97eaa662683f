package snapshot

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/hostler/hostler/snapshot/pack"
	"github.com/hostler/hostler/workload"
)

// pass reads the container once. One goroutine lists, reads, cuts and hashes;
// another one, the store, compresses what is new and fills packs.
type pass struct {
	*upload
	ctx    context.Context //nolint:containedctx // of the pass, also when its goroutines have ended
	repo   repository
	bounds bounds
	parts  []Part
	known  []knownRoot // of the last parts and the new ones
	moved  Transfer    // MovedFiles and MovedBytes

	// The store gets steps, and waits for none. Their data is bounded by room.
	steps chan step
	room  *semaphore.Weighted

	buffers  chunkBuffers
	hash     func(pack.Kind, []byte) pack.Hash
	chunker  *pack.Chunker // nil until it is used
	newBytes int64         // of the chunks that the store got
	ended    bool          // all parts are listed
	changed  bool          // the next snapshot is not the current one

	stamps     []*stampList // of the mappings
	stampsHeld int          // in memory
}

// step is one step of the store.
type step struct {
	weight int64
	do     func(*store) error
}

// Bounds of the steps that wait for the store.
const (
	maxSteps    = 256
	maxStepRoom = 4 << 20 // bytes
)

// pass makes one pass, and commits.
func (u *upload) pass(ctx context.Context) (Transfer, error) {
	p := &pass{
		upload: u, ctx: ctx, repo: u.repository(u.dir, u.previous), bounds: newBounds(u.sync.MaxSize, u.sync.MaxFiles),
		steps: make(chan step, maxSteps), room: semaphore.NewWeighted(maxStepRoom),
	}
	p.hash = p.repo.format.Hasher()
	defer p.abortStamps()
	g, inner := errgroup.WithContext(ctx)
	s := newStore(inner, p)
	g.Go(func() error {
		defer close(p.steps)
		err := p.uploadParts(inner)
		p.ended = err == nil
		return err
	})
	g.Go(func() error { return s.run(inner) })
	err := g.Wait()
	if failed := s.discard(); failed != nil && (err == nil || errors.Is(err, context.Canceled)) {
		err = failed // which has canceled the rest
	}
	if err != nil {
		p.remove(ctx, s.own)
		return Transfer{}, err
	}
	s.complete()
	p.storeStamps()
	t, err := p.finish(ctx)
	if errors.Is(err, errNotAdmitted) {
		p.remove(ctx, s.own)
	}
	return t, err
}

// uploadParts uploads every mapping that is uploaded. Parts of mappings that the
// workload no longer has stay unchanged: removing a line from a workload file
// must not delete tenants' state.
func (p *pass) uploadParts(ctx context.Context) error {
	current, _ := p.previous.current()
	for _, m := range p.sync.Mappings {
		if m.Direction == workload.Download {
			continue
		}
		if err := p.uploadPart(ctx, m, findPart(current.Parts, m.SinkPath)); err != nil {
			return fmt.Errorf("%s: %w", m.Path, err)
		}
	}
	for _, part := range current.Parts {
		if findPart(p.parts, part.SinkPath) == nil {
			part.New = 0
			p.parts = append(p.parts, part)
		}
	}
	return nil
}

// uploadPart uploads one mapping.
func (p *pass) uploadPart(ctx context.Context, m workload.Mapping, last *Part) error {
	if p.fresh && m.Mode != workload.ModeCopy {
		last = nil
	}
	from, err := p.openLast(ctx, last)
	if err != nil {
		return err
	}
	defer from.close()
	if from.root != nil {
		p.known = append(p.known, knownRoot{last.Index, from.root})
	}
	s := p.newPartScan(ctx, m, last, from)
	defer s.close()
	if err := s.begin(); err != nil {
		return err
	}
	if err := s.scan(ctx); err != nil {
		return err
	}
	part := Part{}
	if !s.out.changed {
		part = *last
		part.New = 0
	}
	// What is unchanged may be all of another mapping: see Snapshot.Covers.
	part.SinkPath, part.Path, part.Pattern, part.Mode = m.SinkPath, m.Path, m.Pattern, m.Mode
	p.parts = append(p.parts, part)
	return s.out.end(len(p.parts) - 1)
}

// send gives the store a step. It waits until there is room for its data.
func (p *pass) send(ctx context.Context, weight int, do func(*store) error) error {
	st := step{min(int64(weight), maxStepRoom), do}
	if err := p.room.Acquire(ctx, st.weight); err != nil {
		return context.Cause(ctx)
	}
	select {
	case p.steps <- st:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
