package snapshot

import (
	"archive/tar"
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/runtime/tree"
	"github.com/hostler/hostler/snapshot/index"
	"github.com/hostler/hostler/snapshot/pack"
	"github.com/hostler/hostler/workload"
)

// Import makes a tar the current snapshot. Its names are below the paths of the
// mappings that upload, with or without a first slash. Each of these mappings has
// then what the tar has for it, or nothing. No container takes part, so the caller
// ensures that the tenant has no claim, as for Restore; before is called right before
// the snapshot becomes current, with it, and its error ends the import. Of the origin, the
// owner and the revision count. A tar that Hostler does not accept is runtime.ErrBadArchive,
// and one that is too large ErrTooLarge; nothing has changed then, and nothing of it
// stays stored.
func (s *Sink) Import(ctx context.Context, o Origin, r io.Reader, before func(context.Context, Snapshot) error) (Snapshot, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, uploadTimeout, errImportTimeout)
	defer cancel()
	imported, err := s.importTar(ctx, o, r, before)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return Snapshot{}, fmt.Errorf("import a snapshot of tenant %q of workload %s: %w", o.Tenant, o.Workload, err)
	}
	return imported, nil
}

var errImportTimeout = fmt.Errorf("the tar was not received within %s", uploadTimeout)

func (s *Sink) importTar(ctx context.Context, o Origin, r io.Reader, before func(context.Context, Snapshot) error) (Snapshot, error) {
	began := time.Now()
	dir, err := ownerDir(s.sync.Sink, o.Owner)
	if err != nil {
		return Snapshot{}, err
	}
	previous, err := s.loadManifest(ctx, dir, o.Owner)
	if err != nil {
		return Snapshot{}, err
	}
	next := previous
	next.admit = admitInTime(began)
	if next.Salt == [32]byte{} {
		_, _ = rand.Read(next.Salt[:]) // it never fails
	}
	own := &ownPacks{Bucket: s.bucket}
	parts, err := s.importParts(ctx, s.repository(dir, next), own, previous, r)
	current := Snapshot{ID: newID(), Time: time.Now().UTC(), Revision: o.Revision, Reason: "import", Parts: parts}
	if err == nil {
		err = before(ctx, current)
	}
	if err != nil {
		s.remove(ctx, own)
		return Snapshot{}, err
	}
	return current, s.commit(ctx, dir, previous, next.withSnapshot(current, s.sync.Keep))
}

// importParts stores what a tar has.
func (s *Sink) importParts(ctx context.Context, to repository, own *ownPacks, previous manifest, r io.Reader) ([]Part, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	im, err := s.newImporter(ctx, to, own, previous)
	if err != nil {
		return nil, err
	}
	parts, err := im.run(ctx, r)
	if err != nil {
		cancel()
		_ = im.to.Discard() // it fails with err, or because of it
	}
	return parts, err
}

// importer makes a snapshot of a tar. It is used by one goroutine.
type importer struct {
	sync    *workload.Sync
	format  *pack.Format
	to      *pack.Writer
	content *contentWriter
	targets []*importTarget
	kept    []Part // of the previous snapshot that no target replaces
	limits  importLimits
}

// importTarget is a part that is made.
type importTarget struct {
	Part
	base    string          // the path in the tar, without slashes at its ends
	records []*index.Record // by reference: a list that grows is there twice
	isOld   bool            // the workload has no mapping for it
	isUsed  bool
}

// newImporter returns an importer for the mappings that upload, and for the parts of
// the current snapshot that the workload has no mapping for.
func (s *Sink) newImporter(ctx context.Context, r repository, own *ownPacks, previous manifest) (*importer, error) {
	content, err := newContentWriter(r.format)
	if err != nil {
		return nil, err
	}
	im := &importer{sync: s.sync, format: r.format, content: content, limits: importLimits{sync: s.sync}}
	for _, m := range s.sync.Mappings {
		if m.Direction != workload.Download {
			part := Part{SinkPath: m.SinkPath, Path: m.Path, Pattern: m.Pattern, Mode: m.Mode}
			im.targets = append(im.targets, &importTarget{Part: part, base: strings.Trim(m.Path, "/")})
		}
	}
	current, _ := previous.current()
	for _, p := range current.Parts {
		if slices.ContainsFunc(s.sync.Mappings, func(m workload.Mapping) bool { return m.SinkPath == p.SinkPath }) {
			continue
		}
		part := Part{SinkPath: p.SinkPath, Path: p.Path, Pattern: p.Pattern, Mode: p.Mode}
		im.targets = append(im.targets, &importTarget{Part: part, base: strings.Trim(p.Path, "/"), isOld: true})
		im.kept = append(im.kept, p)
	}
	im.to = pack.NewWriter(ctx, own, r.dir+packsDir, r.format, nil)
	im.content.to = im.to
	return im, nil
}

