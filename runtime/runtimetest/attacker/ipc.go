package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

func ipcAttacks() []attack {
	return []attack{
		{Name: "shared-memory", Text: "leave System V shared memory with a message in it", run: sharedMemory},
		{Name: "message-queue", Text: "leave a System V message queue with a message", run: messageQueue},
		{Name: "semaphores", Text: "leave System V semaphores whose values are the message", run: semaphores},
		{Name: "ipc-foreign", Text: "leave System V objects that belong to another user and are closed to all", run: ipcForeign},
		{Name: "ipc-destroyed", Text: "leave shared memory that is destroyed and attached", run: func(t tenant) error { return t.startChild("attached") }},
		{Name: "posix-queue", Text: "leave a POSIX message queue with a message", run: posixQueue, seen: seenQueue},
		{Name: "posix-queue-closed", Text: "leave POSIX message queues closed to every user", run: func(t tenant) error {
			_, err := queueOpen(99)
			return anySucceeded(err, os.Chmod("/dev/mqueue/attacker99", 0))
		}, seen: seenQueue},
		{Name: "abstract-socket", Text: "listen on abstract sockets, the main process's name among them", run: func(t tenant) error { return t.startChild("abstract") }, seen: seenAbstract},
		{Name: "abstract-datagrams", Text: "leave datagrams in the queue of an abstract socket", run: func(t tenant) error { return t.startChild("datagrams") }, seen: seenAbstract},
		{Name: "keyrings", Text: "leave keys in every keyring", run: keyrings, seen: seenKeys},
		{Name: "semaphore-undo", Text: "leave semaphores that change when a process ends", run: func(t tenant) error { return t.startChild("undo") }},
	}
}

const ipcKey = 0x5ec2e7

func sharedMemory(t tenant) error {
	id, err := unix.SysvShmGet(ipcKey, 4096, unix.IPC_CREAT|0o666)
	if err != nil {
		return err
	}
	m, err := unix.SysvShmAttach(id, 0, 0)
	if err != nil {
		return err
	}
	copy(m, t.marker)
	return unix.SysvShmDetach(m)
}

func msgGet(key int) error {
	_, _, errno := unix.Syscall(unix.SYS_MSGGET, uintptr(key), unix.IPC_CREAT|0o666, 0)
	return asError(errno)
}

func semGet(key int) error {
	_, _, errno := unix.Syscall(unix.SYS_SEMGET, uintptr(key), 4, unix.IPC_CREAT|0o666)
	return asError(errno)
}

func messageQueue(t tenant) error {
	id, _, errno := unix.Syscall(unix.SYS_MSGGET, ipcKey, unix.IPC_CREAT|0o666, 0)
	if errno != 0 {
		return errno
	}
	message := struct {
		kind int64
		text [64]byte
	}{kind: 1}
	copy(message.text[:], t.marker)
	_, _, errno = unix.Syscall6(unix.SYS_MSGSND, id, ptr(&message), 64, unix.IPC_NOWAIT, 0, 0)
	return asError(errno)
}

func semaphores(tenant) error {
	id, _, errno := unix.Syscall(unix.SYS_SEMGET, ipcKey, 4, unix.IPC_CREAT|0o666)
	if errno != 0 {
		return errno
	}
	_, _, errno = unix.Syscall6(unix.SYS_SEMCTL, id, 0, 16 /* SETVAL */, 4711, 0, 0)
	return asError(errno)
}

// ipcForeign gives objects to another user: only that user, or their creator, can
// remove them.
func ipcForeign(tenant) error {
	id, err := unix.SysvShmGet(ipcKey+1, 4096, unix.IPC_CREAT|0o600)
	if err != nil {
		return err
	}
	var desc unix.SysvShmDesc
	if _, err := unix.SysvShmCtl(id, unix.IPC_STAT, &desc); err != nil {
		return err
	}
	desc.Perm.Uid, desc.Perm.Gid, desc.Perm.Mode = 4242, 4242, 0
	_, err = unix.SysvShmCtl(id, unix.IPC_SET, &desc)
	return err
}

