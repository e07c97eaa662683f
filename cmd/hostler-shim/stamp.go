package main

import (
	"errors"
	"hash/fnv"
	"math"
	"os"
	"sync"
	"time"
	"unsafe"

	"github.com/hostler/hostler/runtime/tree"
	"golang.org/x/sys/unix"
)

// stampedFilesystems are the filesystems where each change of a file's content
// updates its change time, also one through memory. On others, such as tmpfs, a
// write to a mapped page does not. What a filesystem of another machine does is
// unknown. An overlay is as the filesystem below it, see isMapped.
var stampedFilesystems = map[int64]bool{
	unix.EXT4_SUPER_MAGIC: true, // also ext2 and ext3
	unix.XFS_SUPER_MAGIC:  true, unix.BTRFS_SUPER_MAGIC: true, unix.F2FS_SUPER_MAGIC: true,
	unix.OVERLAYFS_SUPER_MAGIC: true,
}

// How old a change must be for its time to identify it. The clock that files get
// their times from advances in steps, of 10 ms at most: a later change in the same
// step would leave the time as it is.
const (
	stampAge = 50 * time.Millisecond
	// A process writes the file, possibly: a write past the page cache takes effect
	// some time after the change time.
	liveStampAge = time.Second
)

// stamper gives files their stamps.
type stamper struct {
	live    bool
	boot    uint64           // see bootNumber
	writing time.Duration    // writerStampAge, unless a test has another one
	devices map[uint64]int64 // the filesystems by device, 0 for one that is not stamped
	mapped  map[uint64]bool  // the result of isMapped, for devices that are no overlays
}

func newStamper(live bool) *stamper {
	return &stamper{live: live, boot: bootNumber(), writing: writerStampAge, devices: map[uint64]int64{}, mapped: map[uint64]bool{}}
}

// maxDevices bounds what is kept of devices: each subvolume of a btrfs has its own.
const maxDevices = 64

// listed returns the stamp of a name in a directory with its state, which was read
// after now. On an overlay it is only to be compared with earlier ones: opened
// looks further.
func (s *stamper) listed(dir int, name string, st *unix.Stat_t, now time.Time) tree.Stamp {
	magic, known := s.devices[st.Dev]
	if !known {
		fd, err := openAt(dir, name, unix.O_PATH, 0)
		if err != nil {
			return tree.Stamp{}
		}
		defer unix.Close(fd)
		var opened unix.Stat_t
		if unix.Fstat(fd, &opened) != nil || opened.Dev != st.Dev {
			return tree.Stamp{} // it was replaced
		}
		magic = s.filesystem(fd, st.Dev)
	}
	if magic == 0 {
		return tree.Stamp{}
	}
	return s.stamp(st, now)
}

// filesystem returns the kind of the filesystem of an open file, or 0.
func (s *stamper) filesystem(fd int, device uint64) int64 {
	magic, known := s.devices[device]
	if known {
		return magic
	}
	var fs unix.Statfs_t
	if unix.Fstatfs(fd, &fs) == nil && stampedFilesystems[int64(fs.Type)] { //nolint:unconvert // it is shorter on other machines
		magic = int64(fs.Type) //nolint:unconvert // see above
	}
	if len(s.devices) >= maxDevices {
		clear(s.devices)
		clear(s.mapped)
	}
	s.devices[device] = magic
	return magic
}

// stamp returns the stamp of a state that was read after now.
func (s *stamper) stamp(st *unix.Stat_t, now time.Time) tree.Stamp {
	age := stampAge
	if s.live {
		age = liveStampAge
	}
	if st.Ctim.Nano() >= now.Add(-age).UnixNano() {
		return tree.Stamp{}
	}
	return s.stampOf(st)
}

// stampOf returns the stamp of a state, whatever its age. A filesystem whose times
// are whole seconds has none.
func (s *stamper) stampOf(st *unix.Stat_t) tree.Stamp {
	if st.Ctim.Nsec == 0 || s.boot == 0 {
		return tree.Stamp{}
	}
	return tree.Stamp{Inode: st.Ino ^ s.boot, ChangeTime: st.Ctim.Nano()}
}

// bootNumber identifies the time since the machine was booted, 0 if it is unknown. A
// crash can lose the times of a file whose content is on the disk: fdatasync writes
// the content only. So a stamp of an earlier boot is none.
var bootNumber = sync.OnceValue(func() uint64 {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write(id) // never fails
	return h.Sum64()
})

// settle prepares an open file whose state and content are read next: from then on
// each change updates the change time. It reports whether that is certain.
//
// A page that is dirty changes through memory without a new change time, until it
// is written back. A write that is in progress has updated the change time already:
// a seek to data waits for its lock. One past the page cache may have none, see
// hasWriter.
func (s *stamper) settle(fd int) bool {
	if !s.live {
		return true
	}
	// If the kernel takes too long, the caller closes the file before it is done.
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return false
	}
	settled := make(chan bool, 1)
	go func() { // ends when the kernel has written the file back
		defer unix.Close(own)
		ok := !s.mayBeWritten(own) && isMapped(own, math.MaxInt64, fiemapSync)
		if ok {
			_, err := unix.Seek(own, 0, unix.SEEK_DATA)
			ok = err == nil || errors.Is(err, unix.ENXIO) // it has no data
		}
		settled <- ok
	}()
	timer := time.NewTimer(settleTimeout)
	defer timer.Stop()
	select {
	case ok := <-settled:
		return ok
	case <-timer.C:
		return false
	}
}

// settleTimeout bounds how long nothing is sent while a file is written back. The
// server waits longer.
const settleTimeout = 45 * time.Second

// opened returns the stamp of an open file with its state, which was read after now
// and after settle.
func (s *stamper) opened(fd int, st *unix.Stat_t, now time.Time) tree.Stamp {
	stamp := s.stamp(st, now)
	if stamp.IsZero() || !s.isStamped(fd, st.Dev) {
		return tree.Stamp{}
	}
	return stamp
}

// written returns the stamp of a file right after its last change. A change in the
// same step of the clock leaves it as it is. But such a change sets the modification
// time, which is the entry's now.
func (s *stamper) written(fd int) tree.Stamp {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || !s.isStamped(fd, st.Dev) {
		return tree.Stamp{}
	}
	return s.stampOf(&st)
}

// isStamped reports whether an open file is on a filesystem with stamps.
func (s *stamper) isStamped(fd int, device uint64) bool {
	switch s.filesystem(fd, device) {
	case 0:
		return false
	case unix.OVERLAYFS_SUPER_MAGIC:
		return isMapped(fd, 1, 0) // each file may be on another filesystem
	}
	mapped, known := s.mapped[device]
	if !known {
		mapped = isMapped(fd, 1, 0)
		s.mapped[device] = mapped
	}
	return mapped
}

// fiemap is struct fiemap of <linux/fiemap.h> with room for one extent.
type fiemap struct {
	start, length          uint64
	flags, mapped, extents uint32
	_                      uint32
	_                      [56]byte
}

const (
	fiemapCall = 0xc020660b // FS_IOC_FIEMAP
	fiemapSync = 1          // FIEMAP_FLAG_SYNC
)

// isMapped reports whether a file is on a filesystem that maps it to a disk: tmpfs
// does not, nor does gVisor. An overlay passes the call on to the filesystem that
// has the file, also the request to write it back, unlike sync_file_range.
func isMapped(fd int, length uint64, flags uint32) bool {
	m := fiemap{length: length, flags: flags, extents: 1}
	for {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), fiemapCall, uintptr(unsafe.Pointer(&m)))
		if errno != unix.EINTR {
			return errno == 0
		}
	}
}
