package main

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"strings"
	"unsafe"

	"github.com/hostler/hostler/runtime"
	"golang.org/x/sys/unix"
)

func runUntar(args []string) int {
	return moveFiles("untar", args, func(f moverFlags) error {
		owner, err := containerAccounts.lookup(f.user)
		if err != nil {
			return err
		}
		dir, err := openDir(f.root, f.dir)
		if err != nil {
			return err
		}
		return newUnpacker(dir, owner).unpack(os.Stdin)
	})
}

// permissionBits are those that an archive may set. Not among them are
// setuid and setgid: an archive is a tenant's.
const permissionBits = 0o1777

// copyBuffer is how much of an archive is read and written at once.
const copyBuffer = 64 << 10

// unpacker makes files below a folder. All is made by one name in a folder that
// is held open, and given away by handle: it does not matter what somebody puts
// in the way meanwhile.
type unpacker struct {
	handles *handles
	owner   identity
	give    bool // whether we may give files to the owner
	buffer  []byte

	relinked bool         // a link was replaced that a handle may have come by
	folders  []madeFolder // whose mode and time are set when all is in them
	held     int          // bytes of their names
}

// madeFolder is what is set of a folder when all is in it.
type madeFolder struct {
	name  string
	mode  uint32
	times [2]unix.Timespec
}

func newUnpacker(dir *os.Root, owner identity) *unpacker {
	return &unpacker{
		handles: newHandles(dir), owner: owner, give: privileged(),
		buffer: make([]byte, copyBuffer),
	}
}

func (u *unpacker) unpack(from io.Reader) error {
	defer u.handles.close()
	in := bufio.NewReaderSize(from, copyBuffer)
	r := tar.NewReader(in)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return badArchive("%s", err)
		}
		if err := u.entry(h, r); err != nil {
			return err
		}
	}
	for i := len(u.folders) - 1; i >= 0; i-- {
		if err := u.settle(u.folders[i]); err != nil {
			return fmt.Errorf("finish %s: %w", u.folders[i].name, err)
		}
	}
	// What comes after the archive is padding. Init's pipe breaks when nobody
	// reads it.
	_, err := io.Copy(io.Discard, in)
	return err
}

func badArchive(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{runtime.ErrBadArchive}, args...)...)
}

// makers are the kinds of entries that there may be. Each makes one in a folder
// under the last part of its name.
var makers = map[byte]func(u *unpacker, dir int, h *tar.Header, r io.Reader) error{
	tar.TypeDir:     (*unpacker).makeFolder,
	tar.TypeReg:     (*unpacker).makeFile,
	tar.TypeSymlink: (*unpacker).makeLink,
}

func (u *unpacker) entry(h *tar.Header, r io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	maker, ok := makers[h.Typeflag]
	if !ok {
		return badArchive("%q is neither file, folder nor symbolic link", h.Name)
	}
	name, err := localName(h.Name)
	if err != nil {
		return err
	}
	if name == "." {
		return nil // the folder itself is not the archive's
	}
	h.Name = name
	dir, err := u.parent(name)
	if err == nil {
		err = maker(u, dir, h, r)
	}
	if u.relinked {
		u.handles.close()
		u.relinked = false
	}
	return asBadArchive(name, err)
}

// localName refuses names that point outside.
func localName(name string) (string, error) {
	if len(name) > maxPath {
		return "", badArchive("a name is longer than %d bytes: %q...", maxPath, name[:64])
	}
	clean := path.Clean(name)
	if name == "" || strings.ContainsRune(name, 0) || path.IsAbs(name) ||
		clean == ".." || strings.HasPrefix(clean, "../") {
		return "", badArchive("the name %q points outside", name)
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", badArchive("the name %q points upwards", name)
		}
	}
	return clean, nil
}

// asBadArchive tells faults of the archive from those of the disk. A path that
// leads outside through a link has an error of os.Root without a number.
func asBadArchive(name string, err error) error {
	if err == nil || errors.Is(err, runtime.ErrBadArchive) {
		return err
	}
	var number unix.Errno
	if !errors.As(err, &number) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EISDIR) ||
		errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENAMETOOLONG) ||
		errors.Is(err, io.ErrUnexpectedEOF) {
		return badArchive("%q: %s", name, err)
	}
	return fmt.Errorf("unpack %q: %w", name, err)
}

// parent is the folder that an entry is in. It makes folders that the archive
// does not name.
func (u *unpacker) parent(name string) (int, error) {
	dir := path.Dir(name)
	fd, err := u.handles.folder(dir)
	if dir == "." || !errors.Is(err, unix.ENOENT) {
		return fd, err
	}
	above, err := u.parent(dir)
	if err != nil {
		return -1, err
	}
	if err := unix.Mkdirat(above, path.Base(dir), 0o755); err != nil {
		return -1, err
	}
	return u.ownFolder(above, dir)
}

