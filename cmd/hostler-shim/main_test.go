package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// children are what this program does when a test starts it again, by its first
// argument: what changes a process, or wants a namespace of its own.
var children = map[string]func() int{
	"start":    func() int { return runStart(nil) },
	"own":      showOwn,
	"labels":   leaseLabel,
	"limits":   lowerLimits,
	"baseline": showBaseline,
}

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if run, ok := children[os.Args[1]]; ok {
			os.Exit(run())
		}
	}
	code := m.Run()
	os.RemoveAll(builtIn)
	os.Exit(code)
}

// builtIn is the directory of what withoutCgo has built.
var builtIn string

// withoutCgo builds this program as the real one is built: all threads of one
// with cgo cannot become another user.
var withoutCgo = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "hostler-shim-")
	if err != nil {
		return "", err
	}
	builtIn = dir
	path := filepath.Join(dir, "test")
	build := exec.Command("go", "test", "-c", "-o", path, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return "", err
	}
	return path, os.Chmod(dir, 0o755) // other users run it too
})

// child runs a program and returns what it prints by the names before the
// colons.
func child(t *testing.T, attr *syscall.SysProcAttr, program string, args ...string) map[string]string {
	t.Helper()
	c := exec.Command(program, args...)
	c.SysProcAttr = attr
	var said bytes.Buffer
	c.Stderr = &said
	out, err := c.Output()
	if attr != nil && attr.Cloneflags != 0 && (errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC)) {
		t.Skipf("a namespace of its own is needed: %v", err)
	}
	require.NoError(t, err, "%s", &said)
	return byName(string(out))
}

// byName reads lines as /proc/self/status has them.
func byName(text string) map[string]string {
	found := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, ":")
		found[name] = strings.Join(strings.Fields(value), " ")
	}
	return found
}
