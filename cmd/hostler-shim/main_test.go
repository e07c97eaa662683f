package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/testenv"
)

// childCommands are the subcommands of this test program, for tests that change
// the process or need a new namespace.
var childCommands = map[string]func() int{
	"init":     func() int { return runInit(nil) },
	"untar":    func() int { return runUntar(os.Args[2:]) },
	"_file":    func() int { return runFile(os.Args[2:], os.Stdin, os.Stdout) },
	"start":    func() int { return runStart(nil) },
	"worker":   func() int { return runWorker(os.Args[2:]) },
	"own":      printShimUser,
	"labels":   printLeasedFlowLabel,
	"limits":   printLimitFacts,
	"baseline": printBaseline,
	"hook":     execImageHook,
	"noexec":   noExecutables,
	"dial":     openConnection,
}

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if run, ok := childCommands[os.Args[1]]; ok {
			os.Exit(run())
		}
	}
	writerStampAge = 0 // tests of other stamps wait no longer than for liveStampAge
	code := m.Run()
	os.RemoveAll(buildDir)
	os.Exit(code)
}

// buildDir is the directory of the program that withoutCgo builds.
var buildDir string

// withoutCgo returns this program as the release builds it: with cgo, the threads of
// a program cannot all switch to another user.
var withoutCgo = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "hostler-shim-")
	if err != nil {
		return "", err
	}
	buildDir = dir
	path := filepath.Join(dir, "test")
	if !usesCgo() {
		program, err := os.ReadFile("/proc/self/exe")
		return path, errors.Join(err, os.WriteFile(path, program, 0o755), os.Chmod(dir, 0o755)) //nolint:gosec // other users run it, too
	}
	build := exec.Command("go", "test", "-c", "-o", path, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return "", err
	}
	return path, os.Chmod(dir, 0o755) // other users run it, too
})

// usesCgo reports whether this program was built with cgo.
func usesCgo() bool {
	info, ok := debug.ReadBuildInfo()
	return !ok || !slices.Contains(info.Settings, debug.BuildSetting{Key: "CGO_ENABLED", Value: "0"})
}

// runChild runs a program and returns its output by the names before the
// colons.
func runChild(t *testing.T, attr *syscall.SysProcAttr, program string, args ...string) map[string]string {
	t.Helper()
	c := exec.Command(program, args...)
	c.SysProcAttr = attr
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if attr != nil && attr.Cloneflags != 0 && (errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC)) {
		testenv.Skip(t, "root", "requires a new namespace: %v", err)
	}
	require.NoError(t, err, "%s", &stderr)
	return parseStatus(string(out))
}

// parseStatus parses lines in the format of /proc/self/status.
func parseStatus(text string) map[string]string {
	found := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, ":")
		found[name] = strings.Join(strings.Fields(value), " ")
	}
	return found
}
