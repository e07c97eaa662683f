package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ipcKind is one kind of System V objects. They outlive the process that made
// them.
type ipcKind struct {
	list   string // where the kernel lists them
	call   uintptr
	second uintptr // the call's second argument
	third  uintptr
}

var ipcKinds = []ipcKind{
	{"/proc/sysvipc/shm", unix.SYS_SHMCTL, ipcRemove, 0},
	{"/proc/sysvipc/msg", unix.SYS_MSGCTL, ipcRemove, 0},
	{"/proc/sysvipc/sem", unix.SYS_SEMCTL, 0, ipcRemove},
}

// ipcRemove is IPC_RMID of <linux/ipc.h>.
const ipcRemove = 0

// removeIPC removes what is left of all kinds.
func removeIPC() error {
	for _, kind := range ipcKinds {
		ids, err := kind.ids()
		if err != nil {
			return err
		}
		for _, id := range ids {
			if _, _, errno := unix.Syscall(kind.call, id, kind.second, kind.third); errno != 0 {
				return fmt.Errorf("remove %s %d: %w", kind.list, id, errno)
			}
		}
	}
	return nil
}

// ids reads the second column of the list, below its title.
func (k ipcKind) ids() ([]uintptr, error) {
	b, err := os.ReadFile(k.list)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // the kernel has none
	}
	if err != nil {
		return nil, fmt.Errorf("list what outlives processes: %w", err)
	}
	var ids []uintptr
	for i, line := range strings.Split(strings.TrimSpace(string(b)), "\n") {
		fields := strings.Fields(line)
		if i == 0 || len(fields) < 2 {
			continue
		}
		id, err := strconv.ParseUint(fields[1], 10, 32)
		if err != nil {
			return nil, fmt.Errorf("list what outlives processes: %w", err)
		}
		ids = append(ids, uintptr(id))
	}
	return ids, nil
}
