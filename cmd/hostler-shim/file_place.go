package main

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
	"golang.org/x/sys/unix"
)

// filePlace is where a path of a request leads. With FileRequest.Within it is
// relative to the handle of an allowed directory, which openBeneath does not
// leave. Without, the kernel resolves it with the user's rights.
type filePlace struct {
	path    string // in the container, clean
	host    string // the path for the kernel; empty with allowed
	allowed int    // the handle of a directory
	rel     string // below allowed; "." is the directory itself
}

func newFilePlace(r shim.FileRequest) (filePlace, error) {
	raw := string(r.Path)
	if !strings.HasPrefix(raw, "/") || strings.ContainsRune(raw, 0) || len(raw) > shim.MaxFilePath {
		return filePlace{}, fileErrorf(runtime.FileInvalid, "it is not an absolute path of at most 4096 bytes")
	}
	p := filePlace{path: path.Clean(raw)}
	if len(r.Within) == 0 {
		p.host = filepath.Join("/", r.Root, p.path)
		return p, nil
	}
	failure := fileErrorf(runtime.FileOutside, "it is not in an allowed directory")
	for _, within := range r.Within {
		dir := path.Clean("/" + string(within))
		rel, ok := relativeTo(dir, p.path)
		if !ok {
			continue
		}
		handle, err := openAllowedDir(filepath.Join("/", r.Root), dir)
		if err == nil {
			p.allowed, p.rel = handle, rel
			return p, nil
		}
		failure = err
	}
	return filePlace{}, failure
}

// relativeTo returns a clean path relative to a clean directory that it is in, or
// that it is.
func relativeTo(dir, name string) (string, bool) {
	if name == dir {
		return ".", true
	}
	return strings.CutPrefix(name, strings.TrimSuffix(dir, "/")+"/")
}

// openAllowedDir opens an allowed directory. It follows no link, also not in the
// middle of the path: a tenant may have replaced an element by a link to what is
// not allowed.
func openAllowedDir(root, dir string) (int, error) {
	allowed, err := openDir(root, dir)
	switch {
	case errors.Is(err, runtime.ErrBadArchive):
		return -1, fileErrorf(runtime.FileOutside, "the allowed directory is a link, or below one")
	case errors.Is(err, runtime.ErrFileNotFound):
		return -1, unix.ENOENT
	case err != nil:
		return -1, err
	}
	defer allowed.Close()
	return handleOf(allowed)
}

// handle opens the file itself, for path lookups. It follows links.
func (p filePlace) handle() (int, error) {
	if p.host == "" {
		return openBeneath(p.allowed, p.rel)
	}
	return openPath(p.host, unix.O_PATH)
}

// open opens a file of a type, and never waits for anything of another type.
func (p filePlace) open(kind uint32, flags int, other error) (int, error) {
	at, err := p.handle() // opening a device or a pipe may have side effects
	if err != nil {
		return -1, err
	}
	defer unix.Close(at)
	var st unix.Stat_t
	if err := unix.Fstat(at, &st); err != nil {
		return -1, err
	}
	if st.Mode&unix.S_IFMT != kind {
		return -1, other
	}
	return openPath(fdPath(at), flags|unix.O_NONBLOCK)
}

var errNotRegular = fileErrorf(runtime.FileNotRegular, "it is not a regular file")

// parent opens the directory that the file is in, for path lookups, and returns the
// file's name in it. An operation on that name follows no link.
func (p filePlace) parent() (dir int, base string, err error) {
	if p.host == "" {
		dir, err = openDirBeneath(p.allowed, path.Dir(p.rel))
		return dir, path.Base(p.rel), err
	}
	if p.path == "/" {
		dir, err = openPath(p.host, unix.O_PATH|unix.O_DIRECTORY)
		return dir, ".", err
	}
	dir, err = openPath(path.Dir(p.host), unix.O_PATH|unix.O_DIRECTORY)
	return dir, path.Base(p.path), err
}

// isTop reports whether the path is the top of what may be worked on, which
// cannot be replaced or removed.
func (p filePlace) isTop() bool { return p.path == "/" || p.host == "" && p.rel == "." }

// makeDirs creates a directory of the path and those above it.
func (p filePlace) makeDirs(parentOnly bool) error {
	if p.host == "" {
		rel := p.rel
		if parentOnly {
			rel = path.Dir(rel)
		}
		return makeDirsBeneath(p.allowed, rel)
	}
	host := p.host
	if parentOnly {
		host = path.Dir(host)
	}
	return os.MkdirAll(host, 0o755)
}

func openPath(name string, flags int) (int, error) {
	for {
		fd, err := unix.Open(name, flags|unix.O_CLOEXEC, 0)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// fdPath is the path of a handle.
func fdPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }
