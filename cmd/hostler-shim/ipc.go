package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ipcKind is one kind of System V objects. They outlive the process that made
// them.
type ipcKind struct {
	list   string // where the kernel lists them
	id     string // the column of the number
	call   uintptr
	second uintptr // the call's second argument
	third  uintptr
}

var ipcKinds = []ipcKind{
	{"/proc/sysvipc/shm", "shmid", unix.SYS_SHMCTL, ipcRemove, 0},
	{"/proc/sysvipc/msg", "msqid", unix.SYS_MSGCTL, ipcRemove, 0},
	{"/proc/sysvipc/sem", "semid", unix.SYS_SEMCTL, 0, ipcRemove},
}

// ipcRemove is IPC_RMID of <linux/ipc.h>.
const ipcRemove = 0

// ipcObject is one object and whose it is.
type ipcObject struct {
	id      uintptr
	creator identity
}

// removeIPC removes what is left of all kinds.
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
	return showToOwn() // threads have been other users
}

// remove removes an object as the user who made it: nobody else may, but who
// has a capability that this program has not.
func (k ipcKind) remove(o ipcObject) error {
	var err error
	onThreadThatEnds(func() {
		if err = become(o.creator); err != nil {
			return
		}
		if _, _, errno := unix.Syscall(k.call, o.id, k.second, k.third); errno != 0 {
			err = errno
		}
	})
	return err
}

// objects reads the kernel's list, whose columns have titles.
func (k ipcKind) objects() ([]ipcObject, error) {
	b, err := os.ReadFile(k.list)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // the kernel has none
	}
	if err != nil {
		return nil, fmt.Errorf("list what outlives processes: %w", err)
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
				return nil, fmt.Errorf("%s: unreadable line %q", k.list, line)
			}
			n, err := strconv.ParseUint(fields[column], 10, 32)
			if err != nil {
				return nil, fmt.Errorf("%s: unreadable line %q", k.list, line)
			}
			numbers[i] = int(n)
		}
		objects = append(objects, ipcObject{uintptr(numbers[0]), identity{uid: numbers[1], gid: numbers[2]}})
	}
	return objects, nil
}
