package main

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Constants of <linux/fs.h> and <linux/fcntl.h> that package unix does not have.
const (
	fsIocGetVersion = 0x80087601
	fsIocSetVersion = 0x40087602
	fsIocGetXattr   = 0x801c581f
	fsIocSetXattr   = 0x401c5820
	fGetRWHint      = 1035
	fSetRWHint      = 1036
	flagImmutable   = 0x10
	flagAppend      = 0x20
	flagNoDump      = 0x40
	// changedFlags are the flags of inodes that need no capability.
	changedFlags = flagNoDump | 0x8 /* sync */ | 0x80 /* noatime */ | 0x10000 /* dirsync */
)

func inodeAttacks() []attack {
	return []attack{
		{Name: "image-flags", Text: "set inode flags on files and directories of the image", run: func(tenant) error {
			return anySucceeded(setFlags(imageConf), setFlags(imageText), setFlags("/app"))
		}},
		{Name: "volume-flags", Text: "set inode flags on the directories that a wipe empties", run: onScratchDirs(setFlags)},
		{Name: "volume-project", Text: "put a message into the project number of those directories", run: onScratchDirs(setProject)},
		{Name: "volume-generation", Text: "put a message into the inode generation of those directories", run: onScratchDirs(setGeneration)},
		{Name: "write-hints", Listed: true, Text: "put a message into the write hints of the image's inodes", run: func(tenant) error {
			return anySucceeded(setHint(imageText), setHint(imageConf), setHint("/attacker"), setHint("/etc/passwd"), setHint("/etc/hosts"))
		}, seen: seenHints},
		{Name: "volume-hints", Text: "put a message into the write hints of those directories and devices", run: onScratchDirs(setHint), seen: seenHints},
		{Name: "verity", Text: "make files of the image unchangeable with fs-verity and immutable flags", run: immutable},
		{Name: "leases", Text: "hold leases and marks on directories and files of the image", run: func(t tenant) error { return t.startChild("leases") }, seen: seenLocks},
		{Name: "locks", Text: "hold locks of every kind on files of the image", run: func(t tenant) error { return t.startChild("locks") }, seen: seenLocks},
	}
}

func setFlags(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	v, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if err != nil {
		return err
	}
	var all []error
	for _, flag := range []int{changedFlags, flagNoDump, 0x80} {
		all = append(all, unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, v|flag))
	}
	return anySucceeded(all...)
}

// fsxattr is struct fsxattr of <linux/fs.h>.
type fsxattr struct {
	flags, extent, extents, project, cow uint32
	_                                    [8]byte
}

func ioctl(fd, request uintptr, arg unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, request, uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}

func setProject(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	var x fsxattr
	if err := ioctl(f.Fd(), fsIocGetXattr, unsafe.Pointer(&x)); err != nil {
		return err
	}
	x.project = 0x5ec2e7
	return ioctl(f.Fd(), fsIocSetXattr, unsafe.Pointer(&x))
}

func setGeneration(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	v := int64(0x5ec2e7)
	return ioctl(f.Fd(), fsIocSetVersion, unsafe.Pointer(&v))
}

func setHint(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	hint := uint64(5) // extreme
	_, _, errno := unix.Syscall(unix.SYS_FCNTL, f.Fd(), fSetRWHint, uintptr(unsafe.Pointer(&hint)))
	if errno != 0 {
		return errno
	}
	return nil
}

// seenHints reads the hints, which are normally not set.
func seenHints(tenant) []string {
	var seen []string
	for _, path := range append(scratchDirs(), imageText, imageConf, "/attacker", "/etc/passwd", "/etc/hosts") {
		f, err := os.Open(path)
		if err != nil {
			continue
		}
		var hint uint64
		_, _, errno := unix.Syscall(unix.SYS_FCNTL, f.Fd(), fGetRWHint, uintptr(unsafe.Pointer(&hint)))
		f.Close()
		if errno == 0 && hint != 0 {
			seen = append(seen, path+" has a write hint")
		}
	}
	return seen
}

func immutable(tenant) error {
	var all []error
	for _, path := range []string{imageText, imageConf, "/data"} {
		f, err := os.Open(path)
		if err != nil {
			all = append(all, err)
			continue
		}
		for _, flag := range []int{flagImmutable, flagAppend, 0x40000000 /* casefold */} {
			all = append(all, unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flag))
		}
		verity := struct {
			version, hash, block, salt uint32
			saltPtr                    uint64
			sig, reserved              uint32
			sigPtr                     uint64
			rest                       [11]uint64
		}{version: 1, hash: 1, block: 4096}
		all = append(all, ioctl(f.Fd(), 0x40806685, unsafe.Pointer(&verity)))
		f.Close()
	}
	return anySucceeded(all...)
}

// lockPaths returns the files on which locks are taken and checked.
func lockPaths() []string {
	return []string{imageText, imageConf, "/app", "/attacker", "/etc/passwd", "/etc/hosts", "/", "/data", "/tmp", "/dev/null"}
}

// seenLocks tries to take every lock.
func seenLocks(tenant) []string {
	var seen []string
	for _, path := range lockPaths() {
		f, err := os.Open(path)
		if err != nil {
			continue
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == unix.EWOULDBLOCK {
			seen = append(seen, path+" is locked")
		}
		lock := unix.Flock_t{Type: unix.F_WRLCK}
		if unix.FcntlFlock(f.Fd(), unix.F_GETLK, &lock) == nil && lock.Type != unix.F_UNLCK {
			seen = append(seen, path+" has a record lock")
		}
		if lease, err := unix.FcntlInt(f.Fd(), unix.F_GETLEASE, 0); err == nil && lease != unix.F_UNLCK {
			seen = append(seen, path+" has a lease")
		}
		f.Close()
	}
	return seen
}
