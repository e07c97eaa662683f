package main

import (
	"net"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

func descriptorAttacks() []attack {
	startsChild := func(name string) func(tenant) error {
		return func(t tenant) error { return t.startChild(name) }
	}
	return []attack{
		{Name: "parked", Text: "send open files into the shim's own socket, where they outlive their process", run: parked, seen: seenLocks},
		{Name: "in-flight", Text: "leave descriptors in flight between dead sockets, in a circle", run: startsChild("in-flight"), seen: seenLocks},
		{Name: "io-uring", Text: "leave operations in flight in io_uring when the process ends", run: startsChild("uring"), seen: seenUring},
		{Name: "deleted-open", Text: "hold deleted files, unnamed files and memory files open", run: startsChild("held")},
		{Name: "directories-open", Text: "hold directories of every mount open and be in them", run: startsChild("directories")},
		{Name: "terminals", Text: "leave terminals, their slaves and a controlling terminal", run: startsChild("terminals")},
		{Name: "watches", Text: "leave watches on the image's files", run: startsChild("watches")},
	}
}

func holdingChildren() map[string]func(t tenant, ready func()) {
	return map[string]func(t tenant, ready func()){
		"in-flight":   inFlight,
		"uring":       uring,
		"held":        held,
		"directories": directories,
		"terminals":   terminals,
		"watches":     watches,
		"leases":      leases,
		"locks":       locks,
		"map":         keepMapping,
		"attached":    attached,
		"undo":        undo,
		"abstract":    abstract,
		"datagrams":   datagrams,
	}
}

// lockedFiles opens files of the image and locks them as flock does: the lock
// lasts as long as the open file.
func lockedFiles() []int {
	var fds []int
	for _, path := range lockPaths() {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil && unix.Flock(fd, unix.LOCK_SH|unix.LOCK_NB) == nil {
			fds = append(fds, fd)
		}
	}
	return fds
}

// parked leaves open files in the queue of a socket that process 1 holds.
func parked(t tenant) error {
	fds := lockedFiles()
	var all []error
	for range 20 {
		c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: shimAddress(), Net: "unix"})
		if err == nil {
			_, _, err = c.WriteMsgUnix([]byte{0}, unix.UnixRights(fds...), nil)
		}
		all = append(all, err)
	}
	for _, fd := range fds {
		unix.Close(fd)
	}
	return anySucceeded(all...)
}

func inFlight(_ tenant, ready func()) {
	fds := lockedFiles()
	for range 8 {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			return
		}
		// Each end travels in the other, with the files.
		_ = unix.Sendmsg(pair[0], []byte{0}, unix.UnixRights(append(fds, pair[0], pair[1])...), nil, 0)
		_ = unix.Sendmsg(pair[1], []byte{0}, unix.UnixRights(append(fds, pair[0], pair[1])...), nil, 0)
		unix.Close(pair[0])
		unix.Close(pair[1])
	}
	ready() // and ends
}

// uring requests that the kernel creates a directory in some seconds, after this
// process has exited: a timeout with the request linked to it. The submission
// queue is filled by hand.
func uring(_ tenant, ready func()) {
	const setup, enter = 425, 426
	params := [30]uint32{}
	fd, _, errno := unix.Syscall(setup, 8, ptr(&params), 0)
	if errno != 0 {
		return
	}
	ring, err := unix.Mmap(int(fd), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return
	}
	entries, err := unix.Mmap(int(fd), 0x10000000, 8*64, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return
	}
	word := func(off uint32) *uint32 { return (*uint32)(unsafe.Pointer(&ring[off])) }
	wait := unix.Timespec{Sec: 1}
	path, _ := unix.BytePtrFromString("/data/made-later")
	timeout := (*sqe)(unsafe.Pointer(&entries[0]))
	*timeout = sqe{opcode: 11, flags: 1 << 3, addr: uint64(ptr(&wait)), length: 1} // TIMEOUT, hard link
	*(*sqe)(unsafe.Pointer(&entries[64])) = sqe{opcode: 37, fd: unix.AT_FDCWD, addr: uint64(uintptr(unsafe.Pointer(path))), length: 0o777}
	array := params[10+6] // sq_off.array
	*word(array), *word(array + 4) = 0, 1
	*word(params[10+1]) = 2 // sq_off.tail
	_, _, errno = unix.Syscall6(enter, fd, 2, 0, 0, 0, 0)
	if errno != 0 {
		return
	}
	ready()
	hang()
}

