package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"time"

	"github.com/hostler/hostler/runtime/tree"
	"golang.org/x/sys/unix"
)

func runWrite(args []string) int {
	return runTransfer("write", args, func(f transferFlags) error {
		owner, err := containerAccounts.lookup(f.user)
		if err != nil {
			return err
		}
		dir, err := openDir(f.root, f.dir)
		if err != nil {
			return err
		}
		return newTreeWriter(dir, owner).run(os.Stdin, os.Stdout)
	})
}

// treeWriter writes a tree that it receives below a directory, see tree.Receiver.
// As unpacker does, it creates each entry by a single name in an open directory, and
// changes it through a handle.
type treeWriter struct {
	dirs     *dirCache
	owner    identity
	mayChown bool // whether this process may change the owner of files
	in       *tree.Receiver
	stamps   *stamper
	open     []writtenDir // those above the last entry
}

// writtenDir is a directory whose mode and times are set when its content is
// complete.
type writtenDir struct {
	entry         tree.Entry
	device, inode uint64
}

func newTreeWriter(dir *os.Root, owner identity) *treeWriter {
	dirs := newDirCache(dir)
	dirs.followsNoLink = true
	return &treeWriter{dirs: dirs, owner: owner, mayChown: isPrivileged(), stamps: newStamper(false)}
}

// run writes the tree.
func (w *treeWriter) run(from io.Reader, to io.Writer) error {
	defer w.dirs.closeAll()
	w.in = tree.NewReceiver(from, to)
	if err := w.in.Ready(); err != nil {
		return err
	}
	for {
		m, err := w.in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = w.apply(m)
		}
		if err != nil {
			return asBadTree(m.Path, err)
		}
	}
	if err := w.leave(""); err != nil {
		return err
	}
	return w.in.End()
}

// asBadTree is asBadArchive for a tree. A directory that disappears while it is
// written is the tenant's doing, as an entry is that appears again and again.
func asBadTree(name string, err error) error {
	if errors.Is(err, tree.ErrMalformed) || isVanished(err) || errors.Is(err, unix.EFBIG) || errors.Is(err, unix.EEXIST) {
		return badArchive("%.200q: %s", name, err)
	}
	return asBadArchive(name, err)
}

// entryWriters write entries in a directory under the last element of their path.
var entryWriters = map[tree.Kind]func(w *treeWriter, dir int, e *tree.Entry) error{
	tree.Dir:  (*treeWriter).writeDir,
	tree.File: (*treeWriter).writeFile,
	tree.Link: (*treeWriter).writeLink,
}

// apply writes or removes an entry.
func (w *treeWriter) apply(m tree.Message) error {
	if err := w.leave(m.Path); err != nil {
		return err
	}
	err := w.change(&m)
	if errors.Is(err, unix.EACCES) && w.allowChanges(path.Dir(m.Path)) {
		err = w.change(&m)
	}
	return err
}

// change writes or removes an entry in a directory that permits it.
func (w *treeWriter) change(m *tree.Message) error {
	if m.IsRemoved {
		return w.remove(m.Path)
	}
	dir, err := w.parentDir(m.Path)
	if err != nil {
		return err
	}
	return entryWriters[m.Kind](w, dir, &m.Entry)
}

// allowChanges lets the owner of a directory change it, until leave restores its
// mode and its times. It returns false if the owner may do that already: then an
// entry may have been begun.
func (w *treeWriter) allowChanges(name string) bool {
	fd, err := w.dirs.get(name)
	if err != nil {
		return false
	}
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode&0o300 == 0o300 || unix.Chmod(handlePath(fd), st.Mode&0o7777|0o700) != nil {
		return false
	}
	e := tree.Entry{Path: name, Kind: tree.Dir, Mode: st.Mode, ModTime: time.Unix(st.Mtim.Unix())}
	w.open = append(w.open, writtenDir{entry: e, device: st.Dev, inode: st.Ino})
	return true
}

// leave finishes the directories that the next entry is not below. The order of the
// entries never returns to them.
func (w *treeWriter) leave(next string) error {
	for len(w.open) > 0 {
		last := &w.open[len(w.open)-1]
		if dir := last.entry.Path; len(next) > len(dir) && next[len(dir)] == '/' && next[:len(dir)] == dir {
			return nil
		}
		if err := w.setDirAttributes(last); err != nil {
			return fmt.Errorf("set the attributes of %.200q: %w", last.entry.Path, err)
		}
		w.open = w.open[:len(w.open)-1]
	}
	return nil
}

// setDirAttributes sets the mode and the times of a directory, unless another one has
// its name now.
func (w *treeWriter) setDirAttributes(d *writtenDir) error {
	fd, err := w.dirs.get(d.entry.Path)
	if isVanished(err) {
		return nil
	}
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Dev != d.device || st.Ino != d.inode {
		return nil
	}
	times, err := entryTimes(&d.entry)
	if err != nil {
		return err
	}
	name := handlePath(fd)
	if err := unix.Chmod(name, d.entry.Mode&permissionBits); err != nil {
		return err
	}
	return unix.UtimesNanoAt(unix.AT_FDCWD, name, times[:], 0)
}

