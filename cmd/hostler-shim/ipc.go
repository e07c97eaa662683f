package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/hostler/hostler/runtime"
	"golang.org/x/sys/unix"
)

// ipcKind is one kind of System V objects. They outlive the process that
// created them.
type ipcKind struct {
	list        string // the kernel's list
	id          string // the column of the ID
	call        uintptr
	arg2        uintptr // the call's second argument
	arg3        uintptr
	infoCommand uintptr // the command that counts objects
	countOffset int     // offset in its result of a number that is 0 if there are no objects
}

var ipcKinds = []ipcKind{
	{"/proc/sysvipc/shm", "shmid", unix.SYS_SHMCTL, ipcRemove, 0, 14, 8},  // SHM_INFO: all pages
	{"/proc/sysvipc/msg", "msqid", unix.SYS_MSGCTL, ipcRemove, 0, 12, 0},  // MSG_INFO: queues
	{"/proc/sysvipc/sem", "semid", unix.SYS_SEMCTL, 0, ipcRemove, 19, 28}, // SEM_INFO: sets
}

// ipcRemove is IPC_RMID of <linux/ipc.h>.
const ipcRemove = 0

// ipcObject is one object and its creator.
type ipcObject struct {
	id      uintptr
	creator identity
}

// removeIPC removes all remaining objects of all kinds.
func removeIPC() error {
	for _, kind := range ipcKinds {
		objects, err := kind.objects()
		if err != nil {
			return err
		}
		for _, o := range objects {
			if err := kind.remove(o); err != nil {
				return fmt.Errorf("remove %s %d: %w", kind.list, o.id, err)
			}
		}
	}
	return enableDump() // threads have run as other users
}

// remove removes an object as the user who created it. No other user may do so
// without a capability, which this program does not have.
func (k ipcKind) remove(o ipcObject) error {
	var err error
	onDisposableThread(func() {
		if err = setThreadIdentity(o.creator); err != nil {
			return
		}
		if _, _, errno := unix.Syscall(k.call, o.id, k.arg2, k.arg3); errno != 0 {
			err = errno
		}
	})
	return err
}

// objects parses the kernel's list, whose columns have headers.
func (k ipcKind) objects() ([]ipcObject, error) {
	b, err := os.ReadFile(k.list)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, k.checkUnlisted()
	}
	if err != nil {
		return nil, fmt.Errorf("list System V objects: %w", err)
	}
	return k.parse(string(b))
}

func (k ipcKind) parse(list string) ([]ipcObject, error) {
	lines := strings.Split(strings.TrimSpace(list), "\n")
	titles := strings.Fields(lines[0])
	columns := []int{slices.Index(titles, k.id), slices.Index(titles, "cuid"), slices.Index(titles, "cgid")}
	var objects []ipcObject
	for _, line := range lines[1:] {
		fields := strings.Fields(line)
		numbers := make([]int, len(columns))
		for i, column := range columns {
			if column < 0 || column >= len(fields) {
				return nil, fmt.Errorf("%s: malformed line %q", k.list, line)
			}
			n, err := strconv.ParseUint(fields[column], 10, 32)
			if err != nil {
				return nil, fmt.Errorf("%s: malformed line %q", k.list, line)
			}
			numbers[i] = int(n)
		}
		objects = append(objects, ipcObject{uintptr(numbers[0]), identity{uid: numbers[1], gid: numbers[2]}})
	}
	return objects, nil
}

// checkUnlisted returns an error if the kernel has objects of a kind that it
// does not list, as gVisor may.
func (k ipcKind) checkUnlisted() error {
	var info [128]byte // larger than the largest result
	var errno unix.Errno
	if k.call == unix.SYS_SEMCTL { // its second argument is the index of a semaphore
		_, _, errno = unix.Syscall6(k.call, 0, 0, k.infoCommand, uintptr(unsafe.Pointer(&info)), 0, 0)
	} else {
		_, _, errno = unix.Syscall(k.call, 0, k.infoCommand, uintptr(unsafe.Pointer(&info)))
	}
	if errno == unix.ENOSYS {
		return nil // the kernel does not support them
	}
	if errno != 0 {
		return fmt.Errorf("count System V objects without %s: %w", k.list, errno)
	}
	if binary.NativeEndian.Uint32(info[k.countOffset:]) != 0 {
		return fmt.Errorf("%w: System V objects exist that %s does not list", runtime.ErrWipeUnverified, k.list)
	}
	return nil
}
