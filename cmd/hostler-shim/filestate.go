package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// fileState is everything that shows whether a file is unchanged. A process can
// set the modification time of a file, but never the change time. So every
// change of a file, of its content or its attributes, changes its state.
type fileState struct {
	mode       uint32
	uid, gid   uint32
	links      uint32
	size       uint64
	inode      uint64
	filesystem uint64
	device     uint64 // of a device file
	flags      uint64 // such as immutable
	ctime      unix.StatxTimestamp
	mtime      unix.StatxTimestamp
	btime      unix.StatxTimestamp
}

// comparedFlags are the inode flags from statx to compare. The other flags
// depend on how a file is reached.
const comparedFlags = unix.STATX_ATTR_COMPRESSED | unix.STATX_ATTR_IMMUTABLE | unix.STATX_ATTR_APPEND |
	unix.STATX_ATTR_NODUMP | unix.STATX_ATTR_ENCRYPTED | unix.STATX_ATTR_VERITY

// statAt returns the state of a name in a directory and follows no link. The
// name ends with a NUL.
func statAt(dir int, name *byte) (fileState, error) {
	var st unix.Statx_t
	for {
		_, _, errno := unix.Syscall6(unix.SYS_STATX, uintptr(dir), uintptr(unsafe.Pointer(name)),
			unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_BASIC_STATS|unix.STATX_BTIME,
			uintptr(unsafe.Pointer(&st)), 0)
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 {
			return fileState{}, errno
		}
		return newFileState(&st), nil
	}
}

// statPath returns the state of the file at a path.
func statPath(path string) (fileState, error) {
	name, err := unix.BytePtrFromString(path)
	if err != nil {
		return fileState{}, err
	}
	f, err := statAt(unix.AT_FDCWD, name)
	if err != nil {
		return f, fmt.Errorf("stat %s: %w", path, err)
	}
	return f, nil
}

func newFileState(st *unix.Statx_t) fileState {
	return fileState{
		mode: uint32(st.Mode), uid: st.Uid, gid: st.Gid, links: st.Nlink,
		size: st.Size, inode: st.Ino,
		filesystem: unix.Mkdev(st.Dev_major, st.Dev_minor),
		device:     unix.Mkdev(st.Rdev_major, st.Rdev_minor),
		flags:      st.Attributes & comparedFlags,
		ctime:      st.Ctime, mtime: st.Mtime, btime: st.Btime,
	}
}

func (f fileState) isDir() bool     { return f.mode&unix.S_IFMT == unix.S_IFDIR }
func (f fileState) isRegular() bool { return f.mode&unix.S_IFMT == unix.S_IFREG }

// withoutContent returns the state without what changes when names are added to
// a directory or removed from it.
func (f fileState) withoutContent() fileState {
	f.size, f.links = 0, 0
	f.ctime, f.mtime = unix.StatxTimestamp{}, unix.StatxTimestamp{}
	return f
}

// appendTo appends the state to buf in a form of fixed length.
func (f fileState) appendTo(buf []byte) []byte {
	for _, n := range [...]uint64{
		uint64(f.mode)<<32 | uint64(f.links), uint64(f.uid)<<32 | uint64(f.gid),
		f.size, f.inode, f.filesystem, f.device, f.flags,
		uint64(f.ctime.Sec), uint64(f.mtime.Sec), uint64(f.btime.Sec),
		uint64(f.ctime.Nsec)<<32 | uint64(f.mtime.Nsec), uint64(f.btime.Nsec),
	} {
		buf = binary.LittleEndian.AppendUint64(buf, n)
	}
	return buf
}

// fingerprint is a hash of a path and its state.
type fingerprint [16]byte

func (p fingerprint) compare(other fingerprint) int { return bytes.Compare(p[:], other[:]) }

// newFingerprint hashes a state, the details that are compared in addition, and
// the name in the directory. It uses buf as its buffer and returns it.
func newFingerprint(buf []byte, f fileState, details []byte, dir string, name []byte) (fingerprint, []byte) {
	buf = f.appendTo(buf[:0])
	buf = binary.LittleEndian.AppendUint32(buf, uint32(len(details)))
	buf = append(buf, details...)
	buf = append(buf, dir...)
	buf = append(buf, 0)
	buf = append(buf, name...)
	sum := sha256.Sum256(buf)
	return fingerprint(sum[:16]), buf
}

// Limits on what hashDetails reads of one file.
const (
	maxXattrSize     = 64 << 10 // the kernel's own limit
	maxHashedContent = 1 << 20
)

// hashDetails hashes what a file's state may not show: extended attributes,
// including access control lists, which not every temporary filesystem counts
// as a change; and the content of a small file, which on some filesystems a
// process can change through a mapping without a new timestamp.
func hashDetails(path string, f fileState) ([]byte, error) {
	xattrs, err := pathXattrs(path)
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	for _, a := range xattrs {
		fmt.Fprintf(sum, "%q=%q\n", a.name, a.value)
	}
	if f.isRegular() && f.size <= maxHashedContent {
		file, err := os.OpenFile(path, unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if err == nil {
			_, err = io.Copy(sum, io.LimitReader(file, maxHashedContent))
			file.Close()
		}
		if err != nil && !errors.Is(err, os.ErrPermission) {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
	}
	return sum.Sum(nil), nil
}