// ownFolder gives a folder to the owner, and holds it open: files in it follow.
func (u *unpacker) ownFolder(above int, name string) (int, error) {
	fd, err := openAt(above, path.Base(name), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return -1, err
	}
	if err := u.own(fd); err != nil {
		unix.Close(fd)
		return -1, err
	}
	u.handles.keep(name, fd)
	return fd, nil
}

func (u *unpacker) own(fd int) error {
	if !u.give {
		return nil
	}
	return unix.Fchownat(fd, "", u.owner.uid, u.owner.gid, unix.AT_EMPTY_PATH)
}

// place creates something under a name, in place of what is there. A file is
// removed, never written to: it may have another name elsewhere.
func (u *unpacker) place(dir int, base string, create func() error) error {
	err := create()
	if !errors.Is(err, unix.EEXIST) {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	kind := st.Mode & unix.S_IFMT
	if kind == unix.S_IFDIR {
		return unix.EISDIR
	}
	if err := unix.Unlinkat(dir, base, 0); err != nil {
		return err
	}
	u.relinked = kind == unix.S_IFLNK
	return create()
}

func (u *unpacker) makeFolder(dir int, h *tar.Header, _ io.Reader) error {
	base := path.Base(h.Name)
	err := u.place(dir, base, func() error { return unix.Mkdirat(dir, base, 0o700) })
	if err != nil && !errors.Is(err, unix.EISDIR) { // a folder may be there
		return err
	}
	times, err := timesOf(h)
	if err != nil {
		return err
	}
	if u.held += len(h.Name) + folderCost; u.held > maxNames {
		return badArchive("it has more folders than can be unpacked")
	}
	u.folders = append(u.folders, madeFolder{name: h.Name, mode: uint32(h.Mode & permissionBits), times: times})
	_, err = u.ownFolder(dir, h.Name)
	return err
}

// folderCost is what a folder costs besides its name.
const folderCost = 64

// settle is the last thing done to a folder: files made in it change its time,
// and its mode may forbid to make them.
func (u *unpacker) settle(f madeFolder) error {
	above, err := u.handles.folder(path.Dir(f.name))
	if err != nil {
		return nil // a later entry of the same name was something else
	}
	fd, err := openAt(above, path.Base(f.name), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	// This way also one that its owner has closed to himself.
	name := "/proc/self/fd/" + strconv.Itoa(fd)
	if err := unix.Chmod(name, f.mode); err != nil {
		return err
	}
	return unix.UtimesNanoAt(unix.AT_FDCWD, name, f.times[:], 0)
}

// timesOf are the times of access and of change.
func timesOf(h *tar.Header) (times [2]unix.Timespec, err error) {
	access := h.AccessTime
	if access.IsZero() {
		access = h.ModTime
	}
	if times[0], err = unix.TimeToTimespec(access); err != nil {
		return times, err
	}
	times[1], err = unix.TimeToTimespec(h.ModTime)
	return times, err
}

func (u *unpacker) makeFile(dir int, h *tar.Header, r io.Reader) error {
	base := path.Base(h.Name)
	fd := -1
	err := u.place(dir, base, func() (err error) {
		fd, err = openAt(dir, base, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
		return err
	})
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), h.Name)
	// Without the buffer a file would have one made for it.
	_, err = io.CopyBuffer(struct{ io.Writer }{f}, r, u.buffer)
	if err == nil {
		err = u.own(fd)
	}
	if err == nil {
		err = unix.Fchmod(fd, uint32(h.Mode&permissionBits))
	}
	if err == nil {
		err = setTimes(fd, h)
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

// setTimes is futimens, which the library has by name only.
func setTimes(fd int, h *tar.Header) error {
	times, err := timesOf(h)
	if err != nil {
		return err
	}
	_, _, number := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(fd), 0, uintptr(unsafe.Pointer(&times)), 0, 0, 0)
	if number != 0 {
		return number
	}
	return nil
}

// makeLink makes a link as it is, to wherever: nothing here follows it out of
// the folder, and the tenant may make such links as well.
func (u *unpacker) makeLink(dir int, h *tar.Header, _ io.Reader) error {
	base := path.Base(h.Name)
	err := u.place(dir, base, func() error { return unix.Symlinkat(h.Linkname, dir, base) })
	if err != nil {
		return err
	}
	fd, err := openAt(dir, base, unix.O_PATH, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	// By now it may be another name of a file that is not the tenant's.
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFLNK {
		return errors.Join(err, unix.EEXIST)
	}
	return u.own(fd)
}
