package fake

import (
	"io/fs"
	"slices"
	"syscall"
)

// What a permission bit allows.
const (
	mayRead  fs.FileMode = 4
	mayWrite fs.FileMode = 2
	mayEnter fs.FileMode = 1 // or run
)

// allowed says whether a user has a permission. Root has no more than others:
// a command has no capability. The engine, which is no user, may all.
func allowed(n *node, u *User, what fs.FileMode) bool {
	switch {
	case u == nil || n.mode&fs.ModeSymlink != 0:
		return true
	case u.UID == n.uid:
		return n.mode>>6&what == what
	case u.GID == n.gid || slices.Contains(u.Groups, n.gid):
		return n.mode>>3&what == what
	}
	return n.mode&what == what
}

// writable says why a user may not change what is in p's filesystem.
func (t *tree) writable(p place, u *User) error {
	// The engine writes to a read-only volume, but nobody to a read-only root.
	if p.mount.readOnly && (u != nil || !p.mount.volume) {
		return syscall.EROFS
	}
	return nil
}

// entry says why a user may not add or remove p's name.
func (t *tree) entry(p place, u *User) error {
	if err := t.writable(p, u); err != nil {
		return err
	}
	if p.above == nil || p.node != nil && p.node.mount != nil {
		return syscall.EBUSY
	}
	if !allowed(p.above, u, mayWrite|mayEnter) {
		return syscall.EACCES
	}
	sticky := p.above.mode&fs.ModeSticky != 0 && u != nil && u.UID != p.above.uid
	if p.node != nil && sticky && u.UID != p.node.uid {
		return syscall.EPERM
	}
	return nil
}

// touch counts a change.
func (t *tree) touch(p place) {
	if p.mount.volume || p.mount.temporary {
		return
	}
	t.changes++
	t.changed = p.path
}
