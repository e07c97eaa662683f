package main

import (
	"testing"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Objects of each kind are detected if the kernel does not list them, and so is
// their absence.
func TestUnlistedIPCObjects(t *testing.T) {
	t.Parallel()
	makers := []func() unix.Errno{
		func() unix.Errno { _, _, errno := unix.Syscall(unix.SYS_SHMGET, 0, 4096, 0o600); return errno },
		func() unix.Errno { _, _, errno := unix.Syscall(unix.SYS_MSGGET, 0, 0o600, 0); return errno },
		func() unix.Errno { _, _, errno := unix.Syscall(unix.SYS_SEMGET, 0, 1, 0o600); return errno },
	}
	for i, kind := range ipcKinds {
		kind.list += ".none"
		var own, before, after error
		var made unix.Errno
		onDisposableThread(func() {
			if own = unix.Unshare(unix.CLONE_NEWIPC); own != nil {
				return
			}
			_, before = kind.objects()
			made = makers[i]()
			_, after = kind.objects()
		})
		if own != nil {
			testenv.Skip(t, "root", "requires a new namespace: %v", own)
		}
		require.NoError(t, before, kind.list)
		require.Zero(t, made, kind.list)
		require.ErrorIs(t, after, runtime.ErrWipeUnverified, kind.list)
	}
}

// A kernel may have message queues even if /proc does not list them.
func TestHasMessageQueues(t *testing.T) {
	t.Parallel()
	require.True(t, hasMessageQueues())
}
