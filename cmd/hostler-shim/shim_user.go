package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/hostler/hostler/runtime/shim"
	"golang.org/x/sys/unix"
)

// isPrivileged reports whether this process may switch to another user.
var isPrivileged = sync.OnceValue(func() bool {
	have, err := capabilities()
	return err == nil && have.effective&(1<<unix.CAP_SETUID) != 0 && have.effective&(1<<unix.CAP_SETGID) != 0
})

// capabilitySets are the capabilities of a thread. All threads of this program
// have the same, except those that run on a disposable thread.
type capabilitySets struct{ effective, permitted uint64 }

func capabilities() (capabilitySets, error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return capabilitySets{}, err
	}
	join := func(low, high uint32) uint64 { return uint64(high)<<32 | uint64(low) }
	return capabilitySets{
		effective: join(data[0].Effective, data[1].Effective),
		permitted: join(data[0].Permitted, data[1].Permitted),
	}, nil
}

// capInheritance is whether the programs that this one starts inherit its
// capabilities.
type capInheritance int

const (
	inheritNoCaps  capInheritance = iota // they have none
	inheritAllCaps                       // they have the same, because they are this program
)

// switchToShimUser switches this process to shim.UID if permitted, and keeps
// its capabilities. It comes before all else: from then on no process of a
// tenant, not even one of root, can signal, trace, limit or slow it down.
//
// The kernel gives the files of such a process in /proc to root until dumping
// is enabled again. These files hold settings that later processes inherit,
// such as oom_score_adj.
//
// A process that may not switch to another user has the tenant's user, and
// disables dumping.
func switchToShimUser(h capInheritance) error {
	switch {
	case isPrivileged():
		if err := setShimUser(h); err != nil {
			return fmt.Errorf("switch to uid %d: %w", shim.UID, err)
		}
	case os.Geteuid() != shim.UID:
		disableDump()
		return nil
	}
	return enableDump()
}

// enableDump gives the files of this process in /proc to its own user. It first
// waits until no thread has another user: such a thread is about to end, see
// onDisposableThread.
func enableDump() error {
	if os.Geteuid() != shim.UID {
		return nil
	}
	for deadline := time.Now().Add(threadExitTimeout); ; {
		others, err := hasOtherUserThreads()
		if err != nil {
			return err
		}
		if !others {
			break
		}
		if time.Now().After(deadline) {
			return errors.New("a thread with another user does not end")
		}
		<-time.After(time.Millisecond)
	}
	return unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)
}

// threadExitTimeout is how long a thread may take to end.
const threadExitTimeout = 10 * time.Second

// hasOtherUserThreads reports whether a thread of this process has another
// user.
func hasOtherUserThreads() (bool, error) {
	const tasks = "/proc/self/task"
	all, err := os.ReadDir(tasks)
	if err != nil {
		return false, err
	}
	own := fmt.Sprintf("\nUid:\t%d\t%[1]d\t%[1]d\t%[1]d\n", shim.UID)
	for _, task := range all {
		status, err := os.ReadFile(filepath.Join(tasks, task.Name(), "status"))
		if err == nil && !strings.Contains(string(status), own) {
			return true, nil
		}
	}
	return false, nil
}

func setShimUser(h capInheritance) error {
	have, err := capabilities()
	if err != nil {
		return err
	}
	if os.Geteuid() != shim.UID {
		if err := onAllThreads(unix.SYS_PRCTL, unix.PR_SET_KEEPCAPS, 1, 0); err != nil {
			return err
		}
		if err := syscall.Setgroups(nil); err != nil {
			return err
		}
		if err := syscall.Setresgid(shim.UID, shim.UID, shim.UID); err != nil {
			return err
		}
		if err := syscall.Setresuid(shim.UID, shim.UID, shim.UID); err != nil {
			return err
		}
	}
	inheritable := uint64(0)
	if h == inheritAllCaps {
		inheritable = have.permitted
	}
	header := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	for i := range data {
		part := uint32(have.permitted >> (32 * i))
		data[i] = unix.CapUserData{Effective: part, Permitted: part, Inheritable: uint32(inheritable >> (32 * i))}
	}
	err = onAllThreads(unix.SYS_CAPSET, uintptr(unsafe.Pointer(header)), uintptr(unsafe.Pointer(&data[0])), 0)
	if err != nil {
		return err
	}
	for c := uintptr(0); c < 64 && err == nil; c++ {
		if inheritable&(1<<c) != 0 {
			err = onAllThreads(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, c)
		}
	}
	return err
}

// passOnCapabilities makes the programs that the calling thread starts inherit
// its capabilities. They must be this program.
func passOnCapabilities() error {
	if !isPrivileged() {
		return nil
	}
	have, err := capabilities()
	if err != nil {
		return err
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	for i := range data {
		part := uint32(have.permitted >> (32 * i))
		data[i] = unix.CapUserData{Effective: part, Permitted: part, Inheritable: part}
	}
	err = unix.Capset(&header, &data[0])
	for c := uintptr(0); c < 64 && err == nil; c++ {
		if have.permitted&(1<<c) != 0 {
			err = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, c, 0, 0)
		}
	}
	if err != nil {
		return startErrorf("pass on capabilities: %s", err)
	}
	return nil
}

// onAllThreads runs on every thread a system call that affects only the calling
// thread.
//
//go:uintptrescapes
func onAllThreads(number, a, b, c uintptr) error {
	if _, _, errno := syscall.AllThreadsSyscall6(number, a, b, c, 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// defaultIDs returns the IDs that an empty user stands for: those that the
// engine has started this program with.
func defaultIDs() (uid, gid int) {
	if os.Geteuid() == shim.UID {
		return 0, 0
	}
	return os.Geteuid(), os.Getegid()
}
