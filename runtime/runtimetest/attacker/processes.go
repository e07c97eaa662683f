package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

func processAttacks() []attack {
	startsChild := func(name string) func(tenant) error {
		return func(t tenant) error { return t.startChild(name) }
	}
	return []attack{
		{Name: "daemon", Text: "leave a process in a separate session that ignores SIGTERM", run: startsChild("hang")},
		{Name: "double-fork", Text: "leave the child of a child, adopted by process 1", run: startsChild("orphan")},
		{Name: "zombies", Text: "leave zombies: children without a wait", run: startsChild("zombies")},
		{Name: "dead-leader", Text: "leave a process whose first thread has ended", run: startsChild("dead-leader")},
		{Name: "stopped", Text: "leave stopped processes and a stopped process group", run: startsChild("stopped")},
		{Name: "traced", Text: "leave processes that trace one another, stopped in the trace", run: startsChild("traced")},
		{Name: "vfork", Text: "leave a parent that waits in the kernel for its vfork child", run: startsChild("vfork")},
		{Name: "posing", Text: "leave processes named as the shim's own are, in the shim's directory", run: posing},
		{Name: "kill-all", Text: "kill every process that can be killed", Parting: true, run: func(tenant) error { return signalOthers(unix.SIGKILL) }},
		{Name: "stop-all", Text: "stop every process that can be stopped", Parting: true, run: func(tenant) error { return signalOthers(unix.SIGSTOP) }},
		{Name: "segv-all", Text: "send every process the signals of program errors", Parting: true, run: func(tenant) error {
			return anySucceeded(signalOthers(unix.SIGSEGV), signalOthers(unix.SIGABRT), signalOthers(unix.SIGBUS))
		}},
		{Name: "signal-init", Text: "flood process 1 with the signals that it forwards", run: func(tenant) error { return signalInit(unix.SIGUSR1, unix.SIGUSR2, unix.SIGWINCH, unix.SIGHUP) }},
		{Name: "term-init", Text: "ask process 1 to exit with SIGTERM and SIGINT", Parting: true, run: func(tenant) error { return signalInit(unix.SIGTERM, unix.SIGINT) }},
		{Name: "quit-init", Text: "send process 1 the signals that end programs with a dump", Parting: true, run: func(tenant) error {
			return signalInit(unix.SIGQUIT, unix.SIGABRT, unix.SIGSEGV, unix.SIGILL, unix.SIGSYS, unix.SIGTRAP)
		}},
		{Name: "queue-init", Text: "queue thousands of realtime signals for process 1 and its threads", run: queueInit},
		{Name: "async-init", Text: "make process 1 the owner of descriptors that signal", run: startsChild("async")},
		{Name: "seize-all", Text: "trace every process that can be traced, process 1 too", run: startsChild("seize")},
		{Name: "core", Text: "end with a core dump in every directory, wherever the kernel would put it", run: coreDump},
	}
}

func processChildren() map[string]func(t tenant, ready func()) {
	return map[string]func(t tenant, ready func()){
		"orphan":      orphan,
		"zombies":     zombies,
		"dead-leader": deadLeader,
		"stopped":     stopped,
		"traced":      traced,
		"vfork":       vfork,
		"async":       async,
		"seize":       func(_ tenant, ready func()) { seizeOnce(); ready(); hang() },
	}
}

// self returns this program as a child, without a pipe to wait on.
func self(args ...string) *exec.Cmd {
	c := exec.Command("/proc/self/exe", args...)
	c.Args[0] = os.Args[0]
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return c
}

func orphan(t tenant, ready func()) {
	for range 5 {
		_ = self("child", "hang", t.marker).Start()
	}
	ready() // and exits: the children are process 1's
}

func zombies(t tenant, ready func()) {
	for range 30 {
		_ = self("exit", "0").Start()
	}
	ready()
	hang()
}

// deadLeader leaves a process that looks like a zombie and is running.
func deadLeader(_ tenant, ready func()) {
	go func() { hang() }() // ends with the process
	ready()
	goruntime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		_, _, _ = unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
	}
	hang()
}

func stopped(t tenant, ready func()) {
	for range 3 {
		c := self("child", "hang", t.marker)
		if c.Start() == nil {
			_ = unix.Kill(c.Process.Pid, unix.SIGSTOP)
		}
	}
	ready()
	_ = unix.Kill(0, unix.SIGSTOP)
	hang()
}

