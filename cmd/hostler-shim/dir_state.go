package main

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/hostler/hostler/runtime"
	"golang.org/x/sys/unix"
)

// dirState is the state of a directory that survives a wipe: one that a wipe
// empties, or one that is an ancestor of a mount below it.
type dirState struct {
	device, inode uint64
	mode          uint32
	uid, gid      int
	size, blocks  int64
	atime, mtime  unix.Timespec
	xattrs        []xattr
	flags         inodeFlags
}

// inodeFlags are the attributes that chattr sets. The zero value is also that
// of a filesystem without such attributes.
type inodeFlags struct {
	flags   uint32
	project uint32
	extra   uint32
	hint    uint64 // kept in memory only; setting it does not count as a change of the inode
}

// fsxattr is struct fsxattr of <linux/fs.h>.
type fsxattr struct {
	flags, extentSize, extents, project, cowExtentSize uint32
	_                                                  [8]byte
}

// getFSXAttr is FS_IOC_FSGETXATTR of <linux/fs.h>.
const getFSXAttr = 0x801c581f

// readDirState returns the state of an open directory.
func readDirState(fd int) (dirState, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return dirState{}, err
	}
	xattrs, err := fileXattrs(fd)
	if err != nil {
		return dirState{}, err
	}
	return dirState{
		device: st.Dev, inode: st.Ino, mode: st.Mode & 0o7777, uid: int(st.Uid), gid: int(st.Gid),
		size: st.Size, blocks: st.Blocks, atime: st.Atim, mtime: st.Mtim,
		xattrs: xattrs, flags: inodeFlagsOf(fd),
	}, nil
}

// inodeFlagsOf returns the flags of an open directory, as far as its filesystem
// supports them. The read opens nothing.
func inodeFlagsOf(fd int) inodeFlags {
	var f inodeFlags
	if n, err := unix.IoctlGetInt(fd, unix.FS_IOC_GETFLAGS); err == nil {
		f.flags = uint32(n)
	}
	var x fsxattr
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), getFSXAttr, uintptr(unsafe.Pointer(&x))); errno == 0 {
		f.project, f.extra = x.project, x.flags
	}
	if _, _, errno := unix.Syscall(unix.SYS_FCNTL, uintptr(fd), unix.F_GET_RW_HINT, uintptr(unsafe.Pointer(&f.hint))); errno != 0 {
		f.hint = 0
	}
	return f
}

// openSame opens the directory at a name. It returns runtime.ErrWipeUnverified
// if that is not the same directory as before.
func (f dirState) openSame(dir int, name string) (int, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.EACCES) {
		// Its owner has removed its own access.
		if unix.Fchmodat(dir, name, f.mode, 0) == nil {
			fd, err = unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		}
	}
	if err != nil {
		return -1, fmt.Errorf("%w: open %s: %w", runtime.ErrWipeUnverified, name, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Dev != f.device || st.Ino != f.inode {
		unix.Close(fd)
		return -1, fmt.Errorf("%w: %s is not the same directory as before", runtime.ErrWipeUnverified, name)
	}
	return fd, nil
}

// restore restores the owner, the mode, the attributes and the flags of the
// open directory. It is called before the directory is emptied, because a
// tenant may have removed its own access.
func (f dirState) restore(fd int) error {
	now, err := readDirState(fd)
	if err != nil {
		return err
	}
	if now.flags.flags != f.flags.flags {
		_ = unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, int(f.flags.flags)) // restoreTimes compares them
	}
	if now.uid != f.uid || now.gid != f.gid {
		if err := unix.Fchown(fd, f.uid, f.gid); err != nil {
			return fmt.Errorf("restore the owner: %w", err)
		}
	}
	if err := restoreXattrs(fd, f.xattrs); err != nil {
		return err
	}
	// An access control list changes the mode, and so does a change of the
	// owner.
	if now, err = readDirState(fd); err != nil || now.mode == f.mode {
		return err
	}
	if err := unix.Fchmod(fd, f.mode); err != nil {
		return fmt.Errorf("restore the mode: %w", err)
	}
	return nil
}

// touch sets the times of an open directory to now. To do so, it needs write
// permission, not ownership. A directory that this process cannot write to
// remains unchanged.
func touch(fd int) error {
	const name = ".hostler-touch"
	err := unix.Mkdirat(fd, name, 0o700)
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EROFS) {
		return nil
	}
	if err == nil {
		err = unix.Unlinkat(fd, name, unix.AT_REMOVEDIR)
	}
	if err != nil {
		return fmt.Errorf("update the times: %w", err)
	}
	return nil
}

// restoreTimes restores the times of the emptied directory and returns an error
// for anything else that differs.
func (f dirState) restoreTimes(fd int) error {
	times := [2]unix.Timespec{f.atime, f.mtime}
	_, _, errno := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(fd), 0, uintptr(unsafe.Pointer(&times)), 0, 0, 0)
	switch errno {
	case 0:
	case unix.EPERM:
		// No tenant could set the times of a directory that belongs to another
		// user. But a file that it created there has updated them. touch
		// replaces them with the time of the wipe.
		if err := touch(fd); err != nil {
			return err
		}
	default:
		return fmt.Errorf("restore the times: %w", errno)
	}
	now, err := readDirState(fd)
	switch {
	case err != nil:
		return err
	case now.uid != f.uid || now.gid != f.gid || now.mode != f.mode:
		return errors.New("the owner or the mode has changed")
	case !slices.Equal(now.xattrs, f.xattrs):
		return errors.New("the attributes have changed")
	case now.flags != f.flags:
		return errors.New("the inode flags have changed")
	case now.size > f.size || now.blocks > f.blocks:
		// Not every filesystem frees the space that the names of many files
		// used.
		return errors.New("the directory has grown")
	}
	return nil
}
