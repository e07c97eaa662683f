package main

import (
	"errors"
	goruntime "runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A process may have a file send a signal to any other process when there is
// something to read, and may choose the signal: fcntl(2), F_SETOWN and
// F_SETSIG. For user 0 the kernel does so without checking whether the process
// may signal the other one, whatever its capabilities. That could stop or kill
// a process of this program. So a workload's processes may choose only signals
// that do this program no harm: SIGIO, which is the default, and those from
// minFreeSignal on, which have no other use.
const (
	fSetSig       = 10 // F_SETSIG
	minFreeSignal = 34 // SIGRTMIN
)

// filteredCalls are the numbers of fcntl and fcntl64 by the kernel's
// architecture. Architectures with two numbers are those of 32-bit programs on
// a 64-bit kernel.
var filteredCalls = []struct {
	arch    uint32
	mask    uint32 // the bits that distinguish calls
	numbers []uint32
}{
	{unix.AUDIT_ARCH_X86_64, ^uint32(1 << 30), []uint32{72}}, // with x32
	{unix.AUDIT_ARCH_I386, ^uint32(0), []uint32{55, 221}},
	{unix.AUDIT_ARCH_AARCH64, ^uint32(0), []uint32{25}},
	{unix.AUDIT_ARCH_ARM, ^uint32(0), []uint32{55, 221}},
}

// Offsets in struct seccomp_data. Of an argument they select the lower half on
// a little-endian machine, which is all that fcntl reads of these arguments.
const (
	dataNumber = 0
	dataArch   = 4
	dataSecond = 16 + 8
	dataThird  = 16 + 2*8
)

// signalFilter returns a seccomp program, see seccomp(2).
func signalFilter() []unix.SockFilter {
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	jump := func(test uint16, k uint32, yes, no int) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | test | unix.BPF_K, K: k, Jt: uint8(yes), Jf: uint8(no)}
	}
	ret := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }
	check := []unix.SockFilter{
		load(dataSecond),
		jump(unix.BPF_JEQ, fSetSig, 0, 4),
		load(dataThird),
		jump(unix.BPF_JEQ, 0, 2, 0),
		jump(unix.BPF_JEQ, uint32(unix.SIGIO), 1, 0),
		jump(unix.BPF_JGE, minFreeSignal, 0, 1),
		ret(unix.SECCOMP_RET_ALLOW),
		ret(unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)),
	}
	program := []unix.SockFilter{load(dataArch)}
	for _, c := range filteredCalls {
		n := len(c.numbers)
		// Skip this architecture's block: load, mask, one test per number, one
		// return, and check.
		program = append(program, jump(unix.BPF_JEQ, c.arch, 0, 2+n+1+len(check)),
			load(dataNumber),
			unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: c.mask})
		for i, number := range c.numbers {
			program = append(program, jump(unix.BPF_JEQ, number, n-i, 0))
		}
		program = append(append(program, ret(unix.SECCOMP_RET_ALLOW)), check...)
	}
	return append(program, ret(unix.SECCOMP_RET_ALLOW))
}

// installSignalFilter installs the filter for the calling thread and everything
// that it starts. It requires no_new_privs. A kernel without seccomp filters
// does not support the engine's filters either.
func installSignalFilter() error {
	filter := signalFilter()
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER,
		uintptr(unsafe.Pointer(&program)))
	goruntime.KeepAlive(filter)
	if errno == 0 || errors.Is(errno, unix.EINVAL) {
		return nil
	}
	return errno
}
