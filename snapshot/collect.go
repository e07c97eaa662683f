package snapshot

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/hostler/hostler/internal/flow"
	"github.com/hostler/hostler/snapshot/index"
	"github.com/hostler/hostler/snapshot/pack"
)

// Mark is a pack that no snapshot of a manifest needs, and since when. It is not
// removed at once, because a download or an export may be reading a snapshot that
// was dropped after it began.
//
// No later manifest needs a pack that is marked: a new snapshot refers to packs
// of the current one and to new ones, a restored one is listed already, and a
// commit that is based on an older manifest fails. So a marked pack can be
// removed at any time after its grace, whatever the current manifest is by then.
type Mark struct {
	Pack  string    `json:"pack"` // a UUID
	Since time.Time `json:"since"`
}

const (
	// collectGrace is how long a pack stays after the last snapshot that needs it
	// was dropped.
	collectGrace = time.Hour
	// maxMarks bounds the marks of a manifest; what exceeds it is left to Prune.
	maxMarks = 10_000
	// maxSweep bounds the packs that one commit removes, because a release waits
	// for it. The others stay marked.
	maxSweep = 1000
	// maxCandidates bounds the packs that are looked at together, because each
	// takes memory.
	maxCandidates = 1 << 20
	// maxRoots and maxDeletes bound concurrent requests.
	maxRoots   = 4
	maxDeletes = 16
)

// knownRoot is the root of a part's index that the caller of commit has read or
// written, so that it is not read again.
type knownRoot struct {
	at   Location
	root *index.Root
}

// packSet is a set of packs.
type packSet map[pack.ID]struct{}

// subtract removes the packs that an index needs, and the one of its root.
func (s packSet) subtract(root *index.Root, in pack.ID) {
	delete(s, in)
	for _, p := range root.Packs {
		delete(s, p.ID)
	}
}

// add adds the packs that an index needs, and the one of its root, as far as
// there is room.
func (s packSet) add(root *index.Root, in pack.ID) {
	s.put(in)
	for _, p := range root.Packs {
		s.put(p.ID)
	}
}

func (s packSet) put(id pack.ID) {
	if len(s) < maxCandidates {
		s[id] = struct{}{}
	}
}

// collection is what a commit does with the packs that no kept snapshot needs.
type collection struct {
	marks   []Mark   // of the next manifest
	expired []string // keys of packs that are removed after the commit
	// unmarked is set if packs which were needed until now have no mark.
	unmarked time.Time
}

// clock returns the time of the bucket.
type clock func() (time.Time, error)

// collect returns what is done when next replaces previous. When a root of a kept
// snapshot cannot be read, nothing is marked or removed: one damaged object must
// not cost others. Without a dropped snapshot or a mark it makes no request.
func (r repository) collect(ctx context.Context, previous, next manifest, known []knownRoot, clock clock) collection {
	var c collection
	garbage := packSet{}
	for _, m := range previous.Garbage {
		if id, err := uuid.Parse(m.Pack); err == nil {
			garbage.put(pack.ID(id))
		}
	}
	kept := partsOf(next.Snapshots)
	dropped := slices.DeleteFunc(partsOf(previous.Snapshots), func(p Part) bool {
		return slices.ContainsFunc(kept, func(k Part) bool { return k.Index == p.Index })
	})
	if len(dropped) == 0 {
		// The new snapshot's roots are known; those of others have been subtracted.
		kept = slices.DeleteFunc(kept, func(p Part) bool { return findRoot(known, p.Index) == nil })
	}
	// A dropped part that cannot be read is left to Prune. If that is not because it
	// is damaged, someone else may be reading it.
	incomplete := false
	if err := r.eachRoot(ctx, dropped, known, garbage.add); err != nil {
		incomplete = !isDamage(err)
	}
	if len(garbage) > 0 {
		if err := r.eachRoot(ctx, kept, known, garbage.subtract); err != nil {
			c.marks = previous.Garbage[:min(len(previous.Garbage), maxMarks)]
			incomplete, garbage = incomplete || len(dropped) > 0, nil
		}
	}
	if len(garbage) == 0 && !incomplete {
		return c
	}
	now, err := clock()
	if len(garbage) > 0 {
		incomplete = c.mark(r.dir, previous, garbage, now, err == nil) || incomplete
	}
	if incomplete && err != nil {
		now = time.Now().UTC()
	}
	if incomplete {
		c.unmarked = now
	}
	return c
}

// mark marks garbage, and reports whether there was no room for some. It removes
// nothing if the time is not exact.
func (c *collection) mark(dir string, previous manifest, garbage packSet, now time.Time, exact bool) (incomplete bool) {
	since := map[pack.ID]time.Time{}
	if !exact {
		now = unknownTime
	}
	for _, m := range previous.Garbage {
		if id, err := uuid.Parse(m.Pack); err == nil {
			since[pack.ID(id)] = m.Since
			if exact {
				since[pack.ID(id)] = earlier(m.Since, now)
			}
		}
	}
	for _, id := range slices.SortedFunc(maps.Keys(garbage), func(p, q pack.ID) int {
		return cmp.Or(timeOf(since, p, now).Compare(timeOf(since, q, now)), slices.Compare(p[:], q[:]))
	}) {
		at := timeOf(since, id, now)
		switch {
		case exact && now.Sub(at) >= collectGrace && len(c.expired) < maxSweep:
			c.expired = append(c.expired, dir+packsDir+id.String())
		case len(c.marks) < maxMarks:
			c.marks = append(c.marks, Mark{Pack: id.String(), Since: at})
		default:
			incomplete = true
		}
	}
	return incomplete
}

