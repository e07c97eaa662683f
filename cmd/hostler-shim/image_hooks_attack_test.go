package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
)

// The longest listing fits what is kept of a command's output: a listing that does
// not would fail every creation.
func TestLongestListingOfImageHooks(t *testing.T) {
	t.Parallel()
	f := newImage(t)
	points := []string{"post_start", "post_create", "post_claim", "pre_release", "pre_destroy"}
	for i := range runtime.MaxImageHooks {
		f.add(t, fmt.Sprintf("post_create.d/%03d%s", i, strings.Repeat("x", 61)), "")
	}
	for _, r := range []string{"\U000e0001", "\"", "<", "\u2028", "\xff", "é"} {
		for i := range runtime.MaxRefusedImageHooks {
			f.add(t, fmt.Sprintf("pre_destroy.d/%s%03d", strings.Repeat(r, 250/len(r)), i), "")
		}
		var out bytes.Buffer
		require.NoError(t, printImageHooks(&out, f.list(points)))
		require.Less(t, out.Len(), runtime.OutputHead+runtime.OutputTail, "%q", r)
		require.NoError(t, os.RemoveAll(filepath.Join(f.root, runtime.ImageHooksDir, "pre_destroy.d")))
	}
	found := f.list(points)
	require.Len(t, found.Hooks, runtime.MaxImageHooks)
	for _, h := range found.Hooks {
		require.True(t, h.IsListed(), "%+v", h)
	}
}

// The content of a file that is one too many is not read: thousands of links to a
// large file would take minutes.
func TestOnlyListedImageHooksAreRead(t *testing.T) {
	t.Parallel()
	f := newImage(t)
	for i := range runtime.MaxImageHooks {
		f.add(t, fmt.Sprintf("post_start.d/%03d", i), "")
	}
	large := f.add(t, "post_start.d/large", "")
	require.NoError(t, os.Truncate(large, runtime.MaxImageHookSize+1))
	found := f.list([]string{"post_start"})
	require.Len(t, found.Hooks, runtime.MaxImageHooks)
	require.Len(t, found.Refused, 1)
	require.Contains(t, found.Refused[0], "there are more than 64")
}

// What runs is what was compared: a process that can write to the copy before it
// is sealed is noticed.
func TestCopyOfImageHookIsCompared(t *testing.T) {
	t.Parallel()
	f := newImage(t)
	f.add(t, "post_start", "#!/bin/sh\n"+strings.Repeat("#", 4<<20))
	h := f.list([]string{"post_start"}).Hooks[0]
	in, err := f.open(h.Path)
	require.NoError(t, err)
	defer in.Close()
	refused := 0
	for range 20 {
		program, err := newExecutable()
		require.NoError(t, err)
		done := make(chan struct{})
		go func() { // ends when the copy is sealed
			defer close(done)
			for {
				if _, err := program.WriteAt([]byte("#!/evil\n"), 0); err != nil {
					return
				}
			}
		}()
		_, err = in.Seek(0, 0)
		require.NoError(t, err)
		err = sealImageHook(program, in, h.Digest)
		if err != nil {
			refused++
			program.Close()
			<-done
			continue
		}
		<-done
		actual, err := digestOf(io.NewSectionReader(program, 0, runtime.MaxImageHookSize))
		require.NoError(t, err)
		require.Equal(t, h.Digest, actual, "another content would run")
		program.Close()
	}
	t.Logf("%d of 20 were refused", refused)
}

// noExecutables raises vm.memfd_noexec of a new PID namespace, and runs a hook.
func noExecutables() int {
	if err := os.WriteFile("/proc/sys/vm/memfd_noexec", []byte("2"), 0); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitUsage
	}
	return execImageHook()
}

// A kernel that permits no executable files in memory is named as the reason.
func TestImageHookWithoutExecutableMemory(t *testing.T) {
	t.Parallel()
	f := newImage(t)
	f.add(t, "post_start", "#!/bin/sh\necho ran\n")
	h := f.list([]string{"post_start"}).Hooks[0]
	c := exec.Command(os.Args[0], "noexec", f.root, h.Digest, h.Path)
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	out, err := c.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() == exitUsage {
		testenv.Skip(t, "root", "requires root and Linux 6.3: %v: %s", err, out)
	}
	require.Contains(t, string(out), "vm.memfd_noexec")
	require.NotContains(t, string(out), "ran")
}