// run reads the tar, and stores its files and the indexes.
func (im *importer) run(ctx context.Context, r io.Reader) ([]Part, error) {
	if err := im.read(ctx, newTarReader(r)); err != nil {
		return nil, err
	}
	var parts []Part
	for _, t := range im.targets {
		if t.isOld && !t.isUsed {
			parts = append(parts, *findPart(im.kept, t.SinkPath))
			continue
		}
		if err := im.finish(t); err != nil {
			return nil, err
		}
		parts = append(parts, t.Part)
	}
	// Only the last pack is small enough to be read as a whole.
	last, size, ok := im.to.Filling()
	for i := range parts {
		l := &parts[i].Index
		if ok && l.Pack == last.String() {
			l.PackSize = size
		}
	}
	return parts, im.to.Flush()
}

// read reads all entries of the tar.
func (im *importer) read(ctx context.Context, from *tarReader) error {
	isEmpty := true
	for {
		h, err := from.next()
		if err == io.EOF { //nolint:errorlint // next returns it itself
			break
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		isEmpty = false
		if err := im.limits.read(h); err != nil {
			return err
		}
		if err := im.entry(h, from); err != nil {
			return err
		}
	}
	if isEmpty {
		return archiveErrorf("it has no entries")
	}
	return nil
}

// entry reads one entry.
func (im *importer) entry(h *tar.Header, content io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil // of git archive, for instance
	}
	name, err := cleanName(cmp.Or(strings.TrimLeft(h.Name, "/"), "."))
	if err != nil {
		return err
	}
	places, err := im.places(h, name)
	if err != nil {
		return err
	}
	places = slices.DeleteFunc(places, func(p importPlace) bool {
		p.isUsed = true
		return droppedTypes[h.Typeflag] || p.name == "." || h.Typeflag != tar.TypeDir && !matches(p.Pattern, p.name)
	})
	if len(places) == 0 {
		return nil
	}
	record, err := newRecord(h, places[0].name)
	if err != nil {
		return err
	}
	for range places {
		if err := im.limits.keep(record); err != nil {
			return err
		}
	}
	if record.Kind == tree.File {
		if record.Chunks, err = im.content.write(content, record.Size); err != nil {
			return fmt.Errorf("%.200q: %w", h.Name, err)
		}
	}
	for _, p := range places {
		placed := record
		placed.Path = strings.Clone(p.name)
		if err := im.limits.hold(placed); err != nil {
			return err
		}
		p.records = append(p.records, &placed)
	}
	return nil
}

// importPlace is a part that an entry may be in, and its name there.
type importPlace struct {
	*importTarget
	name string
}

// places returns the parts of an entry. As at an upload these are all mappings whose
// directory it is in; each keeps what its pattern matches. A part without a mapping
// has what is below no closer directory of a mapping. There is none for a directory
// above those of the mappings.
func (im *importer) places(h *tar.Header, name string) ([]importPlace, error) {
	var found []importPlace
	var closest *importTarget
	isAbove := false
	for _, t := range im.targets {
		isAbove = isAbove || name == "." || strings.HasPrefix(t.base, name+"/")
		below, ok := strings.CutPrefix(name+"/", t.base+"/")
		if t.base == "" {
			below, ok = name+"/", true
		}
		if !ok {
			continue
		}
		found = append(found, importPlace{t, path.Clean(below)})
		if closest == nil || len(t.base) > len(closest.base) || closest.isOld && len(t.base) == len(closest.base) {
			closest = t
		}
	}
	switch {
	case closest != nil && name == closest.base && h.Typeflag != tar.TypeDir:
		return nil, archiveErrorf("%q is not a directory, and it is a path that the workload keeps", name)
	case closest != nil:
		return slices.DeleteFunc(found, func(p importPlace) bool {
			return p.importTarget != closest && (p.isOld || closest.isOld)
		}), nil
	case isAbove && h.Typeflag == tar.TypeDir:
		return nil, nil
	}
	var bases []string
	for _, t := range im.targets {
		bases = append(bases, t.base)
	}
	return nil, archiveErrorf("%.200q is not below a path that the workload keeps: %s", name, strings.Join(bases, ", "))
}

