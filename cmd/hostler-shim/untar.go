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
	return runTransfer("untar", args, func(f transferFlags) error {
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

// permissionBits are the mode bits that an archive may set. They exclude setuid
// and setgid, because a tenant controls the archive.
const permissionBits = 0o1777

// copyBufferSize is how much of an archive is read and written at a time.
const copyBufferSize = 64 << 10

// unpacker creates files below a directory. It creates each entry by a single
// name in an open directory and changes its owner through a handle. So it does
// not matter what another process replaces concurrently.
type unpacker struct {
	dirs     *dirCache
	owner    identity
	mayChown bool // whether this process may change the owner of files
	buffer   []byte

	linkReplaced bool         // a link was replaced through which a handle may have been opened
	createdDirs  []createdDir // whose mode and times are set at the end
	nameBytes    int          // bytes of the names of createdDirs
}

// createdDir holds attributes of a directory that are set when its content is
// complete.
type createdDir struct {
	name  string
	mode  uint32
	times [2]unix.Timespec
}

func newUnpacker(dir *os.Root, owner identity) *unpacker {
	return &unpacker{
		dirs: newDirCache(dir), owner: owner, mayChown: isPrivileged(),
		buffer: make([]byte, copyBufferSize),
	}
}

func (u *unpacker) unpack(from io.Reader) error {
	defer u.dirs.closeAll()
	in := bufio.NewReaderSize(from, copyBufferSize)
	r := tar.NewReader(in)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return badArchive("%s", err)
		}
		if err := u.unpackEntry(h, r); err != nil {
			return err
		}
	}
	for i := len(u.createdDirs) - 1; i >= 0; i-- {
		if err := u.setDirAttributes(u.createdDirs[i]); err != nil {
			return fmt.Errorf("set the attributes of %s: %w", u.createdDirs[i].name, err)
		}
	}
	// After the archive comes padding. Init's pipe would break if it were not
	// read.
	_, err := io.Copy(io.Discard, in)
	return err
}

func badArchive(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{runtime.ErrBadArchive}, args...)...)
}

// entryCreators are the supported types of entries. Each function creates an
// entry in a directory under the last element of its name.
var entryCreators = map[byte]func(u *unpacker, dir int, h *tar.Header, r io.Reader) error{
	tar.TypeDir:     (*unpacker).createDir,
	tar.TypeReg:     (*unpacker).createFile,
	tar.TypeSymlink: (*unpacker).createSymlink,
}

func (u *unpacker) unpackEntry(h *tar.Header, r io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	create, ok := entryCreators[h.Typeflag]
	if !ok {
		return badArchive("%q is not a file, a directory or a symbolic link", h.Name)
	}
	name, err := checkName(h.Name)
	if err != nil {
		return err
	}
	if name == "." {
		return nil // the directory itself does not belong to the archive
	}
	h.Name = name
	dir, err := u.parentDir(name)
	if err == nil {
		err = create(u, dir, h, r)
	}
	if u.linkReplaced {
		u.dirs.closeAll()
		u.linkReplaced = false
	}
	return asBadArchive(name, err)
}

// checkName rejects names that point outside of the directory.
func checkName(name string) (string, error) {
	if len(name) > maxPath {
		return "", badArchive("a name is longer than %d bytes: %q...", maxPath, name[:64])
	}
	clean := path.Clean(name)
	if name == "" || strings.ContainsRune(name, 0) || path.IsAbs(name) ||
		clean == ".." || strings.HasPrefix(clean, "../") {
		return "", badArchive("name %q points outside of the directory", name)
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", badArchive("name %q contains a '..' element", name)
		}
	}
	return clean, nil
}

// asBadArchive distinguishes errors of the archive from errors of the disk. If
// a path leads outside through a link, os.Root returns an error without an
// errno.
func asBadArchive(name string, err error) error {
	if err == nil || errors.Is(err, runtime.ErrBadArchive) {
		return err
	}
	var errno unix.Errno
	if !errors.As(err, &errno) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EISDIR) ||
		errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENAMETOOLONG) ||
		errors.Is(err, io.ErrUnexpectedEOF) {
		return badArchive("%q: %s", name, err)
	}
	return fmt.Errorf("unpack %q: %w", name, err)
}

