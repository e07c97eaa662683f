package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"sort"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

func rename(args []string) error { return os.Rename(args[0], args[1]) }

func makeFIFO(args []string) error { return unix.Mkfifo(args[0], 0o666) }

// connect opens a socket, by its path or by an abstract name, and leaves it.
func connect(args []string) error {
	c, err := net.Dial("unix", args[0])
	if err != nil {
		return err
	}
	return c.Close()
}

// attacks are what one process may do to another. Each has an error when it is
// not allowed to.
func attacks() map[string]func(pid int) error {
	all := map[string]func(pid int) error{
		"stop":     func(pid int) error { return syscall.Kill(pid, syscall.SIGSTOP) },
		"kill":     func(pid int) error { return syscall.Kill(pid, syscall.SIGKILL) },
		"trace":    func(pid int) error { return unix.PtraceSeize(pid) },
		"limit":    limitFileSize,
		"nice":     func(pid int) error { return unix.Setpriority(unix.PRIO_PROCESS, pid, 19) },
		"affinity": setAffinity,
		"io":       setIOPriority,
		"schedule": setIdle,
		"by file":  func(pid int) error { return signalByFile(pid, syscall.SIGKILL) },
		"directory": func(pid int) error {
			_, err := os.ReadDir(fmt.Sprintf("/proc/%d/cwd", pid))
			return err
		},
	}
	for _, name := range []string{"environ", "mem", "auxv", "maps", "io", "stack", "syscall", "fd/0", "fd/1", "exe"} {
		all["read "+name] = func(pid int) error { return readOf(pid, name) }
	}
	for name, value := range map[string]string{
		"oom_score_adj": "1000", "coredump_filter": "0", "autogroup": "19", "timerslack_ns": "1000000", "clear_refs": "1",
		"sched": "0", "comm": "evil", "mem": "x", "oom_adj": "15",
	} {
		all["write "+name] = func(pid int) error { return writeTo(pid, name, value) }
	}
	return all
}

// attack does one of them, or all, and prints those that were allowed.
func attack(args []string) error {
	pid, err := who(args[0])
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
	var now unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, nil, &now); err != nil {
		return err
	}
	return unix.Prlimit(pid, unix.RLIMIT_FSIZE, &now, nil)
}

func setAffinity(pid int) error {
	var now unix.CPUSet
	if err := unix.SchedGetaffinity(0, &now); err != nil {
		return err
	}
	return unix.SchedSetaffinity(pid, &now)
}

func setIdle(pid int) error {
	return unix.SchedSetAttr(pid, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_BATCH, Nice: 19}, 0)
}

// setIOPriority is ioprio_set(IOPRIO_WHO_PROCESS, pid, lowest of best effort).
func setIOPriority(pid int) error {
	_, _, errno := unix.Syscall(unix.SYS_IOPRIO_SET, 1, uintptr(pid), 2<<13|7)
	if errno != 0 {
		return errno
	}
	return nil
}

// signalByFile has the kernel send a signal, which it does in the name of the
// one who asked for it: when there is something to be read from a pipe.
func signalByFile(pid int, sig syscall.Signal) error {
	alive := func() bool { return syscall.Kill(pid, 0) != unix.ESRCH }
	if pid == 1 || !alive() {
		return unix.ESRCH // process 1 is spared by the kernel
	}
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	for _, set := range [][2]int{{unix.F_SETSIG, int(sig)}, {unix.F_SETOWN, pid}, {unix.F_SETFL, unix.O_ASYNC}} {
		if _, err := unix.FcntlInt(uintptr(fds[0]), set[0], set[1]); err != nil {
			return err
		}
	}
	if _, err := syscall.Write(fds[1], []byte{0}); err != nil {
		return err
	}
	for range 1000 { // the signal is sent by now; its process dies soon
		p, err := readProc(pid)
		if err != nil || p.state == "Z" {
			return nil
		}
		unix.Nanosleep(&unix.Timespec{Nsec: 1e6}, nil) //nolint:errcheck // a pause
	}
	return unix.EPERM
}

func readOf(pid int, name string) error {
	f, err := os.Open(fmt.Sprintf("/proc/%d/%s", pid, name))
	if err != nil {
		return err
	}
	defer f.Close()
	if name == "mem" || strings.HasPrefix(name, "fd/") || name == "exe" {
		return nil // that it opens is enough
	}
	n, err := f.Read(make([]byte, 1))
	if n == 0 && err == io.EOF {
		return unix.ENODATA
	}
	return err
}

func writeTo(pid int, name, value string) error {
	f, err := os.OpenFile("/proc/"+strconv.Itoa(pid)+"/"+name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(value)
	return err
}
