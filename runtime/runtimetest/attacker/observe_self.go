package main

import (
	"fmt"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

func ptrTo[T any](v *T) unsafe.Pointer { return unsafe.Pointer(v) }

// self records what this process has inherited.
func (l *observer) self() {
	for i, entry := range environment() {
		l.fact(fmt.Sprintf("environment %d", i), "%s", entry)
	}
	dir, _ := os.Getwd()
	l.fact("workdir", "%s", dir)
	for _, who := range []string{"self", "1"} {
		l.process(who)
	}
	l.priorities("self", 0)
	l.priorities("1", 1)
	for fd := range 3 {
		l.descriptor(fd)
	}
	old := unix.Umask(0o22)
	unix.Umask(old)
	l.fact("umask", "%o", old)
	dumpable, _ := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	slack, _ := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	thp, _ := unix.PrctlRetInt(unix.PR_GET_THP_DISABLE, 0, 0, 0, 0)
	reaper := int32(0)
	_ = unix.Prctl(unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(&reaper)), 0, 0, 0)
	persona, _, _ := unix.Syscall(unix.SYS_PERSONALITY, 0xffffffff, 0, 0)
	l.fact("process controls", "dumpable %d slack %d thp %d reaper %d personality %#x", dumpable, slack, thp, reaper, persona)
	var timer [4]int64
	for which := range 3 {
		_, _, _ = unix.Syscall(unix.SYS_GETITIMER, uintptr(which), ptr(&timer), 0)
		l.fact(fmt.Sprintf("timer %d", which), "%v", timer)
	}
}

// blocksAll is what a Go program shows while it starts a thread.
const blocksAll = "fffffffffffbfeff"

// process records what /proc contains about a process.
func (l *observer) process(who string) {
	dir := "/proc/" + who + "/"
	for _, name := range []string{
		"limits", "oom_score_adj", "oom_adj", "coredump_filter", "cgroup", "loginuid", "sessionid", "setgroups", "uid_map", "gid_map",
		"personality", "timens_offsets", "attr/current",
	} {
		l.content(dir + name)
	}
	if b, err := os.ReadFile(dir + "autogroup"); err == nil {
		_, nice, _ := strings.Cut(string(b), " ")
		l.fact(dir+"autogroup", "%s", strings.TrimSpace(nice))
	}
	status, err := os.ReadFile(dir + "status")
	for tries := 0; err == nil && field(status, "SigBlk") == blocksAll && tries < 50; tries++ {
		status, err = os.ReadFile(dir + "status")
	}
	if err != nil {
		return
	}
	for _, name := range []string{
		"Uid", "Gid", "Groups", "NStgid", "SigBlk", "SigIgn", "ShdPnd", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs",
		"Seccomp", "Seccomp_filters", "Cpus_allowed", "Mems_allowed_list", "CoreDumping", "THP_enabled", "Umask", "TracerPid",
	} {
		if name == "NStgid" || who == "self" && name == "ShdPnd" {
			continue
		}
		l.fact(dir+"status "+name, "%s", field(status, name))
	}
}

func (l *observer) priorities(name string, pid int) {
	nice, err := unix.Getpriority(unix.PRIO_PROCESS, pid)
	l.fact("nice "+name, "%d %v", nice, err)
	if attr, err := unix.SchedGetAttr(pid, 0); err == nil {
		l.fact("scheduler "+name, "policy %d nice %d flags %d", attr.Policy, attr.Nice, attr.Flags)
	}
	io, _, _ := unix.Syscall(unix.SYS_IOPRIO_GET, 1, uintptr(pid), 0)
	l.fact("io priority "+name, "%d", io)
	for which := range 16 {
		var limit unix.Rlimit
		if unix.Prlimit(pid, which, nil, &limit) == nil {
			l.fact(fmt.Sprintf("limit %d of %s", which, name), "%d %d", limit.Cur, limit.Max)
		}
	}
}

// descriptor records a descriptor that this process has inherited.
func (l *observer) descriptor(fd int) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		l.fact(fmt.Sprintf("descriptor %d", fd), "%v", err)
		return
	}
	flags, _ := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	size, _ := unix.FcntlInt(uintptr(fd), unix.F_GETPIPE_SZ, 0)
	pid, _ := unix.FcntlInt(uintptr(fd), unix.F_GETOWN, 0)
	sig, _ := unix.FcntlInt(uintptr(fd), unix.F_GETSIG, 0)
	l.fact(fmt.Sprintf("descriptor %d", fd), "mode %o owner %d:%d flags %#o size %d signals %d %d", st.Mode, st.Uid, st.Gid, flags, size, pid, sig)
	l.fact(fmt.Sprintf("mtime of descriptor %d", fd), "%d.%09d", st.Mtim.Sec, st.Mtim.Nsec)
}