// sqe is struct io_uring_sqe of <linux/io_uring.h>.
type sqe struct {
	opcode, flags uint8
	ioprio        uint16
	fd            int32
	off, addr     uint64
	length, op    uint32
	rest          [4]uint64
}

func seenUring(tenant) []string {
	_, _ = unix.Poll(nil, 1200)
	if _, err := os.Lstat("/data/made-later"); err == nil {
		return []string{"/data/made-later was made after its process had ended"}
	}
	return nil
}

func held(t tenant, ready func()) {
	for _, dir := range append(scratchDirs(), imageConf) {
		if f, err := os.CreateTemp(dir, "held"); err == nil {
			_, _ = f.WriteString(t.marker)
			_ = os.Remove(f.Name())
			defer f.Close()
		}
		if fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR, 0o600); err == nil {
			_, _ = unix.Write(fd, []byte(t.marker))
		}
	}
	if fd, err := unix.MemfdCreate(t.marker, unix.MFD_ALLOW_SEALING); err == nil {
		_, _ = unix.Write(fd, []byte(t.marker))
	}
	ready()
	hang()
}

func directories(_ tenant, ready func()) {
	for _, dir := range append(scratchDirs(), shimDir, shimBin, shimRun, mirrorDir, "/", "/proc/1", "/dev/pts") {
		_, _ = unix.Open(dir, unix.O_DIRECTORY|unix.O_PATH, 0)
		_ = os.Chdir(dir)
	}
	ready()
	hang()
}

func terminals(t tenant, ready func()) {
	for range 8 {
		f, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
		if err != nil {
			continue
		}
		defer f.Close()
		_ = unix.IoctlSetPointerInt(int(f.Fd()), unix.TIOCSPTLCK, 0)
		_, _ = f.WriteString(t.marker + "\n")
		_ = unix.IoctlSetInt(int(f.Fd()), unix.TIOCSCTTY, 0)
	}
	ready()
	hang()
}

func watches(_ tenant, ready func()) {
	fd, err := unix.InotifyInit1(0)
	if err != nil {
		return
	}
	for _, path := range lockPaths() {
		_, _ = unix.InotifyAddWatch(fd, path, unix.IN_ALL_EVENTS)
	}
	_, _ = unix.FanotifyInit(unix.FAN_CLASS_NOTIF|unix.FAN_REPORT_FID, 0)
	ready()
	hang()
}

func leases(_ tenant, ready func()) {
	for _, path := range lockPaths() {
		if f, err := os.Open(path); err == nil {
			defer f.Close()
			_, _ = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK)
			_, _ = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
			_, _ = unix.FcntlInt(f.Fd(), unix.F_NOTIFY, 0x80000004 /* creation, again and again */)
		}
	}
	ready()
	hang()
}

func locks(_ tenant, ready func()) {
	_ = lockedFiles()
	for _, path := range lockPaths() {
		if f, err := os.OpenFile(path, os.O_RDWR, 0); err == nil {
			defer f.Close()
			lock := unix.Flock_t{Type: unix.F_WRLCK}
			_ = unix.FcntlFlock(f.Fd(), unix.F_SETLK, &lock)
			_ = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &lock)
		}
	}
	ready()
	hang()
}

// keepMapping writes to a mapping of an image's file indefinitely.
func keepMapping(t tenant, ready func()) {
	f, err := os.OpenFile(imageText, os.O_RDWR, 0)
	if err != nil {
		return
	}
	m, err := unix.Mmap(int(f.Fd()), 0, 64, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return
	}
	f.Close()
	ready()
	loop(func() { copy(m, t.marker) })
}
