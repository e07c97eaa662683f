package fake

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/hostler/hostler/runtime"
)

// tree has the files of one container. The container's lock guards it.
//
// Every change outside the mounts is counted, so that a container is clean exactly
// if the count equals that of the baseline: like a ctime, it cannot be set back.
type tree struct {
	root    *node
	mounts  []*mount // the root's first, then by path
	changes int
	changed string // the path of the last change
	inodes  uint64 // that files have
	clock   int64  // of the last change of a file, in nanoseconds since 1970
}

// node is a file, a directory or a symbolic link.
type node struct {
	mode     fs.FileMode // type and permissions
	uid, gid int
	data     []byte // of a file, without its holes; never changed in place
	holes    []hole // in ascending order
	inode    uint64 // of a file that was changed or listed
	changed  int64  // that file's ChangeTime
	target   string // of a link
	program  string // of a file that is a program, until it is written to
	modified time.Time
	children map[string]*node // of a directory
	mount    *mount           // of the directory where one begins
}

// mount is a separate filesystem: the root, a volume, a temporary one.
type mount struct {
	path     string
	mode     fs.FileMode
	user     User
	readOnly bool
	volume   bool
	tmpfs    bool
}

// errEscapes reports that a name leads out of the directory it must stay in.
var errEscapes = errors.New("it leads outside the directory")

const maxLinks = 40

// tmpfsDirs are the directories with a filesystem in memory, as in a container
// with a read-only root.
var tmpfsDirs = []string{"/dev/shm", "/run", "/tmp", "/var/tmp"}

func newDir(mode fs.FileMode, u User) *node {
	return &node{mode: fs.ModeDir | mode, uid: u.UID, gid: u.GID, children: make(map[string]*node), modified: time.Now()}
}

func newTree(spec runtime.Spec, user User) *tree {
	top := &mount{path: "/", readOnly: spec.ReadOnly}
	t := &tree{root: newDir(0o755, User{}), mounts: []*mount{top}}
	t.root.mount = top
	t.addImageFiles()
	if spec.Workdir != "" {
		t.ensureDir(path.Clean(spec.Workdir)) // as an engine does
	}
	for _, p := range tmpfsDirs {
		t.mounts = append(t.mounts, &mount{path: p, mode: 0o777 | fs.ModeSticky, tmpfs: true})
	}
	for _, v := range spec.Volumes {
		t.mounts = append(t.mounts, &mount{
			path: path.Clean(v.Target), mode: 0o755, user: user, readOnly: v.ReadOnly, volume: true,
		})
	}
	slices.SortFunc(t.mounts, func(a, b *mount) int { return strings.Compare(a.path, b.path) })
	t.resetMounts(func(m *mount) bool { return m.volume || m.tmpfs })
	return t
}

// ensureDir creates a directory that belongs to root, and its missing parents.
func (t *tree) ensureDir(name string) *node {
	at := t.root
	for _, part := range strings.Split(name, "/") {
		if part == "" {
			continue
		}
		child := at.children[part]
		if child == nil || !child.mode.IsDir() {
			child = newDir(0o755, User{})
			at.children[part] = child
		}
		at = child
	}
	return at
}

// resetMounts restores the initial state of the mounts that match.
func (t *tree) resetMounts(match func(*mount) bool) {
	for _, m := range t.mounts {
		if !match(m) {
			continue
		}
		parent := t.ensureDir(path.Dir(m.path))
		dir := newDir(m.mode, m.user)
		dir.mount = m
		parent.children[path.Base(m.path)] = dir
	}
}

func (t *tree) resetTmpfs() { t.resetMounts(func(m *mount) bool { return m.tmpfs }) }

func (t *tree) resetVolumesAndTmpfs() {
	t.resetMounts(func(m *mount) bool { return m.tmpfs || m.volume })
}

// location is where a name leads. Its node is nil if only the directory exists.
type location struct {
	parent *node
	name   string
	path   string
	node   *node
	mount  *mount
}

func (t *tree) rootLocation() location {
	return location{node: t.root, path: "/", mount: t.root.mount}
}

// lookup resolves a name from the root.
func (t *tree) lookup(name string, follow bool, user *User) (location, error) {
	w := walk{stack: []location{t.rootLocation()}, user: user}
	p, err := w.resolve(name, follow)
	if err != nil {
		return p, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return p, nil
}

// lookupExisting is lookup for a name that must exist.
func (t *tree) lookupExisting(name string, follow bool, user *User) (location, error) {
	p, err := t.lookup(name, follow, user)
	if err == nil && p.node == nil {
		return p, &fs.PathError{Op: "open", Path: name, Err: syscall.ENOENT}
	}
	return p, err
}

// walk resolves one name, link by link, with the permissions of a user, or of the
// engine if the user is nil.
type walk struct {
	stack     []location // from the start to the current location
	user      *User
	contained bool // the walk must not leave its start
	links     int
}

func (w *walk) resolve(name string, follow bool) (location, error) {
	rest := splitPath(name)
	for len(rest) > 0 {
		at := w.stack[len(w.stack)-1]
		part := rest[0]
		rest = rest[1:]
		if !at.node.mode.IsDir() {
			return location{}, syscall.ENOTDIR
		}
		if !isAllowed(at.node, w.user, mayExec) {
			return location{}, syscall.EACCES
		}
		if part == ".." {
			if err := w.up(); err != nil {
				return location{}, err
			}
			continue
		}
		p := location{parent: at.node, name: part, path: path.Join(at.path, part), node: at.node.children[part], mount: at.mount}
		if p.node == nil {
			if len(rest) > 0 {
				return location{}, syscall.ENOENT
			}
			return p, nil
		}
		if p.node.mode&fs.ModeSymlink != 0 && (follow || len(rest) > 0) {
			if err := w.followLink(p.node.target); err != nil {
				return location{}, err
			}
			rest = append(splitPath(p.node.target), rest...)
			continue
		}
		if p.node.mount != nil {
			p.mount = p.node.mount
		}
		w.stack = append(w.stack, p)
	}
	return w.stack[len(w.stack)-1], nil
}

func (w *walk) up() error {
	if len(w.stack) > 1 {
		w.stack = w.stack[:len(w.stack)-1]
		return nil
	}
	if w.contained {
		return errEscapes
	}
	return nil // the root is its own parent
}

func (w *walk) followLink(target string) error {
	if w.links++; w.links > maxLinks {
		return syscall.ELOOP
	}
	if !path.IsAbs(target) {
		return nil
	}
	if w.contained {
		return errEscapes
	}
	w.stack = w.stack[:1]
	return nil
}

// splitPath returns the elements of a name.
func splitPath(name string) []string {
	return slices.DeleteFunc(strings.Split(name, "/"), func(s string) bool { return s == "" || s == "." })
}
