package runtimetest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/hostler/hostler/internal/testenv"
)

// previousCommit is the commit that the previous shim is built from: containers
// of that build have to work with this one's server. PreviousVersion is the
// commit's shim.Version.
//
// All changes of the protocol until 0.1.0 are one version, the one after
// PreviousVersion, so the commit stays until then. After a release it is that of
// the release.
const (
	previousCommit  = "e1a21dd43afdbf2c19c1f84bcb09dec057dd9ff6"
	PreviousVersion = 3
)

// errNoHistory reports that the clone does not have the commit.
var errNoHistory = errors.New("this clone has no commit " + previousCommit[:8])

// BuildPreviousShim builds the shim of previousCommit, once per machine, and
// returns its path. Without that commit, as in a shallow clone, it skips the test,
// or fails it if REQUIRE contains history.
func BuildPreviousShim(t testing.TB) string {
	t.Helper()
	path, err := previousShim()
	if errors.Is(err, errNoHistory) {
		testenv.Skip(t, "history", "%v", err)
	}
	if err != nil {
		t.Fatalf("build the previous shim: %v", err)
	}
	return path
}

// previousShim returns the path of the shim in the user's cache, which has its
// commit in it.
var previousShim = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(cacheDir(), "shim-"+previousCommit)
	path := filepath.Join(dir, "hostler-shim")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	source, err := os.MkdirTemp("", "hostler-previous-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(source)
	if err := extractCommit(previousCommit, source); err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	return path, compile(source, "./cmd/hostler-shim", path)
})

// extractCommit writes the files of a commit of this clone to a directory.
func extractCommit(commit, dir string) error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	archive := filepath.Join(dir, "source.tar")
	if out, err := exec.Command("git", "-C", root, "archive", "-o", archive, commit).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: git archive: %w: %s", errNoHistory, err, strings.TrimSpace(string(out)))
	}
	if out, err := exec.Command("tar", "-xf", archive, "-C", dir).CombinedOutput(); err != nil {
		return fmt.Errorf("tar: %w: %s", err, out)
	}
	return nil
}
