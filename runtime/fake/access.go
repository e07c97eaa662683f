package fake

import (
	"io/fs"
	"slices"
	"syscall"
)

// The values of a permission bit.
const (
	mayRead  fs.FileMode = 4
	mayWrite fs.FileMode = 2
	mayExec  fs.FileMode = 1 // or run
)

// isAllowed reports whether a user has a permission. Root has no more than others,
// because a command has no capability. The engine is not a user and may do all.
func isAllowed(n *node, u *User, what fs.FileMode) bool {
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

// checkWritable returns an error if a user may not change p's filesystem.
func (t *tree) checkWritable(p location, u *User) error {
	// The engine writes to a read-only volume, but nothing writes to a read-only root.
	if p.mount.readOnly && (u != nil || !p.mount.volume) {
		return syscall.EROFS
	}
	return nil
}

// checkEntry returns an error if a user may not add or remove p's name.
func (t *tree) checkEntry(p location, u *User) error {
	if err := t.checkWritable(p, u); err != nil {
		return err
	}
	if p.parent == nil || p.node != nil && p.node.mount != nil {
		return syscall.EBUSY
	}
	if !isAllowed(p.parent, u, mayWrite|mayExec) {
		return syscall.EACCES
	}
	sticky := p.parent.mode&fs.ModeSticky != 0 && u != nil && u.UID != p.parent.uid
	if p.node != nil && sticky && u.UID != p.node.uid {
		return syscall.EPERM
	}
	return nil
}

// countChange counts a change.
func (t *tree) countChange(p location) {
	if p.mount.volume || p.mount.tmpfs {
		return
	}
	t.changes++
	t.changed = p.path
}
