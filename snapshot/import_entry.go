package snapshot

import (
	"archive/tar"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/hostler/hostler/runtime/tree"
	"github.com/hostler/hostler/snapshot/index"
	"github.com/hostler/hostler/workload"
)

// hardLink is the kind of a record until the file that it names is known.
const hardLink tree.Kind = 'h'

// importedKinds are the kinds of entries.
var importedKinds = map[byte]tree.Kind{
	tar.TypeReg: tree.File, tar.TypeCont: tree.File, tar.TypeGNUSparse: tree.File,
	tar.TypeDir: tree.Dir, tar.TypeSymlink: tree.Link, tar.TypeLink: hardLink,
}

// newRecord returns the record of an entry, without content.
func newRecord(h *tar.Header, name string) (index.Record, error) {
	r := index.Record{Entry: tree.Entry{
		Path: strings.Clone(name), Kind: importedKinds[h.Typeflag], Mode: uint32(h.Mode & permissionBits), //nolint:gosec // masked
		Owner: importedOwner(h.Uid), Group: importedOwner(h.Gid),
		// No container accepts a time that no file can have.
		ModTime: tree.ClampTime(h.ModTime.Unix(), int64(h.ModTime.Nanosecond())),
	}}
	switch {
	case r.Kind == 0:
		return r, archiveErrorf("%.200q is of the type %q, which is not kept", name, h.Typeflag)
	// The last number is that of no user: no container accepts it.
	case r.Owner >= maxOwner || r.Group >= maxOwner || h.Uid < 0 || h.Gid < 0:
		return r, archiveErrorf("%.200q has an invalid owner", name)
	}
	switch r.Kind {
	case tree.File:
		r.Size = h.Size
	case tree.Link:
		if h.Linkname == "" || len(h.Linkname) > maxLinkTarget || strings.ContainsRune(h.Linkname, 0) {
			return r, archiveErrorf("the link %.200q has an invalid target", name)
		}
		r.Mode, r.Target = 0, strings.Clone(h.Linkname)
	case hardLink:
		target, err := cleanName(strings.TrimLeft(h.Linkname, "/"))
		if err != nil {
			return r, fmt.Errorf("the hard link %.200q: %w", name, err)
		}
		r.Target = strings.Clone(target)
	}
	return r, nil
}

// importedOwner returns an owner: root in a tar is the container's user, as in the
// tar of an export.
func importedOwner(id int) int64 {
	if id == 0 {
		return tree.OwnUser
	}
	return int64(id)
}

// Bounds of an import, beyond those of the workload.
const (
	// maxImportMemory bounds the records, which are sorted in memory.
	maxImportMemory = 64 << 20
	recordMemory    = 208 // of one, without its strings and chunks
	chunkMemory     = 72
	// maxExcluded is how much more than what may be kept a tar may have that is not
	// kept.
	maxExcluded = 10
)

// importLimits count what a tar has.
type importLimits struct {
	sync         *workload.Sync
	entries      int64 // that were read
	bytes        int64
	files        int // that are kept
	size, memory int64
}

// read counts an entry.
func (l *importLimits) read(h *tar.Header) error {
	l.entries++
	if h.Size > math.MaxInt64-l.bytes {
		return archiveErrorf("%.200q has the size %d", h.Name, h.Size)
	}
	l.bytes += h.Size
	if l.bytes/(maxExcluded+1) > l.sync.MaxSize || l.entries/(maxExcluded+1) > int64(l.sync.MaxFiles) {
		return fmt.Errorf("%w: the tar has %d entries of %d bytes", ErrTooLarge, l.entries, l.bytes)
	}
	return nil
}

// keep counts an entry that is kept.
func (l *importLimits) keep(r index.Record) error {
	if l.files++; l.files > l.sync.MaxFiles {
		return fmt.Errorf("%w: more than %d files (max_files)", ErrTooLarge, l.sync.MaxFiles)
	}
	if r.Kind == tree.Link {
		return l.keepSize(int64(len(r.Target)))
	}
	return l.keepSize(r.Size)
}