func attached(_ tenant, ready func()) {
	id, err := unix.SysvShmGet(unix.IPC_PRIVATE, 4096, 0o600)
	if err == nil {
		_, err = unix.SysvShmAttach(id, 0, 0)
		_, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
	}
	if err != nil {
		return
	}
	ready()
	hang()
}

func undo(_ tenant, ready func()) {
	id, _, errno := unix.Syscall(unix.SYS_SEMGET, ipcKey+2, 1, unix.IPC_CREAT|0o666)
	op := struct {
		num   uint16
		op    int16
		flags int16
	}{0, 5, 0x1000 /* SEM_UNDO */}
	_, _, _ = unix.Syscall(unix.SYS_SEMOP, id, ptr(&op), 1)
	if errno != 0 {
		return
	}
	ready()
	hang()
}

// queueOpen creates a POSIX message queue with a number in its name.
func queueOpen(number int) (int, error) {
	name, err := unix.BytePtrFromString(fmt.Sprintf("attacker%d", number))
	if err != nil {
		return -1, err
	}
	fd, _, errno := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(name)), unix.O_CREAT|unix.O_RDWR|unix.O_NONBLOCK, 0o666, 0, 0, 0)
	return int(fd), asError(errno)
}

func posixQueue(t tenant) error {
	fd, err := queueOpen(1)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	b := []byte(t.marker)
	_, _, errno := unix.Syscall6(unix.SYS_MQ_TIMEDSEND, uintptr(fd), ptr(&b[0]), uintptr(len(b)), 1, 0, 0)
	return asError(errno)
}

func seenQueue(tenant) []string {
	var seen []string
	for _, number := range []int{1, 99} {
		name, _ := unix.BytePtrFromString(fmt.Sprintf("attacker%d", number))
		_, _, errno := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(name)), unix.O_RDONLY, 0, 0, 0, 0)
		if errno == 0 || errno == unix.EACCES {
			seen = append(seen, fmt.Sprintf("message queue %d is there", number))
		}
	}
	return seen
}

const abstractName = "@attacker-left"

func abstract(_ tenant, ready func()) {
	if _, err := net.Listen("unix", abstractName); err != nil {
		return
	}
	ready()
	// The main process's own name, as soon as it is free.
	loop(func() {
		if l, err := net.Listen("unix", mainAddress); err == nil {
			_, _ = l.Accept()
		}
	})
}

func datagrams(t tenant, ready func()) {
	l, err := net.ListenPacket("unixgram", abstractName)
	if err != nil {
		return
	}
	_, _ = l.WriteTo([]byte(t.marker), &net.UnixAddr{Name: abstractName, Net: "unixgram"})
	ready()
	hang()
}

func seenAbstract(tenant) []string {
	var seen []string
	for _, kind := range []string{"unix", "unixgram"} {
		c, err := net.Dial(kind, abstractName)
		if err == nil {
			c.Close()
			seen = append(seen, "a process listens on "+abstractName)
		}
	}
	return seen
}

func keyrings(t tenant) error {
	var all []error
	for _, ring := range []int{unix.KEY_SPEC_SESSION_KEYRING, unix.KEY_SPEC_USER_SESSION_KEYRING, unix.KEY_SPEC_USER_KEYRING, unix.KEY_SPEC_PROCESS_KEYRING} {
		_, err := unix.AddKey("user", "attacker", []byte(t.marker), ring)
		all = append(all, err)
	}
	return anySucceeded(all...)
}

func seenKeys(t tenant) []string {
	var seen []string
	for _, ring := range []int{unix.KEY_SPEC_SESSION_KEYRING, unix.KEY_SPEC_USER_SESSION_KEYRING, unix.KEY_SPEC_USER_KEYRING} {
		id, err := unix.KeyctlSearch(ring, "user", "attacker", 0)
		if err != nil {
			continue
		}
		buf := make([]byte, 256)
		n, err := unix.KeyctlBuffer(unix.KEYCTL_READ, id, buf, 0)
		if err == nil && strings.Contains(string(buf[:n]), t.marker) {
			seen = append(seen, "a key with the marker")
		}
	}
	if b, err := os.ReadFile("/proc/keys"); err == nil && strings.Contains(string(b), "attacker") {
		seen = append(seen, "/proc/keys names a key of the attacker")
	}
	return seen
}

var errNothing = errors.New("nothing could be done")
