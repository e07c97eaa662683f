package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/stretchr/testify/assert"

	"github.com/hostler/hostler/internal/testenv"
)

// withRace reports whether servers run with the race detector, for which
// HOSTLER_TEST_RACE=1 is set. The programs in containers never do: those have no
// C library.
func withRace() bool { return os.Getenv("HOSTLER_TEST_RACE") != "" }

// servingProgram builds the server of the tests.
var servingProgram = sync.OnceValues(func() (string, error) {
	if dir, err := builtPrograms(); err != nil || !withRace() {
		return filepath.Join(dir, "hostler"), err
	}
	return buildServer("hostler-race")
})

// buildServer builds the server with more flags, and returns its path.
func buildServer(name string, flags ...string) (string, error) {
	dir, err := builtPrograms()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	args := append([]string{"-o", path}, flags...)
	if withRace() {
		// Those are slow with the detector, and their races are not ours to find.
		args = append(args, "-race", "-gcflags=modernc.org/...=-race=false", "-gcflags=github.com/klauspost/...=-race=false")
	}
	c := testenv.GoBuild(append(args, "../cmd/hostler")...)
	if withRace() {
		c.Env = append(c.Env, "CGO_ENABLED=1")
	}
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w: %s", name, err, out)
	}
	return path, nil
}

// requireNoRace fails the test if the detector has found a race in the server.
func (s *server) requireNoRace() {
	s.t.Helper()
	if s.log != nil {
		_, race, found := strings.Cut(s.log.String(), "WARNING: DATA RACE")
		assert.False(s.t, found, "a data race in the server: %.4000s", race)
	}
}
