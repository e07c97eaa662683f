package arch

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	quotedRegexp = regexp.MustCompile("`([^`]+)`")
	// exampleRegexp matches what differs from case to case in an error.
	exampleRegexp = regexp.MustCompile(`"x"|\$\.id|/bin/sh|401|\.\.\.|…`)
)

// The symptoms in the list of common errors of docs/hooks.md are texts of the program.
func TestSymptomsAreTextsOfTheProgram(t *testing.T) {
	root := filepath.Join("..", "..")
	text, err := os.ReadFile(filepath.Join(root, "docs", "hooks.md"))
	require.NoError(t, err)
	_, list, ok := strings.Cut(string(text), "\n## Troubleshooting\n")
	require.True(t, ok)
	list, _, _ = strings.Cut(list, "\n## ")
	program := sourceOf(t, root)
	symptoms := 0
	for line := range strings.Lines(list) {
		if !strings.HasPrefix(line, "| ") {
			continue
		}
		symptom, _, _ := strings.Cut(line[2:], " | ")
		for _, quoted := range quotedRegexp.FindAllStringSubmatch(symptom, -1) {
			symptoms++
			for _, part := range exampleRegexp.Split(quoted[1], -1) {
				if !strings.Contains(program, strings.TrimSpace(part)) {
					t.Errorf("%q is no text of the program", quoted[1])
				}
			}
		}
	}
	require.Greater(t, symptoms, 10)
}

// sourceOf returns the source of a module, without its tests.
func sourceOf(t *testing.T, root string) string {
	t.Helper()
	var all strings.Builder
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		source, err := os.ReadFile(filepath.Join(root, path))
		all.Write(source)
		return err
	})
	require.NoError(t, err)
	return all.String()
}
