package main

import (
	"errors"
	"path"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/tree"
	"golang.org/x/sys/unix"
)

const (
	// maxReplaces bounds how often an entry is replaced that another process creates
	// again.
	maxReplaces = 100
	// removeTimeout bounds how long one entry is removed, whose content another
	// process may create again. The server waits a minute for what makes no progress.
	removeTimeout = 45 * time.Second
)

// replace creates an entry and replaces what has its name, only a directory by none.
// An existing file is removed and never written to, because it may have another name
// elsewhere.
func (w *treeWriter) replace(dir int, base string, kind tree.Kind, create func() error) error {
	for range maxReplaces {
		err := create()
		if !errors.Is(err, unix.EEXIST) {
			return err
		}
		var st unix.Stat_t
		err = unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return err
		}
		if st.Mode&unix.S_IFMT == unix.S_IFDIR && kind == tree.Dir {
			return nil
		}
		if err := w.removeEntry(dir, base); err != nil {
			return err
		}
	}
	return unix.EEXIST
}

// remove removes a path and everything below. What is no directory has nothing below.
func (w *treeWriter) remove(name string) error {
	dir, err := w.dirs.get(path.Dir(name))
	if isVanished(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return w.removeEntry(dir, path.Base(name))
}

// removeEntry removes a name in a directory and everything below.
func (w *treeWriter) removeEntry(dir int, base string) error {
	err := withDirAccess(dir, func() error { return unix.Unlinkat(dir, base, 0) })
	if !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM) {
		return removeError(base, err)
	}
	for deadline := time.Now().Add(removeTimeout); ; {
		err := withDirAccess(dir, func() error { return unix.Unlinkat(dir, base, unix.AT_REMOVEDIR) })
		if errors.Is(err, unix.ENOTDIR) { // it is no directory any more
			err = unix.Unlinkat(dir, base, 0)
		}
		if !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EEXIST) {
			return removeError(base, err)
		}
		err = emptyDir(dir, base, deadline)
		if errors.Is(err, runtime.ErrWipeUnverified) {
			return badArchive("%q could not be removed within %s", base, removeTimeout)
		}
		if err != nil && !isVanished(err) {
			return err
		}
	}
}

// emptyDir removes what is below a directory.
func emptyDir(dir int, base string, deadline time.Time) error {
	fd, err := openForWipe(dir, base)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	e := dirWiper{top: fd, deadline: deadline}
	return e.wipe(nil, nil)
}
