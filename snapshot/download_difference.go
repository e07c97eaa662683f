package snapshot

import (
	"context"
	"errors"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/runtime/tree"
	"github.com/hostler/hostler/snapshot/index"
	"github.com/hostler/hostler/workload"
)

// difference compares what a container has with what it is to have. The list of
// the container is always read further than the tree is written, and a directory
// is listed before anything in it is written, so that the list never has what
// this download wrote.
type difference struct {
	*partDownload
	mapping workload.Mapping
	whole   bool               // what is below a path that the pattern matches is matched
	earlier []workload.Mapping // that were downloaded before, and decide about their own paths
	scan    *scanCursor
	held    *heldCursor
	gone    string // what was removed or replaced, with all that was below it
	late    []lateDir
	above   []int // the directories in late that are above what is listed
}

// lateDir is a directory to remove, unless something below it stays. That is
// known only when all below it is listed.
type lateDir struct {
	path  string
	stays bool
}

// maxLate bounds these. More of them stay.
const maxLate = 4096

// maxAhead bounds the records of one file that are compared. A file of more
// records is written again.
const maxAhead = 16

// planDifference adds what differs to the fetcher. It returns directories that
// are to be removed after that.
func (t *partDownload) planDifference(ctx context.Context, records *index.Records) ([]string, error) {
	m := t.sync.Mappings[t.mapping]
	c := &difference{partDownload: t, mapping: m, earlier: t.overlapping()}
	c.whole = len(c.earlier) == 0 && (m.Pattern == matchAll || strings.HasSuffix(m.Pattern, "/"+matchAll))
	var err error
	if c.scan, err = t.openScan(ctx, m); err != nil {
		return nil, err
	}
	defer c.scan.close()
	if c.held, err = t.openHeld(ctx); err != nil {
		return nil, err
	}
	defer c.held.close()
	if err := c.compare(records); err != nil {
		return nil, c.scan.pace.result(err)
	}
	var late []string
	for _, dir := range c.late {
		if !dir.stays && (len(late) == 0 || !strings.HasPrefix(dir.path, late[len(late)-1]+"/")) {
			late = append(late, dir.path)
		}
	}
	return late, nil
}

// makeDirs makes the directory of the mapping, below its volume, a directory. A
// process may have replaced it by a link: then what is listed would not be where
// files are written.
func (t *partDownload) makeDirs(ctx context.Context) error {
	m := t.sync.Mappings[t.mapping]
	dir := relativeTo(m.Path, m.Volume)
	if dir == "" {
		return nil
	}
	to := newPace(ctx, nil)
	defer to.stop()
	m.Path = m.Volume
	return t.writeTree(to, m, nil, func(w *containerWriter) error {
		for i := range len(dir) + 1 {
			if i < len(dir) && dir[i] != '/' {
				continue
			}
			e := tree.Entry{Path: dir[:i], Kind: tree.Dir, Mode: 0o755, Owner: tree.OwnUser, Group: tree.OwnGroup, ModTime: time.Now()}
			if err := w.create(e); err != nil {
				return err
			}
		}
		return nil
	})
}

