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

// Limits on the files of a container that are compared, at 16 bytes of memory
// per file. A container with more files is not verified as clean: the scan
// would take longer than to create another container. A read-only root
// filesystem needs no scan.
const (
	maxScanFiles = 200_000
	scanTimeout  = 10 * time.Second
)

// errScanTooLarge ends a scan that exceeds the limits.
var errScanTooLarge = fmt.Errorf("%w: it has more files than can be compared; make the root filesystem read-only", runtime.ErrWipeUnverified)

// errStopScan ends a scan that has found a difference.
var errStopScan = errors.New("scan stopped")

// scanRoot is a part of the container's files that must remain unchanged.
type scanRoot struct {
	root string // a directory, or a single file
	// mounted are the names to skip, by their directory: each is a tree of its
	// own, or is emptied, or is not writable.
	mounted map[string][]string
	// emptied reports whether a wipe removes names that were added directly
	// below root, so that root's own times and size change.
	emptied bool
	// detailed reports whether hashDetails is compared, too.
	detailed bool
}

// newTree returns the tree of everything below root except mounts.
func newTree(root string, mounted []string) scanRoot {
	t := scanRoot{root: root, mounted: make(map[string][]string)}
	for _, path := range mounted {
		if path != root && isUnder(path, root) {
			dir := filepath.Dir(path)
			t.mounted[dir] = append(t.mounted[dir], filepath.Base(path))
		}
	}
	return t
}

// entry is one file that a scan visits.
type entry struct {
	dir         string
	name        []byte // valid until the next entry
	isDir       bool
	fingerprint fingerprint
}

func (e entry) path() string { return filepath.Join(e.dir, string(e.name)) }

// walker visits the files of trees. It keeps one directory open at a time,
// opens only files that it reads, and does not allocate per file.
type walker struct {
	visit     func(entry) error
	deadline  time.Time
	filesLeft int // how many more files it may visit
	dirents   [32 << 10]byte
	hash      []byte
}

// walk visits all files of the trees.
func (w *walker) walk(trees []scanRoot) error {
	for _, t := range trees {
		if err := w.walkTree(t); err != nil {
			return err
		}
	}
	return nil
}

// walkTree visits all files of one tree.
func (w *walker) walkTree(t scanRoot) error {
	f, err := statPath(t.root)
	if err != nil {
		return err
	}
	if t.emptied {
		f = f.withoutContent()
	}
	if err := w.visitFile(t, f, t.root, nil); err != nil || !f.isDir() {
		return err
	}
	for pending := []string{t.root}; len(pending) > 0; {
		dir := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		subdirs, err := w.walkDir(t, dir)
		if err != nil {
			return err
		}
		pending = append(pending, subdirs...)
	}
	return nil
}

// walkDir visits the entries of a directory and returns its subdirectories.
func (w *walker) walkDir(t scanRoot, dir string) ([]string, error) {
	fd, err := openDirNoAtime(dir)
	if err != nil {
		if isInaccessible(dir, err) {
			return nil, nil
		}
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}
	defer unix.Close(fd)
	var subdirs []string
	mounted := t.mounted[dir]
	for {
		n, err := unix.Getdents(fd, w.dirents[:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", dir, err)
		}
		if n <= 0 {
			return subdirs, nil
		}
		if time.Now().After(w.deadline) {
			return nil, errScanTooLarge
		}
		for name := range direntNames(w.dirents[:n]) {
			if isMounted(mounted, name) {
				continue
			}
			f, err := statAt(fd, &name[0])
			if err != nil {
				return nil, fmt.Errorf("stat %s: %w", filepath.Join(dir, string(name)), err)
			}
			if err := w.visitFile(t, f, dir, name); err != nil {
				return nil, err
			}
			if f.isDir() {
				subdirs = append(subdirs, filepath.Join(dir, string(name)))
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

// visitFile visits one file.
func (w *walker) visitFile(t scanRoot, f fileState, dir string, name []byte) error {
	if w.filesLeft--; w.filesLeft < 0 {
		return errScanTooLarge
	}
	e := entry{dir: dir, name: name, isDir: f.isDir()}
	var details []byte
	if t.detailed {
		var err error
		if details, err = hashDetails(e.path(), f); err != nil {
			return err
		}
	}
	e.fingerprint, w.hash = newFingerprint(w.hash, f, details, dir, name)
	return w.visit(e)
}

// openDirNoAtime opens a directory for reading. If permitted, it does not
// update the access time.
func openDirNoAtime(path string) (int, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Open(path, flags|unix.O_NOATIME, 0)
	if errors.Is(err, unix.EPERM) {
		fd, err = unix.Open(path, flags, 0)
	}
	return fd, err
}

// isInaccessible reports whether a directory could not be read because this
// process may not enter it. If this process is not root, every tenant is the
// same user and could not reach its content either. To make it accessible would
// change its state.
// its state.
func isInaccessible(path string, err error) bool {
	return errors.Is(err, unix.EACCES) && !isPrivileged() && errors.Is(unix.Access(path, unix.X_OK), unix.EACCES)
}

// direntNames yields the names in a getdents buffer except "." and "..". A NUL
// byte follows each name.
func direntNames(buf []byte) func(yield func([]byte) bool) {
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

// scan is the state of the compared files: their fingerprints, sorted. It
// stores fingerprints because the paths and states of a large image would take
// most of a small container's memory.
type scan struct {
	fingerprints []fingerprint
	err          error // if set, why the files cannot be compared
}

// scanTrees scans all trees. An error does not make the container unusable for
// its first tenant, only for a second one.
func scanTrees(trees []scanRoot) scan {
	var c scan
	w := walker{
		filesLeft: maxScanFiles, deadline: time.Now().Add(scanTimeout),
		visit: func(e entry) error { c.fingerprints = append(c.fingerprints, e.fingerprint); return nil },
	}
	if err := w.walk(trees); err != nil {
		return scan{err: err}
	}
	slices.SortFunc(c.fingerprints, fingerprint.compare)
	c.fingerprints = slices.Clip(c.fingerprints)
	return c
}

// maxChangedDirs is how many changed directories are examined for what has
// changed in them.
const maxChangedDirs = 100

// compare returns an error that names what has changed, if it still exists. A
// directory changes when something is created in it, so the error names the new
// file rather than the directory.
func (c scan) compare(trees []scanRoot) error {
	if c.err != nil {
		return c.err
	}
	count, changed, file, dir := 0, 0, "", ""
	w := walker{filesLeft: maxScanFiles, deadline: time.Now().Add(scanTimeout)}
	w.visit = func(e entry) error {
		count++
		if _, found := slices.BinarySearchFunc(c.fingerprints, e.fingerprint, fingerprint.compare); found {
			return nil
		}
		if !e.isDir {
			file = e.path()
			return errStopScan
		}
		dir = cmp.Or(dir, e.path())
		if changed++; changed > maxChangedDirs {
			return errStopScan
		}
		return nil
	}
	err := w.walk(trees)
	switch {
	case file != "":
		return fmt.Errorf("%w: %s is new or has changed", runtime.ErrWipeUnverified, file)
	case dir != "":
		return fmt.Errorf("%w: %s is new or has changed", runtime.ErrWipeUnverified, dir)
	case err != nil:
		return err
	case count != len(c.fingerprints):
		return fmt.Errorf("%w: a file of the image is missing", runtime.ErrWipeUnverified)
	}
	return nil
}