// handlePath is a path to what a handle is of. It also works if the owner has no
// permissions on that.
func handlePath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// entryTimes returns the access time and the modification time.
func entryTimes(e *tree.Entry) (times [2]unix.Timespec, err error) {
	t, err := unix.TimeToTimespec(e.ModTime)
	return [2]unix.Timespec{t, t}, err
}

// parentDir returns the directory that contains an entry. It creates it where it is
// missing, in place of what is no directory.
func (w *treeWriter) parentDir(name string) (int, error) {
	dir := path.Dir(name)
	fd, err := w.dirs.get(dir)
	if err == nil || dir == "." || !isVanished(err) {
		return fd, err
	}
	above, err := w.parentDir(dir)
	if err != nil {
		return -1, err
	}
	e := tree.Entry{Path: dir, Kind: tree.Dir, Owner: tree.OwnUser, Group: tree.OwnGroup}
	return w.makeDir(above, &e, 0o755)
}

// makeDir creates a directory unless it exists, sets its owner, and keeps it open.
func (w *treeWriter) makeDir(above int, e *tree.Entry, mode uint32) (int, error) {
	base := path.Base(e.Path)
	err := w.replace(above, base, tree.Dir, func() error { return unix.Mkdirat(above, base, mode) })
	if err != nil {
		return -1, err
	}
	fd, err := openAt(above, base, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return -1, err
	}
	if err := w.chown(fd, e); err != nil {
		unix.Close(fd)
		return -1, err
	}
	w.dirs.put(e.Path, fd)
	return fd, nil
}

// chown sets the owner of what a handle is of.
func (w *treeWriter) chown(fd int, e *tree.Entry) error {
	if !w.mayChown {
		return nil
	}
	uid, gid := w.owner.uid, w.owner.gid
	if id := int(e.Owner); !isShimID(id) {
		uid = id
	}
	if id := int(e.Group); !isShimID(id) {
		gid = id
	}
	return unix.Fchownat(fd, "", uid, gid, unix.AT_EMPTY_PATH)
}

func (w *treeWriter) writeDir(dir int, e *tree.Entry) error {
	fd, err := w.makeDir(dir, e, 0o700)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&0o700 != 0o700 && !w.mayChown {
		// It exists, and its owner may not create files in it.
		if err := unix.Chmod(handlePath(fd), 0o700); err != nil {
			return err
		}
	}
	w.open = append(w.open, writtenDir{entry: *e, device: st.Dev, inode: st.Ino})
	return nil
}

func (w *treeWriter) writeFile(dir int, e *tree.Entry) error {
	base, fd := path.Base(e.Path), -1
	err := w.replace(dir, base, tree.File, func() (err error) {
		// Without permissions no process of the container opens it before it is
		// complete, and so no change of one gets the time of the entry.
		fd, err = openAt(dir, base, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0)
		return err
	})
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := writeContent(fd, w.in.Content(), e.Size); err != nil {
		return err
	}
	times, err := entryTimes(e)
	if err != nil {
		return err
	}
	if err := setFileTimes(fd, &times); err != nil {
		return err
	}
	if err := w.chown(fd, e); err != nil {
		return err
	}
	if err := unix.Fchmod(fd, e.Mode&permissionBits); err != nil {
		return err
	}
	return w.in.Stamp(w.stamps.written(fd))
}

// writeContent writes the content of an empty file.
func writeContent(fd int, content tree.Content, size int64) error {
	at, isHole := int64(0), false
	for {
		data, hole, err := content.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		at += hole
		isHole = hole > 0
		for len(data) > 0 {
			n, err := unix.Pwrite(fd, data, at)
			if err != nil && !errors.Is(err, unix.EINTR) {
				return err
			}
			n = max(n, 0)
			data, at = data[n:], at+int64(n)
		}
	}
	if !isHole {
		return nil
	}
	return unix.Ftruncate(fd, size)
}

// writeLink creates a link with any target: nothing here follows it.
func (w *treeWriter) writeLink(dir int, e *tree.Entry) error {
	base := path.Base(e.Path)
	err := w.replace(dir, base, tree.Link, func() error { return unix.Symlinkat(e.Target, dir, base) })
	if err != nil {
		return err
	}
	fd, err := openAt(dir, base, unix.O_PATH, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	// It may have been replaced by now by a hard link to a file of another user.
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFLNK {
		return errors.Join(err, unix.EEXIST)
	}
	if err := w.chown(fd, e); err != nil {
		return err
	}
	times, err := entryTimes(e)
	if err != nil {
		return err
	}
	// Not every kernel can set them by a handle. A link's time has no use but to be
	// the same as before.
	_ = unix.UtimesNanoAt(fd, "", times[:], unix.AT_EMPTY_PATH)
	return nil
}
