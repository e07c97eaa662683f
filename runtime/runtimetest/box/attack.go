package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// Constants that package syscall does not have.
const (
	ptraceSeize    = 0x4206
	schedBatch     = 3
	fSetSig        = 10 // F_SETSIG
	lowestPriority = 19 // of nice values
)

// rawSyscall is a system call that needs no result.
func rawSyscall(number uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	if _, _, errno := syscall.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5]); errno != 0 {
		return errno
	}
	return nil
}

func rename(args []string) error { return os.Rename(args[0], args[1]) }

func makeFIFO(args []string) error { return syscall.Mkfifo(args[0], 0o666) }

// connect opens a socket, by its path or by an abstract name, and leaves it.
func connect(args []string) error {
	c, err := net.Dial("unix", args[0])
	if err != nil {
		return err
	}
	return c.Close()
}

// flood opens N connections and keeps them open, and replaces those that the other
// end closes.
func flood(args []string) error {
	count, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	all := make([]net.Conn, count)
	for n := 0; ; n = (n + 1) % count {
		if all[n] != nil {
			all[n].Close()
		}
		if all[n], err = net.Dial("unix", args[0]); err != nil {
			return err
		}
		if n == count-1 {
			fmt.Println("flooded")
			<-time.After(100 * time.Millisecond)
		}
	}
}

// listen binds an address, and leaves it.
func listen(args []string) error {
	l, err := net.Listen("unix", args[0])
	if err != nil {
		return err
	}
	return l.Close()
}

// attacks are what one process may do to another. Each returns an error if it is
// not permitted.
func attacks() map[string]func(pid int) error {
	all := map[string]func(pid int) error{
		"stop":     func(pid int) error { return syscall.Kill(pid, syscall.SIGSTOP) },
		"kill":     func(pid int) error { return syscall.Kill(pid, syscall.SIGKILL) },
		"trace":    func(pid int) error { return rawSyscall(syscall.SYS_PTRACE, ptraceSeize, uintptr(pid)) },
		"limit":    limitFileSize,
		"nice":     func(pid int) error { return syscall.Setpriority(syscall.PRIO_PROCESS, pid, lowestPriority) },
		"affinity": setAffinity,
		"io":       setIOPriority,
		"schedule": setBatchScheduling,
		"by file":  func(pid int) error { return signalByFile(pid, syscall.SIGKILL) },
		"directory": func(pid int) error {
			_, err := os.ReadDir(fmt.Sprintf("/proc/%d/cwd", pid))
			return err
		},
	}
	for _, name := range []string{"environ", "mem", "auxv", "maps", "io", "stack", "syscall", "fd/0", "fd/1", "exe"} {
		all["read "+name] = func(pid int) error { return readProcFile(pid, name) }
	}
	for name, value := range map[string]string{
		"oom_score_adj": "1000", "coredump_filter": "0", "autogroup": "19", "timerslack_ns": "1000000", "clear_refs": "1",
		"sched": "0", "comm": "evil", "mem": "x", "oom_adj": "15",
	} {
		all["write "+name] = func(pid int) error { return writeProcFile(pid, name, value) }
	}
	return all
}

// attack runs one of them, or all, and prints those that were permitted.
func attack(args []string) error {
	pid, err := resolvePID(args[0])
	if err != nil {
		return err
	}
	names := args[1:]
	if len(names) == 0 {
		for name := range attacks() {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	for _, name := range names {
		if attacks()[name](pid) == nil {
			fmt.Println(name)
		}
	}
	return nil
}

func limitFileSize(pid int) error {
	var now syscall.Rlimit
	at := uintptr(unsafe.Pointer(&now))
	if err := rawSyscall(syscall.SYS_PRLIMIT64, uintptr(pid), syscall.RLIMIT_FSIZE, 0, at); err != nil {
		return err
	}
	return rawSyscall(syscall.SYS_PRLIMIT64, uintptr(pid), syscall.RLIMIT_FSIZE, at, 0)
}

func setAffinity(pid int) error {
	set := uint64(1)
	return rawSyscall(syscall.SYS_SCHED_SETAFFINITY, uintptr(pid), unsafe.Sizeof(set), uintptr(unsafe.Pointer(&set)))
}

func setBatchScheduling(pid int) error {
	priority := int32(0)
	return rawSyscall(syscall.SYS_SCHED_SETSCHEDULER, uintptr(pid), schedBatch, uintptr(unsafe.Pointer(&priority)))
}

// setIOPriority is ioprio_set(IOPRIO_WHO_PROCESS, pid, lowest of best effort).
func setIOPriority(pid int) error {
	return rawSyscall(syscall.SYS_IOPRIO_SET, 1, uintptr(pid), 2<<13|7)
}

// signalByFile has the kernel send a signal, in the name of the process that
// requested it: when a pipe becomes readable.
func signalByFile(pid int, sig syscall.Signal) error {
	alive := func() bool { return syscall.Kill(pid, 0) != syscall.ESRCH }
	if pid == 1 || !alive() {
		return syscall.ESRCH // process 1 is spared by the kernel
	}
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	for _, set := range [][2]int{{fSetSig, int(sig)}, {syscall.F_SETOWN, pid}, {syscall.F_SETFL, syscall.O_ASYNC}} {
		if err := rawSyscall(syscall.SYS_FCNTL, uintptr(fds[0]), uintptr(set[0]), uintptr(set[1])); err != nil {
			return err
		}
	}
	if _, err := syscall.Write(fds[1], []byte{0}); err != nil {
		return err
	}
	for range 1000 { // the signal is sent by now; its process exits soon
		p, err := readProc(pid)
		if err != nil || p.state == "Z" {
			return nil
		}
		<-time.After(time.Millisecond)
	}
	return syscall.EPERM
}

func readProcFile(pid int, name string) error {
	f, err := os.Open(fmt.Sprintf("/proc/%d/%s", pid, name))
	if err != nil {
		return err
	}
	defer f.Close()
	if name == "mem" || strings.HasPrefix(name, "fd/") || name == "exe" {
		return nil // that it opens is enough
	}
	n, err := f.Read(make([]byte, 1))
	if n == 0 && errors.Is(err, io.EOF) {
		return syscall.ENODATA
	}
	return err
}

func writeProcFile(pid int, name, value string) error {
	f, err := os.OpenFile("/proc/"+strconv.Itoa(pid)+"/"+name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(value)
	return err
}
