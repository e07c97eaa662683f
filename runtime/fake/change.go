package fake

import (
	"io/fs"
	"path"
	"syscall"
	"time"
)

// addNode adds or replaces a node.
func (t *tree) addNode(p location, n *node, u *User) error {
	if err := t.checkEntry(p, u); err != nil {
		return err
	}
	if p.node != nil && p.node.mode.IsDir() {
		return syscall.EISDIR
	}
	if u != nil {
		n.uid, n.gid = u.UID, u.GID
	}
	if n.modified.IsZero() {
		n.modified = time.Now()
	}
	p.parent.children[p.name] = n
	t.touch(n)
	t.countChange(p)
	return nil
}

// read returns a file's content. It must not be changed.
func (t *tree) read(name string, u *User) ([]byte, error) {
	p, err := t.lookupExisting(name, true, u)
	switch {
	case err != nil:
		return nil, err
	case p.node.mode.IsDir():
		return nil, &fs.PathError{Op: "read", Path: name, Err: syscall.EISDIR}
	case !isAllowed(p.node, u, mayRead):
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EACCES}
	}
	return p.node.content(), nil
}

// write creates a file or writes to one, replacing its content or appending.
func (t *tree) write(name string, data []byte, atEnd bool, u *User) error {
	p, err := t.lookup(name, true, u)
	if err != nil {
		return err
	}
	if p.node == nil {
		err = t.addNode(p, &node{mode: 0o644, data: data}, u)
	} else if err = t.checkOverwritable(p, u); err == nil {
		if atEnd {
			old := p.node.content()
			data = append(old[:len(old):len(old)], data...)
		}
		p.node.data, p.node.holes, p.node.program, p.node.modified = data, nil, "", time.Now()
		t.touch(p.node)
		t.countChange(p)
	}
	if err != nil {
		return &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return nil
}

func (t *tree) checkOverwritable(p location, u *User) error {
	if p.node.mode.IsDir() {
		return syscall.EISDIR
	}
	if err := t.checkWritable(p, u); err != nil {
		return err
	}
	if !isAllowed(p.node, u, mayWrite) {
		return syscall.EACCES
	}
	return nil
}

// mkdir creates a directory.
func (t *tree) mkdir(name string, mode fs.FileMode, u *User) error {
	p, err := t.lookup(name, false, u)
	if err != nil {
		return err
	}
	err = syscall.EEXIST
	if p.node == nil {
		err = t.addNode(p, newDir(mode, User{}), u)
	}
	if err != nil {
		return &fs.PathError{Op: "mkdir", Path: name, Err: err}
	}
	return nil
}

// mkdirAll creates a directory and its missing parents.
func (t *tree) mkdirAll(name string, mode fs.FileMode, u *User) error {
	p, err := t.lookup(name, true, u)
	if err == nil && p.node != nil {
		if !p.node.mode.IsDir() {
			return &fs.PathError{Op: "mkdir", Path: name, Err: syscall.ENOTDIR}
		}
		return nil
	}
	if err := t.mkdirAll(path.Dir(name), mode, u); err != nil {
		return err
	}
	return t.mkdir(name, mode, u)
}

// remove removes a file, or a directory with all that is below it.
func (t *tree) remove(name string, u *User) error {
	p, err := t.lookupExisting(name, false, u)
	if err != nil {
		return err
	}
	err = t.checkEntry(p, u)
	if err == nil {
		err = t.checkRemovable(p.node, u)
	}
	if err != nil {
		return &fs.PathError{Op: "remove", Path: name, Err: err}
	}
	delete(p.parent.children, p.name)
	t.countChange(p)
	return nil
}

// checkRemovable returns an error if what is below a directory cannot be removed.
// A real engine finds out half-way; here nothing is removed then.
func (t *tree) checkRemovable(n *node, u *User) error {
	if len(n.children) > 0 && !isAllowed(n, u, mayWrite|mayExec) {
		return syscall.EACCES
	}
	for _, child := range n.children {
		if child.mount != nil {
			return syscall.EBUSY
		}
		if err := t.checkRemovable(child, u); err != nil {
			return err
		}
	}
	return nil
}

// chmod changes the permissions of what a name refers to.
func (t *tree) chmod(name string, mode fs.FileMode, u *User) error {
	p, err := t.lookupExisting(name, true, u)
	if err != nil {
		return err
	}
	err = t.checkWritable(p, u)
	if err == nil && u != nil && u.UID != p.node.uid {
		err = syscall.EPERM
	}
	if err != nil {
		return &fs.PathError{Op: "chmod", Path: name, Err: err}
	}
	p.node.mode = p.node.mode&^fs.ModePerm | mode.Perm()
	t.touch(p.node)
	t.countChange(p)
	return nil
}

// symlink creates a symbolic link.
func (t *tree) symlink(target, name string, u *User) error {
	p, err := t.lookup(name, false, u)
	if err != nil {
		return err
	}
	err = syscall.EEXIST
	if p.node == nil {
		err = t.addNode(p, &node{mode: fs.ModeSymlink | 0o777, target: target}, u)
	}
	if err != nil {
		return &fs.PathError{Op: "symlink", Path: name, Err: err}
	}
	return nil
}