func (l *importLimits) keepSize(size int64) error {
	if l.size += size; l.size > l.sync.MaxSize {
		return fmt.Errorf("%w: more than %d bytes (max_size)", ErrTooLarge, l.sync.MaxSize)
	}
	return nil
}

// hold counts the memory of a record.
func (l *importLimits) hold(r index.Record) error {
	l.memory += recordMemory + int64(len(r.Path)+len(r.Target)+chunkMemory*cap(r.Chunks))
	if l.memory > maxImportMemory {
		return fmt.Errorf("%w: the names and places of %d files need more than %d MiB of memory, the limit of an import: "+
			"copy the files into a container of the tenant and release it instead", ErrTooLarge, l.files, maxImportMemory>>20)
	}
	return nil
}

// tarReader reads a tar. It accepts only a whole one: archive/tar takes one that was
// cut between two entries for complete.
type tarReader struct {
	from *positionReader
	tar  *tar.Reader
	end  int64  // of the last entry
	last string // its name
}

const tarBlock = 512

// maxHeader bounds what comes before an entry: its name, the target of its link, its
// attributes and the places of its content, of up to 1 MiB each. archive/tar reads any
// number of headers in search of an entry, and they count as none.
const maxHeader = 8 << 20

var errHeader = archiveErrorf("the headers of an entry have more than %d bytes", maxHeader)

func newTarReader(r io.Reader) *tarReader {
	from := &positionReader{from: r, limit: math.MaxInt64}
	return &tarReader{from: from, tar: tar.NewReader(from)}
}

// next returns the next header, or io.EOF after the end mark.
func (r *tarReader) next() (*tar.Header, error) {
	if _, err := io.Copy(io.Discard, r.tar); err != nil { // what was not read of the last entry
		return nil, r.nameLast(r.failure(err))
	}
	r.end = (r.from.at + tarBlock - 1) / tarBlock * tarBlock
	r.from.limit = r.end + maxHeader
	h, err := r.tar.Next()
	r.from.limit = math.MaxInt64
	if err == io.EOF { //nolint:errorlint // Next returns it itself
		return nil, r.finish()
	}
	if err != nil {
		return nil, r.nameLast(r.failure(err))
	}
	r.last = h.Name
	return h, nil
}

// nameLast adds where the reading has ended.
func (r *tarReader) nameLast(err error) error {
	if r.last == "" {
		return err
	}
	return fmt.Errorf("in or after the entry %.200q: %w", r.last, err)
}

// Read reads the content of the last entry.
func (r *tarReader) Read(b []byte) (int, error) {
	n, err := r.tar.Read(b)
	if err != nil && err != io.EOF { //nolint:errorlint // Read returns it itself
		err = r.failure(err)
	}
	return n, err
}

// maxTail bounds what follows the end mark: tar fills up its last record.
const maxTail = 1 << 20

// finish returns io.EOF if the tar is complete.
func (r *tarReader) finish() error {
	if r.from.at-r.end < 2*tarBlock {
		return archiveErrorf("it is incomplete: it has no end")
	}
	n, err := io.Copy(io.Discard, io.LimitReader(r.from, maxTail+1))
	if err != nil {
		return r.failure(err)
	}
	if n > maxTail {
		return archiveErrorf("more than %d bytes follow its end", maxTail)
	}
	return io.EOF
}

// failure returns the error of the source, or that of the tar.
func (r *tarReader) failure(err error) error {
	if r.from.err != nil {
		return r.from.err
	}
	return archiveErrorf("%w", err)
}

// positionReader counts what is read.
type positionReader struct {
	from  io.Reader
	at    int64
	limit int64 // of at
	err   error // other than io.EOF
}

func (r *positionReader) Read(b []byte) (int, error) {
	if r.at >= r.limit {
		r.err = errHeader
		return 0, r.err
	}
	n, err := r.from.Read(b)
	r.at += int64(n)
	if err != nil && err != io.EOF { //nolint:errorlint // a reader returns io.EOF itself
		r.err = err
	}
	return n, err
}
