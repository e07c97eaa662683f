package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/testenv"
)

// exampleService is an example whose trial needs no more than its file.
type exampleService struct {
	needs string // a program of this machine
	args  []string
	shown []string
}

var exampleServices = map[string]exampleService{
	"browser": {"chromium", nil, []string{"warm | warm: Chrome/", "reset | one empty page", "main | browser: starting on port"}},
	"code-runner": {"python3", []string{"--param", "packages=json decimal"}, []string{
		"warm | the interpreter is warm", "modules | has json", "modules | has decimal", "main | ready for code",
	}},
	"web-migration": {"go", nil, []string{"migrate | migrated 0 notes to version 2", "flush | flushed", "main | notes: serving on"}},
}

// The examples of whole services live as their files say.
func TestExampleServices(t *testing.T) {
	t.Parallel()
	for name, tt := range exampleServices {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requireProgram(t, tt.needs)
			bin := shortDir(t)
			if tt.needs == "go" {
				out, err := testenv.GoBuild("-o", filepath.Join(bin, "notes"), "../examples/"+name).CombinedOutput()
				require.NoError(t, err, "%s", out)
			}
			text := exampleWithPort(t, name, freePort(t))
			text = strings.ReplaceAll(text, `"notes"`, `"`+filepath.Join(bin, "notes")+`"`)
			text = strings.ReplaceAll(text, `"browser"`, `"`+exampleProgram(t, bin, "browser/browser")+`"`)
			text = strings.ReplaceAll(text, "{ BROWSER_PORT:", "{ TMPDIR: "+bin+", BROWSER_PORT:")
			r := newTrials(t, text)
			got := r.run(append(tt.args, r.file)...)
			require.Zero(t, got.code, "%s%s", got.out, got.err)
			for _, shown := range tt.shown {
				require.Contains(t, got.out, shown)
			}
			require.Contains(t, got.out, "all of it succeeded, and everything is removed")
			r.requireGone()
		})
	}
}

// requireProgram skips the test if a program is missing.
func requireProgram(t *testing.T, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		testenv.Skip(t, strings.TrimSuffix(name, "3"), "there is no %s: %v", name, err)
	}
}

// exampleWithPort returns the file of an example for the process backend, where ports
// are the machine's and programs run as the server's user.
func exampleWithPort(t *testing.T, name string, port int) string {
	t.Helper()
	source, err := os.ReadFile(filepath.Join("../examples", name, "workload.yaml"))
	require.NoError(t, err)
	text := regexp.MustCompile(`(?m)^user: .*\n`).ReplaceAllString(string(source), "")
	return regexp.MustCompile(`\b(5432|8080|8888|9222)\b`).ReplaceAllString(text, fmt.Sprint(port))
}

// exampleProgram copies a program of an example to a directory, where users find it to
// whom the repository is closed. It returns its path.
func exampleProgram(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../examples", name))
	require.NoError(t, err)
	path := filepath.Join(dir, filepath.Base(name))
	require.NoError(t, os.WriteFile(path, text, 0o755)) //nolint:gosec // it is executed
	return path
}
