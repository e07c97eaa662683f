package main

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ptr returns the address of v for a system call.
func ptr[T any](v *T) uintptr { return uintptr(unsafe.Pointer(v)) }

func limitAttacks() []attack {
	limit := func(which int, value uint64) func(tenant) error {
		return func(tenant) error { return limitAll(which, value, value) }
	}
	write := func(name, value string) func(tenant) error {
		return func(tenant) error { return writeAll(name, value) }
	}
	return []attack{
		{Name: "limit-file-size", Text: "lower the file size limit of process 1 and of the shim's others", run: limit(unix.RLIMIT_FSIZE, 4096)},
		{Name: "limit-descriptors", Text: "lower the descriptor limit", run: limit(unix.RLIMIT_NOFILE, 40)},
		{Name: "limit-memory", Text: "lower the address space limit", run: limit(unix.RLIMIT_AS, 3<<30)},
		{Name: "limit-data", Text: "lower the limits of data, stack and locked memory", run: func(tenant) error {
			return anySucceeded(limitAll(unix.RLIMIT_DATA, 1<<30, 1<<30), limitAll(unix.RLIMIT_STACK, 1<<20, 1<<20), limitAll(unix.RLIMIT_MEMLOCK, 0, 0))
		}},
		{Name: "limit-processor", Text: "lower the CPU time limit of process 1", run: limit(unix.RLIMIT_CPU, 1)},
		{Name: "limit-processes", Text: "lower the process limit of process 1 and its children", run: limit(unix.RLIMIT_NPROC, 3)},
		{Name: "limit-queues", Text: "lower unused limits: a message of some bytes", run: func(tenant) error {
			return anySucceeded(limitAll(unix.RLIMIT_MSGQUEUE, 4711, 4711), limitAll(unix.RLIMIT_SIGPENDING, 815, 815), limitAll(unix.RLIMIT_LOCKS, 42, 42))
		}},
		{Name: "limit-soft", Text: "lower soft limits only", run: func(tenant) error {
			return anySucceeded(limitAll(unix.RLIMIT_NOFILE, 100, 0), limitAll(unix.RLIMIT_CORE, 0, 0), limitAll(unix.RLIMIT_STACK, 4<<20, 0))
		}},
		{Name: "oom-score", Text: "make the kernel end process 1 first when memory is short", run: write("oom_score_adj", "1000")},
		{Name: "core-filter", Text: "change what process 1 would put into a core dump", run: write("coredump_filter", "0x7f")},
		{Name: "timer-slack", Text: "make the timers of process 1 late", run: write("timerslack_ns", "500000000")},
		{Name: "autogroup", Text: "make the scheduling group of process 1 last", run: write("autogroup", "19")},
		{Name: "proc-files", Text: "write to every other file of process 1 in /proc", run: procFiles},
		{Name: "nice", Text: "make process 1 and its user's processes nice", run: nice},
		{Name: "scheduler", Text: "give process 1 another scheduling policy", run: scheduler},
		{Name: "affinity", Text: "keep process 1 to one processor", run: affinity},
		{Name: "io-priority", Text: "give process 1 the idle class of input and output", run: ioPriority},
		{Name: "core-scheduling", Text: "give process 1 a scheduling cookie, memory policy and memory advice", run: cookies},
	}
}

// limitAll sets a limit of every process of the shim. A hard limit of 0 leaves the
// hard limit unchanged.
func limitAll(which int, soft, hard uint64) error {
	var all []error
	for _, pid := range shimPIDs() {
		var old unix.Rlimit
		if err := unix.Prlimit(pid, which, nil, &old); err != nil {
			all = append(all, err)
			continue
		}
		next := unix.Rlimit{Cur: soft, Max: hard}
		if hard == 0 && soft != 0 {
			next.Max = old.Max
		}
		all = append(all, unix.Prlimit(pid, which, &next, nil))
	}
	return anySucceeded(all...)
}

func writeAll(name, value string) error {
	var all []error
	for _, pid := range shimPIDs() {
		all = append(all, writeProc(pid, name, value))
	}
	return anySucceeded(all...)
}

func writeProc(pid int, name, value string) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/%s", pid, name), []byte(value), 0)
}

func procFiles(t tenant) error {
	var all []error
	for name, value := range map[string]string{
		"comm": "hostile", "clear_refs": "5", "sched": "0", "setgroups": "deny", "uid_map": "0 0 1", "loginuid": "0", "mem": t.marker,
		"attr/exec": t.marker, "attr/current": t.marker, "oom_adj": "15", "timens_offsets": "monotonic 1 0", "make-it-fail": "1", "latency": "0",
		"projid_map": "0 0 1", "task/1/comm": "hostile", "net/anycast6": "x", "ksm_merging_pages": "1", "seccomp_cache": "x",
	} {
		all = append(all, writeProc(1, name, value))
	}
	return anySucceeded(all...)
}

func nice(tenant) error {
	var all []error
	for _, pid := range shimPIDs() {
		all = append(all, unix.Setpriority(unix.PRIO_PROCESS, pid, 15), unix.Setpriority(unix.PRIO_PGRP, pid, 15))
	}
	return anySucceeded(all...)
}

func scheduler(tenant) error {
	var all []error
	for _, pid := range shimPIDs() {
		for _, policy := range []uint32{unix.SCHED_BATCH, unix.SCHED_IDLE} {
			attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: policy, Nice: 10}
			all = append(all, unix.SchedSetAttr(pid, &attr, 0))
		}
	}
	return anySucceeded(all...)
}

func affinity(tenant) error {
	var all []error
	for _, pid := range shimPIDs() {
		var set unix.CPUSet
		set.Set(0)
		all = append(all, unix.SchedSetaffinity(pid, &set))
	}
	return anySucceeded(all...)
}

// ioIdle is the idle class of <linux/ioprio.h>.
const ioIdle = 3 << 13

func ioPriority(tenant) error {
	var all []error
	for _, pid := range shimPIDs() {
		_, _, errno := unix.Syscall(unix.SYS_IOPRIO_SET, 1, uintptr(pid), ioIdle)
		all = append(all, asError(errno))
	}
	_, _, errno := unix.Syscall(unix.SYS_IOPRIO_SET, 2, 1, ioIdle) // process 1's group
	return anySucceeded(append(all, asError(errno))...)
}

func asError(errno unix.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}

func cookies(tenant) error {
	const schedCore, create, share = 62, 1, 2
	all := []error{
		unix.Prctl(schedCore, create, 0, 0, 0),
		unix.Prctl(schedCore, share, 1, 1, 0),
	}
	mask := uint64(1)
	_, _, errno := unix.Syscall6(unix.SYS_MIGRATE_PAGES, 1, 64, ptr(&mask), ptr(&mask), 0, 0)
	all = append(all, asError(errno))
	if fd, err := unix.PidfdOpen(1, 0); err == nil {
		vec := unix.Iovec{}
		_, _, errno = unix.Syscall6(unix.SYS_PROCESS_MADVISE, uintptr(fd), ptr(&vec), 1, 21, 0, 0)
		all = append(all, asError(errno))
		stolen, err := unix.PidfdGetfd(fd, 0, 0)
		if err == nil {
			unix.Close(stolen)
		}
		all = append(all, err)
		unix.Close(fd)
	}
	return anySucceeded(all...)
}