// overlapping returns the mappings before this one that may have downloaded to
// the same paths.
func (t *partDownload) overlapping() []workload.Mapping {
	m := t.sync.Mappings[t.mapping]
	isBelow := func(p, dir string) bool { return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/") }
	return slices.DeleteFunc(slices.Clone(t.sync.Mappings[:t.mapping]), func(o workload.Mapping) bool {
		return o.Direction == workload.Upload || !isBelow(o.Path, m.Path) && !isBelow(m.Path, o.Path)
	})
}

// compare merges the index and the list of the container.
func (c *difference) compare(records *index.Records) error {
	for {
		r, err := c.next(records)
		if errors.Is(err, io.EOF) {
			return c.surplus("")
		}
		if err == nil && r.Continued {
			err = c.write(r, false)
		} else if err == nil {
			err = c.entry(r, records)
		}
		if err != nil {
			return err
		}
	}
}

// entry decides about an entry that the container is to have.
func (c *difference) entry(r index.Record, records *index.Records) error {
	if err := c.surplus(r.Path); err != nil {
		return err
	}
	has, err := c.scan.peek()
	if err != nil {
		return err
	}
	if has == nil || has.Path != r.Path {
		return c.write(r, false)
	}
	listed := *has
	c.scan.skip()
	switch {
	case listed.Kind == tree.Dir && r.Kind == tree.Dir:
		// The time of a directory changes with its contents, and is not state.
		if hasSameMode(listed, r.Entry) {
			return nil
		}
		return c.write(r, true)
	case listed.Kind == tree.Link && r.Kind == tree.Link:
		if hasSameMode(listed, r.Entry) && listed.Target == r.Target {
			return nil
		}
	case listed.Kind == tree.File && r.Kind == tree.File:
		same, err := c.isUnchanged(listed, &r, records)
		if err != nil || same {
			return err
		}
	case listed.Kind == tree.Dir:
		c.gone = r.Path // with what replaces it
	}
	return c.write(r, false)
}

func hasSameMode(a, b tree.Entry) bool {
	return a.Mode == b.Mode && a.Owner == b.Owner && a.Group == b.Group
}

// isUnchanged reports whether a file in the container is what the index has:
// nothing has changed since it was seen, and what was seen was the same. The
// records that continue the file are then read.
func (c *difference) isUnchanged(listed tree.Entry, r *index.Record, records *index.Records) (bool, error) {
	held, stamp, ok := c.held.find(r.Path)
	if !ok || stamp.IsZero() || stamp != listed.Stamp || listed.Size != held.Size || !listed.ModTime.Equal(held.ModTime) ||
		held.Size != r.Size || !held.ModTime.Equal(r.ModTime) || !hasSameMode(held.Entry, r.Entry) || !hasSameContent(held, *r) {
		return false, nil
	}
	var ahead []index.Record
	last, same := *r, true
	if r.More { // its chunks are valid until the next record is read
		r.Chunks = slices.Clone(r.Chunks)
	}
	for same && last.More {
		if len(ahead) == maxAhead {
			same = false
			break
		}
		next, err := c.next(records)
		if err != nil {
			return false, err
		}
		next.Chunks = slices.Clone(next.Chunks)
		ahead = append(ahead, next)
		rest, ok := c.held.rest()
		same, last = ok && hasSameContent(rest, next), next
	}
	if same {
		if c.seen != nil {
			c.seen.kept(stamp)
		}
		return true, nil
	}
	c.ahead = ahead
	return false, nil
}

// hasSameContent reports whether two records have the same content. Where it is
// stored does not matter.
func hasSameContent(a, b index.Record) bool {
	return a.More == b.More && slices.EqualFunc(a.Chunks, b.Chunks, func(x, y index.Chunk) bool {
		return x.Hole == y.Hole && x.Ref.Size == y.Ref.Size && x.Ref.Hash == y.Ref.Hash
	})
}

// surplus removes what the container has before a path and is not to have; next
// is that path, "" for the end.
func (c *difference) surplus(next string) error {
	for {
		has, err := c.scan.peek()
		if err != nil || has == nil || next != "" && tree.Compare(has.Path, next) >= 0 {
			return err
		}
		listed := *has
		c.scan.skip()
		if c.gone != "" && strings.HasPrefix(listed.Path, c.gone+"/") {
			continue
		}
		for n := len(c.above); n > 0 && !strings.HasPrefix(listed.Path, c.late[c.above[n-1]].path+"/"); n-- {
			c.above = c.above[:n-1]
		}
		if err := c.remove(listed, next); err != nil {
			return err
		}
	}
}

// remove removes an entry that the index does not have, unless it is none of the
// mapping's.
func (c *difference) remove(e tree.Entry, next string) error {
	if !matches(c.mapping.Pattern, e.Path) || c.isOfEarlier(e.Path) || next != "" && strings.HasPrefix(next, e.Path+"/") {
		for _, i := range slices.Backward(c.above) {
			if c.late[i].stays {
				break // and what is above it
			}
			c.late[i].stays = true
		}
		return nil
	}
	if e.Kind == tree.Dir && !c.whole {
		if len(c.late) < maxLate {
			c.above = append(c.above, len(c.late))
			c.late = append(c.late, lateDir{path: e.Path})
		}
		return nil
	}
	c.gone = e.Path
	return c.fetch.add(item{do: remove, entry: tree.Entry{Path: e.Path}}, nil)
}

// isOfEarlier reports whether a mapping that was downloaded before has decided
// about a path.
func (c *difference) isOfEarlier(p string) bool {
	full := path.Join(c.mapping.Path, p)
	return slices.ContainsFunc(c.earlier, func(m workload.Mapping) bool {
		below, ok := strings.CutPrefix(full, strings.TrimSuffix(m.Path, "/")+"/")
		return ok && matches(m.Pattern, below)
	})
}

// removeLate removes directories that are empty, or have only what is not state.
func (t *partDownload) removeLate(ctx context.Context, dirs []string) error {
	to := newPace(ctx, nil)
	defer to.stop()
	return t.writeTree(to, t.sync.Mappings[t.mapping], nil, func(w *containerWriter) error {
		for _, dir := range dirs {
			if err := w.remove(dir); err != nil {
				return err
			}
		}
		return nil
	})
}
