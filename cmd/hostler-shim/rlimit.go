package main

import (
	"time"

	"github.com/hostler/hostler/runtime"
	"golang.org/x/sys/unix"
)

// rlimit is a limit of a process in the kernel.
type rlimit struct {
	name       string
	resource   int
	soft, hard uint64
}

// rlimits returns the limits that the kernel enforces, none for no limit. The
// CPU time has a second more for programs that ignore SIGXCPU. A process that
// exceeds a limit leaves no core file.
func rlimits(l runtime.ProcessLimits) []rlimit {
	var all []rlimit
	if l.CPUTime > 0 {
		seconds := uint64((l.CPUTime + time.Second - 1) / time.Second)
		all = append(all, rlimit{"CPU time", unix.RLIMIT_CPU, seconds, seconds + 1})
	}
	if l.Memory > 0 {
		all = append(all, rlimit{"memory", unix.RLIMIT_AS, uint64(l.Memory), uint64(l.Memory)})
	}
	if l.FileSize > 0 {
		all = append(all, rlimit{"file size", unix.RLIMIT_FSIZE, uint64(l.FileSize), uint64(l.FileSize)})
	}
	if len(all) > 0 {
		all = append(all, rlimit{"core", unix.RLIMIT_CORE, 0, 0})
	}
	return all
}

// setRlimits limits this process, and the program that it becomes. It raises no
// limit that the process already has. The limit of memory must not be set before
// everything else is done.
func setRlimits(all []rlimit) error {
	for _, l := range all {
		var now unix.Rlimit
		err := unix.Getrlimit(l.resource, &now)
		if err == nil {
			want := unix.Rlimit{Cur: min(l.soft, now.Max), Max: min(l.hard, now.Max)}
			err = unix.Prlimit(0, l.resource, &want, nil)
		}
		if err != nil {
			return startErrorf("limit the %s: %s", l.name, err)
		}
	}
	return nil
}
