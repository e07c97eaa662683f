package runtimetest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// BuildTestprog builds the program that the suite runs in containers, once per test
// process, and returns its path.
func BuildTestprog(t testing.TB) string {
	t.Helper()
	return build(t, "github.com/hostler/hostler/runtime/runtimetest/box", "box")
}

// BuildAttacker builds the program that is the tenant of the attacks, once per
// test process, and returns its path.
func BuildAttacker(t testing.TB) string {
	t.Helper()
	return build(t, "github.com/hostler/hostler/runtime/runtimetest/attacker", "attacker")
}

// BuildShim builds the shim, once per test process, and returns its path.
func BuildShim(t testing.TB) string {
	t.Helper()
	return build(t, "github.com/hostler/hostler/cmd/hostler-shim", "hostler-shim")
}

// built caches the programs that this test process has built.
var built sync.Map // package path → func() (string, error)

func build(t testing.TB, pkg, name string) string {
	t.Helper()
	once, _ := built.LoadOrStore(pkg, sync.OnceValues(func() (string, error) {
		return goBuild(pkg, name)
	}))
	path, err := once.(func() (string, error))()
	if err != nil {
		t.Fatalf("build %s: %v", pkg, err)
	}
	return path
}

// goBuild builds into the user's cache, where the next run finds the directory.
// Two test processes may build concurrently: each writes its own file and renames
// it. Programs are static, so that they run in an empty image.
func goBuild(pkg, name string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	dir := filepath.Join(cache, "hostler-test")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	own := filepath.Join(dir, fmt.Sprintf("%s.%d", name, os.Getpid()))
	c := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", own, pkg)
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	path := filepath.Join(dir, name)
	return path, os.Rename(own, path)
}
