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

// tree is the files of one container. The container's lock guards it.
//
// Every change outside the mounts is counted, so that a container is clean
// exactly when the count is what it was: like a ctime, it cannot be set back.
type tree struct {
	root    *node
	mounts  []*mount // the root's first, then by path
	changes int
	changed string // the path of the last change
}

// node is a file, a folder or a symbolic link.
type node struct {
	mode     fs.FileMode // type and permissions
	uid, gid int
	data     []byte // of a file; never changed in place
	target   string // of a link
	program  string // of a file that is one of ours, until it is written to
	modified time.Time
	kids     map[string]*node // of a folder
	mount    *mount           // of the folder where one begins
}

// mount is a filesystem of its own: the root, a volume, a temporary one.
type mount struct {
	path      string
	mode      fs.FileMode
	user      User
	readOnly  bool
	volume    bool
	temporary bool
}

// errEscapes says that a name leads out of the folder it has to stay in.
var errEscapes = errors.New("it leads outside")

const maxLinks = 40

// temporary are the folders that hold a filesystem in memory, as they are in a
// container with a read-only root.
var temporary = []string{"/dev/shm", "/run", "/tmp", "/var/tmp"}

func newFolder(mode fs.FileMode, u User) *node {
	return &node{mode: fs.ModeDir | mode, uid: u.UID, gid: u.GID, kids: make(map[string]*node), modified: time.Now()}
}

func newTree(spec runtime.Spec, user User) *tree {
	top := &mount{path: "/", readOnly: spec.ReadOnly}
	t := &tree{root: newFolder(0o755, User{}), mounts: []*mount{top}}
	t.root.mount = top
	t.image()
	if spec.Workdir != "" {
		t.folder(path.Clean(spec.Workdir)) // as an engine does
	}
	for _, p := range temporary {
		t.mounts = append(t.mounts, &mount{path: p, mode: 0o777 | fs.ModeSticky, temporary: true})
	}
	for _, v := range spec.Volumes {
		t.mounts = append(t.mounts, &mount{
			path: path.Clean(v.Target), mode: 0o755, user: user, readOnly: v.ReadOnly, volume: true,
		})
	}
	slices.SortFunc(t.mounts, func(a, b *mount) int { return strings.Compare(a.path, b.path) })
	t.empty(func(m *mount) bool { return m.volume || m.temporary })
	return t
}

// folder makes a folder of root's, and those above it.
func (t *tree) folder(name string) *node {
	at := t.root
	for _, part := range strings.Split(name, "/") {
		if part == "" {
			continue
		}
		kid := at.kids[part]
		if kid == nil || !kid.mode.IsDir() {
			kid = newFolder(0o755, User{})
			at.kids[part] = kid
		}
		at = kid
	}
	return at
}

// empty makes the mounts that match what they were in the beginning.
func (t *tree) empty(match func(*mount) bool) {
	for _, m := range t.mounts {
		if !match(m) {
			continue
		}
		above := t.folder(path.Dir(m.path))
		fresh := newFolder(m.mode, m.user)
		fresh.mount = m
		above.kids[path.Base(m.path)] = fresh
	}
}

func (t *tree) emptyTemporary() { t.empty(func(m *mount) bool { return m.temporary }) }

func (t *tree) emptyMounts() { t.empty(func(m *mount) bool { return m.temporary || m.volume }) }

// place is where a name leads. Its node is nil when only the folder exists.
type place struct {
	above *node
	name  string
	path  string
	node  *node
	mount *mount
}

func (t *tree) top() place {
	return place{node: t.root, path: "/", mount: t.root.mount}
}

// find follows a name from the top.
func (t *tree) find(name string, follow bool, user *User) (place, error) {
	w := walk{stack: []place{t.top()}, user: user}
	p, err := w.to(name, follow)
	if err != nil {
		return p, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return p, nil
}

// existing is find for what has to be there.
func (t *tree) existing(name string, follow bool, user *User) (place, error) {
	p, err := t.find(name, follow, user)
	if err == nil && p.node == nil {
		return p, &fs.PathError{Op: "open", Path: name, Err: syscall.ENOENT}
	}
	return p, err
}

// walk follows one name, link by link, with the rights of a user, or of the
// engine if there is none.
type walk struct {
	stack     []place // from where it began to where it is
	user      *User
	contained bool // where it began must not be left
	links     int
}

func (w *walk) to(name string, follow bool) (place, error) {
	rest := parts(name)
	for len(rest) > 0 {
		at := w.stack[len(w.stack)-1]
		part := rest[0]
		rest = rest[1:]
		if !at.node.mode.IsDir() {
			return place{}, syscall.ENOTDIR
		}
		if !allowed(at.node, w.user, mayEnter) {
			return place{}, syscall.EACCES
		}
		if part == ".." {
			if err := w.up(); err != nil {
				return place{}, err
			}
			continue
		}
		p := place{above: at.node, name: part, path: path.Join(at.path, part), node: at.node.kids[part], mount: at.mount}
		if p.node == nil {
			if len(rest) > 0 {
				return place{}, syscall.ENOENT
			}
			return p, nil
		}
		if p.node.mode&fs.ModeSymlink != 0 && (follow || len(rest) > 0) {
			if err := w.link(p.node.target); err != nil {
				return place{}, err
			}
			rest = append(parts(p.node.target), rest...)
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
	return nil // the top is above itself
}

func (w *walk) link(target string) error {
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

// parts are the steps of a name.
func parts(name string) []string {
	return slices.DeleteFunc(strings.Split(name, "/"), func(s string) bool { return s == "" || s == "." })
}
