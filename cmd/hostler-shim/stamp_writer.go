package main

import (
	"errors"
	goruntime "runtime"
	"time"

	"golang.org/x/sys/unix"
)

// writerStampAge is how old a change must be where a process may still have the file
// open for writing. A direct write takes effect when the disk has it, up to this time
// after the change time, and no call waits for that.
var writerStampAge = 30 * time.Second

// mayBeWritten reports whether a write may be in progress that began with the last
// change of an open file.
func (s *stamper) mayBeWritten(fd int) bool {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return true
	}
	return time.Since(time.Unix(st.Ctim.Unix())) < s.writing && hasWriter(fd, st.Uid)
}

// hasWriter reports whether a process has a file of an owner open for writing, or
// that is unknown. What only maps it has no direct writes.
func hasWriter(fd int, owner uint32) bool {
	err := takeLease(fd)
	if !errors.Is(err, unix.EACCES) || !isPrivileged() {
		return err != nil
	}
	taken := make(chan error, 1)
	go func() { // ends at once, and its thread with it
		goruntime.LockOSThread()
		_, _, _ = unix.RawSyscall(unix.SYS_SETFSUID, uintptr(owner), 0, 0)
		taken <- takeLease(fd)
	}()
	return <-taken != nil
}

// takeLease takes a lease of reading and returns it. The kernel gives none while
// the file is open for writing, and only to its owner.
func takeLease(fd int) error {
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_RDLCK); err != nil {
		return err
	}
	_, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_UNLCK)
	return err
}