// unknownTime is that of a mark which was made while the time of the bucket was not
// known: the clock of this server may be behind by more than the grace. The next
// commit that knows the time takes it for its own.
var unknownTime = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

// timeOf returns since when a pack is marked.
func timeOf(since map[pack.ID]time.Time, id pack.ID, now time.Time) time.Time {
	if at, ok := since[id]; ok {
		return at
	}
	return now
}

// earlier returns the earlier time. A server whose clock was ahead must not have
// marked a pack for as long as that.
func earlier(t, now time.Time) time.Time {
	if t.After(now) {
		return now
	}
	return t
}

// partsOf returns the parts of snapshots, those with one index once.
func partsOf(list []Snapshot) []Part {
	var all []Part
	known := map[Location]bool{}
	for _, s := range list {
		for _, p := range s.Parts {
			if !known[p.Index] {
				known[p.Index] = true
				all = append(all, p)
			}
		}
	}
	return all
}

func findRoot(known []knownRoot, at Location) *index.Root {
	for _, k := range known {
		if k.at == at {
			return k.root
		}
	}
	return nil
}

// rootReader reads roots for a collection.
type rootReader struct {
	repository
	known []knownRoot
	// memory bounds the roots that are decoded together: each is up to
	// pack.MaxRoot large.
	memory *semaphore.Weighted
	// mu is held while each runs. It guards leftOut.
	mu      sync.Mutex
	each    func(*index.Root, pack.ID)
	leftOut error // of a root; rather one that is not damaged
}

// eachRoot calls each with the roots of parts and the packs in which they are,
// one at a time. It reads several at once, and those in one small pack with one
// request. The error is that of a root that could not be read, rather of one that
// is not damaged; the others are read.
func (r repository) eachRoot(ctx context.Context, parts []Part, known []knownRoot, each func(*index.Root, pack.ID)) error {
	byPack := map[string][]Part{}
	for _, p := range parts {
		byPack[p.Index.Pack] = append(byPack[p.Index.Pack], p)
	}
	roots := &rootReader{repository: r, known: known, memory: semaphore.NewWeighted(pack.MaxRoot), each: each}
	var group errgroup.Group
	group.SetLimit(maxRoots)
	for _, parts := range byPack {
		group.Go(func() error {
			from := r.reader(nil)
			defer from.Close()
			for _, p := range parts {
				roots.leaveOut(roots.read(ctx, from, p))
			}
			return nil
		})
	}
	_ = group.Wait() // each error is left out
	return roots.leftOut
}

// leaveOut keeps the error of a root that is left out, if there is one.
func (r *rootReader) leaveOut(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil && (r.leftOut == nil || isDamage(r.leftOut)) {
		r.leftOut = err
	}
}

// read reads one root.
func (r *rootReader) read(ctx context.Context, from *pack.Reader, p Part) error {
	ref, err := p.Index.ref()
	if err != nil {
		return err
	}
	root := findRoot(r.known, p.Index)
	if root == nil {
		if err := r.memory.Acquire(ctx, int64(ref.Size)); err != nil {
			return err
		}
		defer r.memory.Release(int64(ref.Size))
		if root, err = r.openPart(ctx, from, p); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.each(root, ref.Pack)
	return nil
}

// sweep removes what is not needed now that next is current: older manifests, the
// seen lists of dropped snapshots, and expired packs, which next does not mark
// any more. A server that is killed here leaves them to Prune. The other order,
// to remove packs before the commit, would lose nothing either, but would keep a
// release waiting.
func (s *Sink) sweep(ctx context.Context, dir string, list []int64, previous, next manifest, expired []string) {
	for _, generation := range list {
		if generation < next.Generation {
			_ = s.bucket.Delete(ctx, manifestKey(dir, generation))
		}
	}
	flow.Failpoint("snapshot", "collect", "before")
	garbage := expired
	dropped := slices.DeleteFunc(slices.Clone(previous.Snapshots), func(s Snapshot) bool { return next.has(s.ID) })
	if len(dropped) > 0 {
		_ = s.bucket.List(ctx, dir+seenDir, func(o Object) error { // also left to Prune
			id, _, _ := strings.Cut(o.Key[len(dir+seenDir):], "_")
			if slices.ContainsFunc(dropped, func(s Snapshot) bool { return s.ID == id }) && len(garbage) < 2*maxSweep {
				garbage = append(garbage, o.Key)
			}
			return nil
		})
	}
	_, _ = s.deleteAll(ctx, garbage)
	flow.Failpoint("snapshot", "collect", "after")
	if next.Generation%pruneEvery == 0 {
		ctx, cancel := context.WithTimeout(ctx, pruneTimeout)
		defer cancel()
		_, _ = s.pruneObjects(ctx, dir, next) // a later one finds the rest
	}
}

// has reports whether a manifest lists a snapshot.
func (h manifest) has(id string) bool {
	return slices.ContainsFunc(h.Snapshots, func(s Snapshot) bool { return s.ID == id })
}

// deleteAll deletes objects, several at once, and returns how many it has.
func (s *Sink) deleteAll(ctx context.Context, keys []string) (int, error) {
	var mu sync.Mutex
	n := 0
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxDeletes)
	for _, key := range keys {
		group.Go(func() error {
			if err := s.bucket.Delete(ctx, key); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			n++
			return nil
		})
	}
	err := group.Wait()
	return n, err
}
