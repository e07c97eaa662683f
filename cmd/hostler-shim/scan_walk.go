package main

import (
	"errors"
	"os"
	"strings"
	"time"

	"github.com/hostler/hostler/runtime/tree"
	"golang.org/x/sys/unix"
)

// maxHeldNames bounds the memory for names of all directories, in bytes. Beyond
// it, the names of those farthest up are read again when they are needed.
const maxHeldNames = 2 * maxListSize

// treeWalker lists what is below a directory, in the order of tree.Compare.
type treeWalker struct {
	dirs   *dirCache
	owner  treeOwner
	stamps *stamper
	levels []walkLevel // the directories above the next entry
	held   int         // the sizes of their lists
	buf    []byte
}

// walkLevel is a directory that is being listed.
type walkLevel struct {
	path   string // "." for the top
	last   string // the last name that was listed
	names  nameList
	isRead bool
}

func newTreeWalker(dir *os.Root, owner treeOwner, stamps *stamper) *treeWalker {
	dirs := newDirCache(dir)
	dirs.followsNoLink = true
	return &treeWalker{
		dirs: dirs, owner: owner, stamps: stamps, levels: []walkLevel{{path: "."}}, buf: make([]byte, 32<<10),
	}
}

// next returns the next entry. At the end it returns false.
func (w *treeWalker) next() (tree.Entry, bool, error) {
	for len(w.levels) > 0 {
		in := &w.levels[len(w.levels)-1]
		name, err := w.nextName(in)
		if err != nil && !isVanished(err) {
			return tree.Entry{}, false, err
		}
		if name == "" {
			w.held -= in.names.size()
			w.levels = w.levels[:len(w.levels)-1]
			continue
		}
		e, err := w.entry(in.path, name)
		switch {
		case isVanished(err) || err == nil && e.Kind == 0:
			continue
		case err != nil:
			return e, false, err
		case e.Kind == tree.Dir:
			w.levels = append(w.levels, walkLevel{path: e.Path})
		}
		return e, true, nil
	}
	return tree.Entry{}, false, nil
}

// nextName returns the next name in a directory, or "" at the end.
func (w *treeWalker) nextName(in *walkLevel) (string, error) {
	if !in.isRead || in.names.next == len(in.names.refs) && in.names.isCut {
		if err := w.load(in); err != nil {
			return "", err
		}
	}
	if in.names.next == len(in.names.refs) {
		return "", nil
	}
	in.last = string(in.names.name(in.names.refs[in.names.next]))
	in.names.next++
	return in.last, nil
}

// load reads the next names of a directory.
func (w *treeWalker) load(in *walkLevel) error {
	dir, err := w.dirs.get(in.path)
	if err != nil {
		return err
	}
	fd, err := openAt(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	w.held -= in.names.size()
	err = in.names.load(fd, in.last, maxListSize, w.buf)
	in.isRead = true
	w.held += in.names.size()
	for i := 0; w.held > maxHeldNames && i < len(w.levels)-1; i++ {
		above := &w.levels[i]
		w.held -= above.names.size()
		above.names, above.isRead = nameList{}, false
	}
	return err
}

// entry returns a name as an entry. It has no kind if it is none.
func (w *treeWalker) entry(in, name string) (e tree.Entry, err error) {
	// Get the handle each time: a later one may have closed it.
	dir, err := w.dirs.get(in)
	if err != nil {
		return e, err
	}
	now := time.Now()
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return e, err
	}
	p := name
	if in != "." {
		p = in + "/" + name
	}
	e = w.owner.entry(p, &st)
	if e.Kind != 0 && len(p) > tree.MaxPath {
		return e, badArchive("a path is longer than %d bytes: %q...", tree.MaxPath, strings.ToValidUTF8(p[:64], "?"))
	}
	switch e.Kind {
	case tree.File:
		e.Stamp = w.stamps.listed(dir, name, &st, now)
	case tree.Link:
		n, err := unix.Readlinkat(dir, name, w.buf[:tree.MaxTarget])
		if errors.Is(err, unix.EINVAL) {
			return tree.Entry{}, nil // it was replaced by what is no link
		}
		if err != nil {
			return e, err
		}
		if e.Target = string(w.buf[:n]); n == 0 {
			e.Kind = 0
		}
	}
	return e, nil
}

// treeOwner is the user of a container, which entries do not name.
type treeOwner struct {
	identity
	isKnown bool // the container's files name the user
}

// kindsOf are the kinds of files that are listed.
var kindsOf = map[uint32]tree.Kind{unix.S_IFREG: tree.File, unix.S_IFDIR: tree.Dir, unix.S_IFLNK: tree.Link}

// entry returns the entry of a file, without target and stamp.
func (o treeOwner) entry(path string, st *unix.Stat_t) tree.Entry {
	e := tree.Entry{
		Path: path, Kind: kindsOf[st.Mode&unix.S_IFMT], Mode: st.Mode & permissionBits,
		Owner: int64(st.Uid), Group: int64(st.Gid), ModTime: tree.ClampTime(st.Mtim.Unix()),
	}
	if o.isKnown && int(st.Uid) == o.uid {
		e.Owner = tree.OwnUser
	}
	if o.isKnown && int(st.Gid) == o.gid {
		e.Group = tree.OwnGroup
	}
	switch e.Kind {
	case tree.File:
		e.Size = st.Size
	case tree.Link:
		e.Mode = 0
	}
	return e
}
