package runtimetest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/hostler/hostler/internal/testenv"
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
var built sync.Map // name → func() (string, error)

func build(t testing.TB, pkg, name string) string {
	t.Helper()
	once, _ := built.LoadOrStore(name, sync.OnceValues(func() (string, error) {
		return goBuild(pkg, name)
	}))
	path, err := once.(func() (string, error))()
	if err != nil {
		t.Fatalf("build %s: %v", pkg, err)
	}
	return path
}

// goBuild builds into the user's cache, where the next run finds the directory.
func goBuild(pkg, name string) (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	dir, err := buildDir(cacheDir(), root)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	return path, compile(root, pkg, path)
}

// compile builds a program of the module in a directory. Two test processes may
// build concurrently: each writes its own file and renames it. Programs are
// static, so that they run in an empty image.
func compile(dir, pkg, path string) error {
	own := fmt.Sprintf("%s.%d", path, os.Getpid())
	c := testenv.GoBuild("-o", own, pkg)
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return os.Rename(own, path)
}

// cacheDir returns the directory for the programs of all clones.
func cacheDir() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	return filepath.Join(cache, "hostler-test")
}

// rootFile has the path of the clone that a directory of programs is for.
const rootFile = "root"

// buildDir returns the directory below parent for the programs of a clone of the
// module. Each clone has its own, because its programs may be of another commit.
// The directories of clones that do not exist any more are removed.
func buildDir(parent, root string) (string, error) {
	sum := sha256.Sum256([]byte(root))
	dir := filepath.Join(parent, hex.EncodeToString(sum[:8]))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, rootFile), []byte(root), 0o644); err != nil {
		return "", err
	}
	others, err := filepath.Glob(filepath.Join(parent, "*", rootFile))
	if err != nil {
		return "", err
	}
	for _, name := range others {
		of, err := os.ReadFile(name)
		if err != nil || len(of) == 0 { // another process writes or removes it
			continue
		}
		if _, err := os.Stat(string(of)); errors.Is(err, fs.ErrNotExist) {
			if err := os.RemoveAll(filepath.Dir(name)); err != nil {
				return "", err
			}
		}
	}
	return dir, nil
}

// moduleRoot returns the directory of go.mod: tests run in that of their package.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		_, err := os.Stat(filepath.Join(dir, "go.mod"))
		if !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			return dir, err
		}
		dir = filepath.Dir(dir)
	}
}
