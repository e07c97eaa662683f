package arch

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Nothing is linked into a program that must not be.
func TestRepositoryKeepsLinked(t *testing.T) {
	violations, err := CheckLinked(t.Context(), "../..")
	require.NoError(t, err)
	for _, violation := range violations {
		t.Error(violation)
	}
}

// A package is found behind others of the standard library, and behind ours; one
// that only a test or another platform imports is not linked.
func TestCheckLinkedFindsViolations(t *testing.T) {
	const program, without = "cmd/hostler-shim/main.go", "package main\n\nfunc main() {}\n"
	reason := unreached[0].reason
	for name, test := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"nothing":              {map[string]string{program: without}, nil},
		"the package":          {map[string]string{program: imports("regexp/syntax")}, []string{"cmd/hostler-shim: reaches regexp by regexp/syntax, but " + reason}},
		"the standard library": {map[string]string{program: imports("expvar")}, []string{"cmd/hostler-shim: reaches net/http by expvar -> net/http, but " + reason}},
		"behind ours": {
			map[string]string{program: imports(module + "/a"), "a/a.go": "package a\n\nimport _ \"expvar\"\n"},
			[]string{"cmd/hostler-shim: reaches net/http by a -> expvar -> net/http, but " + reason},
		},
		"a test":           {map[string]string{program: without, "cmd/hostler-shim/a_test.go": "package main\n\nimport _ \"regexp\"\n"}, nil},
		"another platform": {map[string]string{program: without, "cmd/hostler-shim/a_windows.go": "package main\n\nimport _ \"regexp\"\n"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			test.files["go.mod"] = "module " + module + "\n\ngo 1.26\n"
			for file, text := range test.files {
				require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(file)), 0o700))
				require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
			}
			violations, err := CheckLinked(t.Context(), dir)
			require.NoError(t, err)
			require.Equal(t, test.want, violations)
		})
	}
	_, err := CheckLinked(t.Context(), t.TempDir())
	require.ErrorContains(t, err, "list what cmd/hostler-shim is linked with")
}

// imports returns the source of a program that imports a package.
func imports(pkg string) string {
	return "package main\n\nimport _ \"" + pkg + "\"\n\nfunc main() {}\n"
}
