package kubernetes

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/testenv"
)

// waitTimeout is the timeout of every wait. Nothing takes nearly as long, but
// test machines are slow and busy.
const waitTimeout = 5 * time.Minute

// root is the path of the repository, relative to the tests.
const root = "../.."

// runID marks what this run of the tests creates in the cluster.
var runID = "inside-" + uuid.NewString()[:8]

// builtPrograms builds the programs under test and returns their directory.
var builtPrograms = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(os.TempDir(), runID)
	c := testenv.GoBuild("-o", dir+"/", "./cmd/hostler", "./cmd/hostler-shim", "./deploy/image")
	c.Dir = root
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the programs: %w: %s", err, out)
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if err := os.RemoveAll(filepath.Join(os.TempDir(), runID)); err != nil {
		fmt.Fprintln(os.Stderr, "clean up after the tests:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// program returns the path of a program under test.
func program(t testing.TB, name string) string {
	t.Helper()
	dir, err := builtPrograms()
	require.NoError(t, err)
	return filepath.Join(dir, name)
}

// image builds Hostler's image as `make image` does and loads it into the node.
// Its tag is the hash of its programs, so that the node does not keep one for
// each run.
var image = sync.OnceValues(func() (string, error) {
	dir, err := builtPrograms()
	if err != nil {
		return "", err
	}
	programs := []string{filepath.Join(dir, "hostler"), filepath.Join(dir, "hostler-shim")}
	sum := sha256.New()
	for _, path := range programs {
		f, err := os.Open(path)
		if err != nil {
			return "", err
		}
		_, err = io.Copy(sum, f)
		if err = errors.Join(err, f.Close()); err != nil {
			return "", err
		}
	}
	ref := fmt.Sprintf("hostler:test-%.6x", sum.Sum(nil))
	archive := filepath.Join(dir, "image.tar")
	if err := runCommand(filepath.Join(dir, "image"), append([]string{"-o", archive, "-tag", ref}, programs...)...); err != nil {
		return "", err
	}
	return ref, runCommand(filepath.Join(root, ".ci/cluster"), "load", archive)
})

// requireImage returns the image, which has to exist.
func requireImage(t testing.TB) (repository, tag string) {
	t.Helper()
	ref, err := image()
	require.NoError(t, err)
	repository, tag, _ = strings.Cut(ref, ":")
	return repository, tag
}

// runCommand runs a program. Its output is a part of the error.
func runCommand(name string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %q: %w: %s", filepath.Base(name), args, err, out)
	}
	return nil
}

// eventually calls ask until it returns nil, at most waitTimeout.
func eventually(t testing.TB, what string, ask func() error) {
	t.Helper()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	limit := time.NewTimer(waitTimeout)
	defer limit.Stop()
	for {
		err := ask()
		if err == nil {
			return
		}
		select {
		case <-again.C:
		case <-limit.C:
			require.NoError(t, err, "%s, for %s", what, waitTimeout)
		}
	}
}
