package main

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/hostler/hostler/runtime"
	"golang.org/x/sys/unix"
)

// How much of a container's files is compared, at 16 bytes of memory a file.
// More is not proven clean: to look at it would take longer than to make
// another container. The root filesystem could be read-only, which needs no
// proof.
const (
	censusFiles = 200_000
	censusTime  = 10 * time.Second
)

// errCensus ends a census that becomes too large.
var errCensus = fmt.Errorf("%w: it has more files than can be compared; make its root filesystem read-only", runtime.ErrNotClean)

// errSeen ends a census that has found what it looked for.
var errSeen = errors.New("seen enough")

// tree is a part of the container's files that has to stay as it was.
type tree struct {
	root string // a directory, or a single file
	// mounted are the names that are passed over, by their directory: each is
	// another tree, or emptied, or cannot be written.
	mounted map[string][]string
	// emptied says that a wipe removes what was added directly below root, so
	// that root's own times and size change.
	emptied bool
	// detailed compares what details tells of, too.
	detailed bool
}

// newTree is the tree of all below root that is not mounted there.
func newTree(root string, mounted []string) tree {
	t := tree{root: root, mounted: make(map[string][]string)}
	for _, path := range mounted {
		if path != root && under(path, root) {
			dir := filepath.Dir(path)
			t.mounted[dir] = append(t.mounted[dir], filepath.Base(path))
		}
	}
	return t
}

// entry is one file as a census comes by.
type entry struct {
	dir   string
	name  []byte // good until the next entry
	isDir bool
	print fingerprint
}

func (e entry) path() string { return filepath.Join(e.dir, string(e.name)) }

// walker walks trees. It holds one directory open at a time, opens no file that
// it does not read, and allocates nothing for a file.
type walker struct {
	visit func(entry) error
	ends  time.Time
	left  int // how many files more it looks at
	names [32 << 10]byte
	hash  []byte
}

// walk visits all of the trees.
func (w *walker) walk(trees []tree) error {
	for _, t := range trees {
		if err := w.tree(t); err != nil {
			return err
		}
	}
	return nil
}

// tree visits all of one tree.
func (w *walker) tree(t tree) error {
	f, err := lookAt(t.root)
	if err != nil {
		return err
	}
	if t.emptied {
		f = f.emptied()
	}
	if err := w.file(t, f, t.root, nil); err != nil || !f.isDir() {
		return err
	}
	for pending := []string{t.root}; len(pending) > 0; {
		dir := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		below, err := w.directory(t, dir)
		if err != nil {
			return err
		}
		pending = append(pending, below...)
	}
	return nil
}

// directory visits what is directly in a directory, and returns the directories
// among it.
func (w *walker) directory(t tree, dir string) ([]string, error) {
	fd, err := openDirectory(dir)
	if err != nil {
		if isClosed(dir, err) {
			return nil, nil
		}
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}
	defer unix.Close(fd)
	var below []string
	mounted := t.mounted[dir]
	for {
		n, err := unix.Getdents(fd, w.names[:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", dir, err)
		}
		if n <= 0 {
			return below, nil
		}
		if time.Now().After(w.ends) {
			return nil, errCensus
		}
		for name := range entryNames(w.names[:n]) {
			if isMounted(mounted, name) {
				continue
			}
			f, err := statAt(fd, &name[0])
			if err != nil {
				return nil, fmt.Errorf("look at %s: %w", filepath.Join(dir, string(name)), err)
			}
			if err := w.file(t, f, dir, name); err != nil {
				return nil, err
			}
			if f.isDir() {
				below = append(below, filepath.Join(dir, string(name)))
			}
		}
	}
}

func isMounted(mounted []string, name []byte) bool {
	for _, m := range mounted {
		if m == string(name) {
			return true
		}
	}
	return false
}

// file visits one file.
func (w *walker) file(t tree, f fileState, dir string, name []byte) error {
	if w.left--; w.left < 0 {
		return errCensus
	}
	e := entry{dir: dir, name: name, isDir: f.isDir()}
	var more []byte
	if t.detailed {
		var err error
		if more, err = details(e.path(), f); err != nil {
			return err
		}
	}
	e.print, w.hash = newFingerprint(w.hash, f, more, dir, name)
	return w.visit(e)
}

// openDirectory opens a directory for reading, and leaves the time of its last
// access alone where it may.
func openDirectory(path string) (int, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Open(path, flags|unix.O_NOATIME, 0)
	if errors.Is(err, unix.EPERM) {
		fd, err = unix.Open(path, flags, 0)
	}
	return fd, err
}

// isClosed reports whether a directory could not be read because this process
// may not enter it. Where that is not root, every tenant is the same user, and
// could not reach what is in there either; to open the directory would change
// its state.
func isClosed(path string, err error) bool {
	return errors.Is(err, unix.EACCES) && !privileged() && errors.Is(unix.Access(path, unix.X_OK), unix.EACCES)
}

// entryNames yields the names in what getdents has written, but "." and "..".
// The byte behind a name is a NUL.
func entryNames(buf []byte) func(yield func([]byte) bool) {
	const header = 19 // inode, offset, length of the entry, type
	return func(yield func([]byte) bool) {
		for len(buf) > header {
			size := int(binary.NativeEndian.Uint16(buf[16:]))
			if size <= header || size > len(buf) {
				return
			}
			name := buf[header:size]
			if end := bytes.IndexByte(name, 0); end >= 0 {
				name = name[:end]
			}
			buf = buf[size:]
			if s := string(name); s == "" || s == "." || s == ".." {
				continue
			}
			if !yield(name) {
				return
			}
		}
	}
}

// census is what the compared files were: their fingerprints, in order.
// Fingerprints, because the paths of a large image with their states would be
// most of what a small container may have.
type census struct {
	seen []fingerprint
	why  error // instead: why they cannot be compared
}

// takeCensus remembers all of the trees. One that cannot be taken makes no
// container unfit for its first tenant, only for a second.
func takeCensus(trees []tree) census {
	var c census
	w := walker{
		left: censusFiles, ends: time.Now().Add(censusTime),
		visit: func(e entry) error { c.seen = append(c.seen, e.print); return nil },
	}
	if err := w.walk(trees); err != nil {
		return census{why: err}
	}
	slices.SortFunc(c.seen, fingerprint.compare)
	c.seen = slices.Clip(c.seen)
	return c
}

// maxChanged is how many changed directories are looked into for what has
// changed in them.
const maxChanged = 100

// compare reports what is not as it was, by name where there is still one. A
// directory changes with what is made in it, so that is named rather than the
// directory.
func (c census) compare(trees []tree) error {
	if c.why != nil {
		return c.why
	}
	count, changed, file, dir := 0, 0, "", ""
	w := walker{left: censusFiles, ends: time.Now().Add(censusTime)}
	w.visit = func(e entry) error {
		count++
		if _, found := slices.BinarySearchFunc(c.seen, e.print, fingerprint.compare); found {
			return nil
		}
		if !e.isDir {
			file = e.path()
			return errSeen
		}
		dir = cmp.Or(dir, e.path())
		if changed++; changed > maxChanged {
			return errSeen
		}
		return nil
	}
	err := w.walk(trees)
	switch {
	case file != "":
		return fmt.Errorf("%w: %s is new or has changed", runtime.ErrNotClean, file)
	case dir != "":
		return fmt.Errorf("%w: %s is new or has changed", runtime.ErrNotClean, dir)
	case err != nil:
		return err
	case count != len(c.seen):
		return fmt.Errorf("%w: a file of the image is missing", runtime.ErrNotClean)
	}
	return nil
}
