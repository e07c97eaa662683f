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

// childCommands are what this program does when a test starts it again, by its first
// argument: what changes a process, or wants a namespace of its own.
var childCommands = map[string]func() int{
	"start":    func() int { return runStart(nil) },
	"own":      printShimUser,
	"labels":   printLeasedFlowLabel,
	"limits":   printLimitFacts,
	"baseline": printBaseline,
}

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if run, ok := childCommands[os.Args[1]]; ok {
			os.Exit(run())
		}
	}
	code := m.Run()
	os.RemoveAll(buildDir)
	os.Exit(code)
}

// buildDir is the directory of what withoutCgo has built.
var buildDir string

// withoutCgo builds this program as the real one is built: all threads of one
// with cgo cannot become another user.
var withoutCgo = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "hostler-shim-")
	if err != nil {
		return "", err
	}
	buildDir = dir
	path := filepath.Join(dir, "test")
	build := exec.Command("go", "test", "-c", "-o", path, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return "", err
	}
	return path, os.Chmod(dir, 0o755) // other users run it too
})

// runChild runs a program and returns what it prints by the names before the
// colons.
func runChild(t *testing.T, attr *syscall.SysProcAttr, program string, args ...string) map[string]string {
	t.Helper()
	c := exec.Command(program, args...)
	c.SysProcAttr = attr
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if attr != nil && attr.Cloneflags != 0 && (errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC)) {
		t.Skipf("a namespace of its own is needed: %v", err)
	}
	require.NoError(t, err, "%s", &stderr)
	return parseStatus(string(out))
}

// parseStatus reads lines as /proc/self/status has them.
func parseStatus(text string) map[string]string {
	found := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, ":")
		found[name] = strings.Join(strings.Fields(value), " ")
	}
	return found
}
