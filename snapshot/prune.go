package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/hostler/hostler/snapshot/pack"
)

// The maximum duration of an upload, and the age at which an object that no
// snapshot needs can no longer belong to an upload in progress.
const (
	uploadTimeout = 12 * time.Hour
	pruneGrace    = 24 * time.Hour
)

// isLate reports whether an upload that began at a time may have lost what it has
// stored to a prune of another server. The end of its context does not ensure that: no
// timer counts the time during which a machine is suspended, and that of a process
// that was stopped fires while the process continues.
func isLate(began time.Time) bool {
	now := time.Now()
	return max(now.Sub(began), now.Round(0).Sub(began.Round(0))) > uploadTimeout
}

// admitInTime returns a check of a manifest that refers to what was stored since a
// time.
func admitInTime(began time.Time) func(context.Context) error {
	return func(context.Context) error {
		if isLate(began) {
			return errUploadTimeout
		}
		return nil
	}
}

// pruneEvery is the number of commits with one that also prunes, for at most
// pruneTimeout, because a release waits for it. Servers that were killed, and
// uploads that were canceled, leave objects that no other call removes.
const (
	pruneEvery   = 64
	pruneTimeout = time.Minute
)

// maxSeen is how many seen lists of one part Prune keeps, the newest: a tenant
// has one container at a time, and the lists of others have no more use.
const maxSeen = 4

// Prune removes what failed uploads have left, and snapshots beyond the number
// to keep. It returns how many objects it removed. Calling it after a failed
// upload is enough: every pruneEvery-th commit does the same.
func (s *Sink) Prune(ctx context.Context, o Owner) (int, error) {
	n, err := s.prune(ctx, o)
	if err != nil {
		return n, fmt.Errorf("prune the snapshots of tenant %q of workload %s: %w", o.Tenant, o.Workload, err)
	}
	return n, nil
}

func (s *Sink) prune(ctx context.Context, o Owner) (int, error) {
	at, err := ownerDir(s.sync.Sink, o)
	if err != nil {
		return 0, err
	}
	h, err := s.loadManifest(ctx, at, o)
	if err != nil {
		return 0, err
	}
	if next := h.truncated(s.sync.Keep); len(next.Snapshots) < len(h.Snapshots) {
		if err := s.commit(ctx, at, h, next); err != nil {
			return 0, err
		}
		if h, err = s.loadManifest(ctx, at, o); err != nil {
			return 0, err
		}
	}
	return s.pruneObjects(ctx, at, h)
}

// pruneObjects removes the objects that no snapshot of the current manifest
// needs.
func (s *Sink) pruneObjects(ctx context.Context, dir string, h manifest) (int, error) {
	now, err := s.now(ctx, dir)
	if err != nil {
		return 0, err
	}
	p := pruning{Sink: s, dir: dir, head: h, now: now}
	// Each is independent: when one kind cannot be listed or checked, the others
	// are still removed.
	err = errors.Join(p.listHeads(ctx), p.listSeen(ctx), p.listPacks(ctx))
	n, deleteErr := s.deleteAll(ctx, p.garbage)
	return n, errors.Join(err, deleteErr)
}

// pruning is one search for garbage. What it finds is needed by no snapshot of its
// manifest, and neither by one of a later manifest: those need packs of this one
// and newer ones, which are younger than the grace.
type pruning struct {
	*Sink
	dir     string
	head    manifest
	now     time.Time // of the bucket
	garbage []string  // keys
}

// isOld reports whether an object can no longer belong to an upload in progress.
func (p *pruning) isOld(o Object) bool { return o.Time.Before(p.now.Add(-pruneGrace)) }

// hasEnded reports whether the grace of what was dropped at a time has ended.
func (p *pruning) hasEnded(since time.Time) bool {
	return p.now.Sub(earlier(since, p.now)) >= collectGrace
}

// listHeads finds former manifests, and what a write of one has left.
func (p *pruning) listHeads(ctx context.Context) error {
	return p.bucket.List(ctx, p.dir+manifestDir, func(o Object) error {
		if p.isOld(o) && o.Key != manifestKey(p.dir, p.head.Generation) {
			p.garbage = append(p.garbage, o.Key)
		}
		return nil
	})
}

// listSeen finds the seen lists of snapshots that are not kept, and those of
// containers that the tenant had long ago.
func (p *pruning) listSeen(ctx context.Context) error {
	kept := map[string][]Object{} // by snapshot and part
	err := p.bucket.List(ctx, p.dir+seenDir, func(o Object) error {
		name := strings.Split(o.Key[len(p.dir+seenDir):], "_")
		switch {
		case !p.isOld(o):
		case len(name) < 3 || !p.head.has(name[0]):
			p.garbage = append(p.garbage, o.Key)
		default:
			part := name[0] + "_" + name[len(name)-1]
			kept[part] = append(kept[part], o)
		}
		return nil
	})
	for _, list := range kept {
		slices.SortFunc(list, func(a, b Object) int { return cmp.Or(b.Time.Compare(a.Time), cmp.Compare(a.Key, b.Key)) })
		for _, o := range list[min(len(list), maxSeen):] {
			p.garbage = append(p.garbage, o.Key)
		}
	}
	return err
}

// listPacks finds the packs that no kept snapshot needs. Those that were marked
// less than the grace ago stay.
func (p *pruning) listPacks(ctx context.Context) error {
	marked := map[string]bool{} // whether its grace has ended
	for _, m := range p.head.Garbage {
		marked[m.Pack] = p.hasEnded(m.Since)
	}
	// One without a mark may have been dropped when this was not recorded for it.
	dropped := !p.head.Unmarked.IsZero() && !p.hasEnded(p.head.Unmarked)
	found := packSet{}
	var partial []string
	err := p.bucket.List(ctx, p.dir+packsDir, func(o Object) error {
		name := o.Key[len(p.dir+packsDir):]
		ended, isMarked := marked[name]
		isMarked = isMarked || dropped
		if isMarked && !ended || !isMarked && !p.isOld(o) {
			return nil
		}
		id, err := uuid.Parse(name)
		if err != nil || id.String() != name {
			partial = append(partial, o.Key)
			return nil
		}
		found.put(pack.ID(id))
		return nil
	})
	if err != nil {
		return err
	}
	p.garbage = append(p.garbage, partial...)
	if len(found) == 0 {
		return nil
	}
	if err := p.repository(p.dir, p.head).eachRoot(ctx, partsOf(p.head.Snapshots), nil, found.subtract); err != nil {
		return err
	}
	for id := range found {
		p.garbage = append(p.garbage, p.dir+packsDir+id.String())
	}
	return nil
}