// parentDir returns the directory that contains an entry. It creates
// directories that the archive does not contain.
func (u *unpacker) parentDir(name string) (int, error) {
	dir := path.Dir(name)
	fd, err := u.dirs.get(dir)
	if dir == "." || !errors.Is(err, unix.ENOENT) {
		return fd, err
	}
	above, err := u.parentDir(dir)
	if err != nil {
		return -1, err
	}
	if err := unix.Mkdirat(above, path.Base(dir), 0o755); err != nil {
		return -1, err
	}
	return u.chownDir(above, dir)
}

// chownDir changes the owner of a directory and keeps it open, because its
// files follow.
func (u *unpacker) chownDir(above int, name string) (int, error) {
	fd, err := openAt(above, path.Base(name), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return -1, err
	}
	if err := u.chown(fd); err != nil {
		unix.Close(fd)
		return -1, err
	}
	u.dirs.put(name, fd)
	return fd, nil
}

func (u *unpacker) chown(fd int) error {
	if !u.mayChown {
		return nil
	}
	return unix.Fchownat(fd, "", u.owner.uid, u.owner.gid, unix.AT_EMPTY_PATH)
}

// replaceEntry creates an entry and replaces an existing one of the same name.
// An existing file is removed and never written to, because it may have another
// name elsewhere.
func (u *unpacker) replaceEntry(dir int, base string, create func() error) error {
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
	u.linkReplaced = kind == unix.S_IFLNK
	return create()
}

func (u *unpacker) createDir(dir int, h *tar.Header, _ io.Reader) error {
	base := path.Base(h.Name)
	err := u.replaceEntry(dir, base, func() error { return unix.Mkdirat(dir, base, 0o700) })
	if err != nil && !errors.Is(err, unix.EISDIR) { // a directory may already exist
		return err
	}
	times, err := timesOf(h)
	if err != nil {
		return err
	}
	if u.nameBytes += len(h.Name) + dirOverhead; u.nameBytes > maxNameBytes {
		return badArchive("it has more directories than can be unpacked")
	}
	u.createdDirs = append(u.createdDirs, createdDir{name: h.Name, mode: uint32(h.Mode & permissionBits), times: times})
	_, err = u.chownDir(dir, h.Name)
	return err
}

// dirOverhead is the memory that a directory takes in addition to its name.
const dirOverhead = 64

// setDirAttributes is the last operation on a directory: creating files in it
// changes its times, and its mode may deny creating them.
func (u *unpacker) setDirAttributes(f createdDir) error {
	above, err := u.dirs.get(path.Dir(f.name))
	if err != nil {
		return nil // a later entry of the same name has replaced it
	}
	fd, err := openAt(above, path.Base(f.name), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	// This path also works if the owner has no permissions on the directory.
	name := "/proc/self/fd/" + strconv.Itoa(fd)
	if err := unix.Chmod(name, f.mode); err != nil {
		return err
	}
	return unix.UtimesNanoAt(unix.AT_FDCWD, name, f.times[:], 0)
}

// timesOf returns the access time and the modification time.
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

func (u *unpacker) createFile(dir int, h *tar.Header, r io.Reader) error {
	base := path.Base(h.Name)
	fd := -1
	err := u.replaceEntry(dir, base, func() (err error) {
		fd, err = openAt(dir, base, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
		return err
	})
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), h.Name)
	// Without a buffer, io.Copy would allocate one for each file.
	_, err = io.CopyBuffer(struct{ io.Writer }{f}, r, u.buffer)
	if err == nil {
		err = u.chown(fd)
	}
	if err == nil {
		err = unix.Fchmod(fd, uint32(h.Mode&permissionBits))
	}
	if err == nil {
		err = setTimes(fd, h)
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}

func setTimes(fd int, h *tar.Header) error {
	times, err := timesOf(h)
	if err != nil {
		return err
	}
	return setFileTimes(fd, &times)
}

// setFileTimes is futimens, which the unix package provides only by path.
func setFileTimes(fd int, times *[2]unix.Timespec) error {
	_, _, errno := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(fd), 0, uintptr(unsafe.Pointer(times)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// createSymlink creates a link with any target: nothing here follows it out of
// the directory, and the tenant could create such a link itself.
func (u *unpacker) createSymlink(dir int, h *tar.Header, _ io.Reader) error {
	base := path.Base(h.Name)
	err := u.replaceEntry(dir, base, func() error { return unix.Symlinkat(h.Linkname, dir, base) })
	if err != nil {
		return err
	}
	fd, err := openAt(dir, base, unix.O_PATH, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	// It may have been replaced by now by a hard link to a file of another
	// user.
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFLNK {
		return errors.Join(err, unix.EEXIST)
	}
	return u.chown(fd)
}
