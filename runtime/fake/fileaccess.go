package fake

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/hostler/hostler/runtime"
)

// errOutside reports that a name leads out of the directories of a FileRef.
var errOutside = errors.New("it is outside of the directories that are allowed")

// fileAccess is one access to files as the container's user. The container's lock
// is held.
type fileAccess struct {
	ref  runtime.FileRef
	c    *container
	user *User
}

// find resolves a name. What it leads to, or the directory where it ends, is
// within the directories that are allowed.
func (f *fileAccess) find(name string, follow bool) (location, error) {
	w := walk{stack: []location{f.c.files.rootLocation()}, user: f.user}
	p, err := w.resolve(name, follow)
	at := p.path
	if err != nil {
		at = w.stack[len(w.stack)-1].path
	}
	if !f.isWithin(at) {
		return location{}, errOutside
	}
	return p, err
}

// isWithin reports whether a path without links is allowed.
func (f *fileAccess) isWithin(name string) bool {
	return len(f.ref.Within) == 0 || slices.ContainsFunc(f.ref.Within, func(dir string) bool {
		p, err := f.c.files.lookupExisting(dir, true, nil)
		return err == nil && (p.path == "/" || p.path == name || strings.HasPrefix(name, p.path+"/"))
	})
}

// findExisting is find for a name that must exist.
func (f *fileAccess) findExisting(name string, follow bool) (location, error) {
	p, err := f.find(name, follow)
	if err == nil && p.node == nil {
		err = syscall.ENOENT
	}
	return p, err
}

// checkReadable returns an error if the user may not read a file, or something
// below a directory.
func (f *fileAccess) checkReadable(n *node) error {
	what := mayRead
	if n.mode.IsDir() {
		what |= mayExec
	}
	if !isAllowed(n, f.user, what) {
		return syscall.EACCES
	}
	for _, child := range n.children {
		if err := f.checkReadable(child); err != nil {
			return err
		}
	}
	return nil
}

// splitLast separates the last element of a name. It cleans nothing: that would
// change where a name with links leads.
func splitLast(name string) (dir, last string) {
	name = strings.TrimRight(name, "/")
	i := strings.LastIndexByte(name, '/')
	return name[:i+1], name[i+1:]
}

// ensureDir returns a directory, which it creates with its missing parents.
func (f *fileAccess) ensureDir(name string) (location, error) {
	p, err := f.find(name, true)
	if errors.Is(err, syscall.ENOENT) {
		dir, _ := splitLast(name)
		if _, err := f.ensureDir(dir); err != nil {
			return location{}, err
		}
		p, err = f.find(name, true)
	}
	switch {
	case err != nil:
		return location{}, err
	case p.node == nil:
		// For a link that leads nowhere this is an error.
		if err := f.c.files.mkdir(name, 0o755, f.user); err != nil {
			return location{}, err
		}
		return f.findExisting(name, true)
	case !p.node.mode.IsDir():
		return location{}, syscall.ENOTDIR
	}
	return p, nil
}

// checkTarget returns an error if the file certainly cannot be replaced.
func (f *fileAccess) checkTarget() error {
	p, err := f.find(f.ref.Path, false)
	switch {
	case errors.Is(err, syscall.ENOENT):
		return nil
	case err != nil:
		return err
	case p.node != nil && p.node.mode.IsDir() || strings.HasSuffix(f.ref.Path, "/"):
		return syscall.EISDIR
	}
	return nil
}

// replace puts a file in the place of what has the name.
func (f *fileAccess) replace(n *node) error {
	dir, last := splitLast(f.ref.Path)
	if last == "" || last == "." || last == ".." || strings.HasSuffix(f.ref.Path, "/") {
		return syscall.EISDIR
	}
	parent, err := f.ensureDir(dir)
	if err != nil {
		return err
	}
	name := path.Join(parent.path, last)
	if !f.isWithin(name) {
		return errOutside
	}
	p := location{parent: parent.node, name: last, path: name, node: parent.node.children[last], mount: parent.mount}
	if err := f.c.files.addNode(p, n, f.user); err != nil {
		return &fs.PathError{Op: "write", Path: name, Err: err}
	}
	return nil
}
