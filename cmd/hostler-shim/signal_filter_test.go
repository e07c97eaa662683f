package main

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A file may send SIGIO and signals that have no other use, and no signal that
// ends or stops a program. Every other call is allowed.
func TestSignalFilter(t *testing.T) {
	t.Parallel()
	const other = 1031 // F_SETPIPE_SZ
	cases := []struct {
		name         string
		arch, number uint32
		command, arg uint64
		refused      bool
	}{
		{"kill", unix.AUDIT_ARCH_X86_64, 72, fSetSig, 9, true},
		{"stop", unix.AUDIT_ARCH_X86_64, 72, fSetSig, 19, true},
		{"abort", unix.AUDIT_ARCH_X86_64, 72, fSetSig, 6, true},
		{"last standard signal", unix.AUDIT_ARCH_X86_64, 72, fSetSig, 33, true},
		{"upper half ignored", unix.AUDIT_ARCH_X86_64, 72, fSetSig, 1<<40 | 9, true},
		{"x32", unix.AUDIT_ARCH_X86_64, 72 | 1<<30, fSetSig, 9, true},
		{"32 bits", unix.AUDIT_ARCH_I386, 55, fSetSig, 9, true},
		{"32 bits, 64", unix.AUDIT_ARCH_I386, 221, fSetSig, 9, true},
		{"arm64", unix.AUDIT_ARCH_AARCH64, 25, fSetSig, 9, true},
		{"arm", unix.AUDIT_ARCH_ARM, 55, fSetSig, 9, true},
		{"arm, 64", unix.AUDIT_ARCH_ARM, 221, fSetSig, 9, true},
		{"default", unix.AUDIT_ARCH_X86_64, 72, fSetSig, 0, false},
		{"SIGIO", unix.AUDIT_ARCH_X86_64, 72, fSetSig, 29, false},
		{"real-time signal", unix.AUDIT_ARCH_X86_64, 72, fSetSig, 34, false},
		{"other command", unix.AUDIT_ARCH_X86_64, 72, other, 9, false},
		{"other call", unix.AUDIT_ARCH_X86_64, 55, fSetSig, 9, false},
		{"other call on arm64", unix.AUDIT_ARCH_AARCH64, 72, fSetSig, 9, false},
		{"other architecture", unix.AUDIT_ARCH_RISCV64, 25, fSetSig, 9, false},
	}
	for _, c := range cases {
		var data [64]byte
		binary.LittleEndian.PutUint32(data[0:], c.number)
		binary.LittleEndian.PutUint32(data[4:], c.arch)
		binary.LittleEndian.PutUint64(data[24:], c.command)
		binary.LittleEndian.PutUint64(data[32:], c.arg)
		want := uint32(unix.SECCOMP_RET_ALLOW)
		if c.refused {
			want = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
		}
		require.Equal(t, want, runFilter(t, signalFilter(), data[:]), c.name)
	}
}

// runFilter runs a filter as the kernel does.
func runFilter(t *testing.T, program []unix.SockFilter, data []byte) uint32 {
	t.Helper()
	var a uint32
	for at := 0; at < len(program); at++ {
		f := program[at]
		jump := func(yes bool) {
			if yes {
				at += int(f.Jt)
			} else {
				at += int(f.Jf)
			}
		}
		switch f.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			a = binary.LittleEndian.Uint32(data[f.K:])
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			a &= f.K
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			jump(a == f.K)
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			jump(a >= f.K)
		case unix.BPF_RET | unix.BPF_K:
			return f.K
		default:
			require.Fail(t, "unknown instruction", "%#x", f.Code)
		}
	}
	require.Fail(t, "the program has no end")
	return 0
}
