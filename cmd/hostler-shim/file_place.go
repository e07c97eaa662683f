package main

import (
	"errors"
	"io/fs"
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
// relative to the handle of an allowed directory: os.Root resolves it one element
// after the other and refuses to leave, whatever is exchanged concurrently.
// Without, the kernel resolves it with the user's rights.
type filePlace struct {
	path    string   // in the container, clean
	host    string   // without allowed: the path for the kernel
	allowed *os.Root // nil without Within
	rel     string   // below allowed; "." is the directory itself
}

// errOutside is the error for a path that leads out of the allowed directories.
var errOutside = fileErrorf(runtime.FileOutside, "it is outside of the allowed directories")

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
	failure := errOutside
	for _, within := range r.Within {
		dir := path.Clean("/" + string(within))
		rel, ok := relativeTo(dir, p.path)
		if !ok {
			continue
		}
		root, err := openAllowedDir(filepath.Join("/", r.Root), dir)
		if err == nil {
			p.allowed, p.rel = root, rel
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
func openAllowedDir(root, dir string) (*os.Root, error) {
	allowed, err := openDir(root, dir)
	switch {
	case errors.Is(err, runtime.ErrBadArchive):
		return nil, fileErrorf(runtime.FileOutside, "the allowed directory is a link, or below one")
	case errors.Is(err, runtime.ErrFileNotFound):
		return nil, unix.ENOENT
	}
	return allowed, err
}

// open opens the file itself. It follows links.
func (p filePlace) open(flags int) (int, error) {
	if p.allowed != nil {
		return openInRoot(p.allowed, p.rel, flags)
	}
	return openPath(p.host, flags)
}

// openRegular opens a regular file for reading, and never waits for anything that
// is not one.
func (p filePlace) openRegular() (int, error) {
	if p.allowed != nil {
		return openInRoot(p.allowed, p.rel, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	}
	at, err := openPath(p.host, unix.O_PATH) // opening a device may have side effects
	if err != nil {
		return -1, err
	}
	defer unix.Close(at)
	var st unix.Stat_t
	if err := unix.Fstat(at, &st); err != nil {
		return -1, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return -1, errNotRegular
	}
	return openPath(fdPath(at), unix.O_RDONLY|unix.O_NONBLOCK)
}

var errNotRegular = fileErrorf(runtime.FileNotRegular, "it is not a regular file")

// parent opens the directory that the file is in, for path lookups, and returns the
// file's name in it. An operation on that name follows no link.
func (p filePlace) parent() (dir int, base string, err error) {
	if p.allowed != nil {
		base = path.Base(p.rel)
		dir, err = openInRoot(p.allowed, path.Dir(p.rel), unix.O_PATH|unix.O_DIRECTORY)
		return dir, base, err
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
func (p filePlace) isTop() bool { return p.path == "/" || p.allowed != nil && p.rel == "." }

// makeDirs creates a directory of the path and those above it.
func (p filePlace) makeDirs(parentOnly bool) error {
	if p.allowed != nil {
		rel := p.rel
		if parentOnly {
			rel = path.Dir(rel)
		}
		return outsideError(p.allowed.MkdirAll(rel, 0o755))
	}
	host := p.host
	if parentOnly {
		host = path.Dir(host)
	}
	return os.MkdirAll(host, 0o755)
}

// openInRoot opens a file below a directory, and returns a handle that is not
// os.Root's.
func openInRoot(root *os.Root, name string, flags int) (int, error) {
	f, err := root.OpenFile(name, flags, 0)
	if err != nil {
		return -1, outsideError(err)
	}
	defer f.Close()
	conn, err := f.SyscallConn()
	if err != nil {
		return -1, err
	}
	fd := -1
	var dupErr error
	err = conn.Control(func(of uintptr) { fd, dupErr = unix.FcntlInt(of, unix.F_DUPFD_CLOEXEC, 0) })
	return fd, errors.Join(err, dupErr)
}

// outsideError converts the error of os.Root for a path that leads outside, which
// is the only one without an errno.
func outsideError(err error) error {
	var errno unix.Errno
	if err == nil || errors.As(err, &errno) || errors.Is(err, fs.ErrClosed) {
		return err
	}
	return errOutside
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