func traced(t tenant, ready func()) {
	goruntime.LockOSThread()
	for range 3 {
		c := self("child", "hang", t.marker)
		if c.Start() == nil {
			_ = unix.PtraceSeize(c.Process.Pid)
			_ = unix.PtraceInterrupt(c.Process.Pid)
		}
	}
	ready()
	hang()
}

// vfork leaves a parent that blocks until its child execs, which it never does.
func vfork(_ tenant, ready func()) {
	ready()
	goruntime.LockOSThread()
	// The child shares this stack: it only waits in the kernel.
	pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, unix.CLONE_VFORK|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno == 0 && pid == 0 {
		for {
			_, _, _ = unix.RawSyscall(unix.SYS_PAUSE, 0, 0, 0)
		}
	}
	hang()
}

func posing(t tenant) error {
	var all []error
	for _, name := range []string{"/.hostler/bin/shim", "[kworker/0:1]", "init"} {
		for _, word := range []string{"connect", "worker", "tar"} {
			c := exec.Command("/proc/self/exe", word)
			// Not with the shim's own name, or it would relay.
			c.Args = []string{name + " ", word, t.marker}
			c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			c.Args = []string{name + "\x00"[:0], "child", "hang"}
			if filepath.Base(name) == "shim" {
				c.Args[0] = name + " " + word
			}
			all = append(all, c.Start())
		}
	}
	return anySucceeded(append(all, t.startChild("hang"))...)
}

// otherPIDs returns all processes except process 1 and this one.
func otherPIDs() []int {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	var all []int
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err == nil && pid > 1 && pid != os.Getpid() {
			all = append(all, pid)
		}
	}
	return all
}

// shimPIDs returns the processes of the shim, including process 1.
func shimPIDs() []int {
	var all []int
	for _, pid := range append(otherPIDs(), 1) {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && strings.Contains(string(b), "shim") {
			all = append(all, pid)
		}
	}
	return all
}

func signalOthers(sig syscall.Signal) error {
	all := []error{errors.New("no other process can be signalled")}
	for _, pid := range otherPIDs() {
		all = append(all, unix.Kill(pid, sig))
	}
	return anySucceeded(all...)
}

func signalInit(signals ...syscall.Signal) error {
	var all []error
	for range 200 {
		for _, sig := range signals {
			all = append(all, unix.Kill(1, sig))
		}
	}
	return anySucceeded(all...)
}

func queueInit(tenant) error {
	var all []error
	for i := range 3000 {
		info := [32]int32{int32(34 + i%30), 0, -1} // SI_QUEUE
		sig := uintptr(34 + i%30)
		if _, _, errno := unix.Syscall(unix.SYS_RT_SIGQUEUEINFO, 1, sig, ptr(&info)); errno != 0 {
			all = append(all, errno)
			break
		}
		all = append(all, nil)
	}
	return anySucceeded(all...)
}

// async holds descriptors whose events are signals to process 1.
func async(_ tenant, ready func()) {
	r, w, err := os.Pipe()
	if err != nil {
		return
	}
	for _, f := range []*os.File{r, w} {
		_, _ = unix.FcntlInt(f.Fd(), unix.F_SETOWN, 1)
		_, _ = unix.FcntlInt(f.Fd(), unix.F_SETSIG, 10)
		_, _ = unix.FcntlInt(f.Fd(), unix.F_SETFL, unix.O_ASYNC|unix.O_NONBLOCK)
	}
	ready()
	loop(func() { _, _ = w.Write([]byte{0}); _, _ = r.Read(make([]byte, 1)) })
}

func seizeOnce() {
	goruntime.LockOSThread()
	for _, pid := range append(shimPIDs(), otherPIDs()...) {
		if pid != os.Getppid() {
			_ = unix.PtraceSeize(pid)
			_ = unix.PtraceInterrupt(pid)
		}
	}
}

func coreDump(t tenant) error {
	c := self("child", "hang", t.marker)
	c.Dir = imageConf
	if err := c.Start(); err != nil {
		return err
	}
	limit := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	_ = unix.Prlimit(c.Process.Pid, unix.RLIMIT_CORE, &limit, nil)
	err := unix.Kill(c.Process.Pid, unix.SIGQUIT)
	_ = c.Wait()
	return err
}