// finish stores the index of a part.
func (im *importer) finish(t *importTarget) error {
	records, err := im.arrange(t)
	if err != nil {
		return err
	}
	t.records = nil
	b := index.NewBuilder(im.to, im.format, nil, nil)
	for _, r := range records {
		if err := addRecord(b, *r); err != nil {
			return err
		}
	}
	root, ref, err := b.Finish()
	if err != nil {
		return err
	}
	// A pack that is complete has this size at least.
	t.Index = locationOf(ref, max(int64(ref.Offset)+int64(ref.Length), pack.TargetSize))
	t.Files, t.Bytes, t.Stored = root.Files, root.Bytes, int64(ref.Length)
	for _, u := range root.Packs {
		t.Stored += u.Live
	}
	t.New = t.Stored
	return nil
}

// addRecord adds a file of any number of chunks.
func addRecord(b *index.Builder, r index.Record) error {
	chunks := r.Chunks
	for {
		n := min(len(chunks), index.MaxChunks)
		r.Chunks, r.More = chunks[:n], len(chunks) > n
		if err := b.Add(r); err != nil {
			return err
		}
		if chunks = chunks[n:]; len(chunks) == 0 {
			return nil
		}
		r = index.Record{Entry: tree.Entry{Path: r.Path, Kind: r.Kind}, Continued: true}
	}
}

// arrange sorts the records of a part, removes those that later ones replace, puts
// the content of their targets into hard links, and removes directories that the
// pattern does not keep.
func (im *importer) arrange(t *importTarget) ([]*index.Record, error) {
	slices.SortStableFunc(t.records, func(a, b *index.Record) int { return tree.Compare(a.Path, b.Path) })
	last := t.records[:0]
	for i, r := range t.records {
		if i+1 == len(t.records) || t.records[i+1].Path != r.Path {
			last = append(last, r)
		}
	}
	if err := im.copyLinked(t, last); err != nil {
		return nil, err
	}
	var file string // the last one that is no directory
	kept := make([]bool, len(last))
	var above []int // directories that contain the record
	for i, r := range last {
		if file != "" && strings.HasPrefix(r.Path, file+"/") {
			return nil, archiveErrorf("%.200q is below %.200q, which is not a directory", path.Join(t.base, r.Path), path.Join(t.base, file))
		}
		for len(above) > 0 && !strings.HasPrefix(r.Path, last[above[len(above)-1]].Path+"/") {
			above = above[:len(above)-1]
		}
		kept[i] = matches(t.Pattern, r.Path)
		for j := len(above) - 1; kept[i] && j >= 0 && !kept[above[j]]; j-- {
			kept[above[j]] = true
		}
		if r.Kind == tree.Dir {
			above = append(above, i)
		} else {
			file = r.Path
		}
	}
	arranged := last[:0]
	for i, r := range last {
		if kept[i] {
			arranged = append(arranged, r)
		}
	}
	return arranged, nil
}

// copyLinked makes files of hard links.
func (im *importer) copyLinked(t *importTarget, sorted []*index.Record) error {
	for _, r := range sorted {
		if r.Kind != hardLink {
			continue
		}
		target, err := im.linked(t, sorted, r.Target)
		if err != nil {
			return fmt.Errorf("the hard link %.200q: %w", path.Join(t.base, r.Path), err)
		}
		at := r.Path
		*r = *target
		r.Path = at
		if err := im.limits.keepSize(r.Size); err != nil {
			return err
		}
	}
	return nil
}

// linked returns the file that a hard link of the part names.
func (im *importer) linked(t *importTarget, sorted []*index.Record, name string) (*index.Record, error) {
	below, ok := strings.CutPrefix(name, t.base+"/")
	if t.base == "" {
		below, ok = name, true
	}
	i, found := slices.BinarySearchFunc(sorted, below, func(r *index.Record, p string) int { return tree.Compare(r.Path, p) })
	if !ok || !found || sorted[i].Kind != tree.File {
		return nil, archiveErrorf("its target %.200q is not a file that is kept with it: make the tar with --hard-dereference", name)
	}
	return sorted[i], nil
}
