package arch

import (
	"os"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// The words of the list do not come back.
func TestRepositoryKeepsWords(t *testing.T) {
	problems, err := CheckWords(os.DirFS("../.."))
	require.NoError(t, err)
	for _, problem := range problems {
		t.Error(problem)
	}
}

// A banned word is found in identifiers, comments, strings and Markdown, and
// the sentence has what to write.
func TestCheckWordsFindsWords(t *testing.T) {
	for name, test := range map[string]struct {
		file, source string
		want         []string
	}{
		"an identifier":   {"claim/a.go", "package claim\n\nfunc takeUp() {}\n", []string{`claim/a.go:3: "take up": write "resume"`}},
		"a comment":       {"claim/a.go", "package claim\n\n// It waits for\n// ever, or for ever.\n", []string{`claim/a.go:4: "for ever": write "indefinitely", "forever"`}},
		"a string":        {"claim/a.go", "package claim\n\nconst x = `a\nfolder`\n", []string{`claim/a.go:4: "folder": write "directory"`}},
		"Markdown":        {"README.md", "# A\n\nSays whether it is.\n", []string{`README.md:3: "says whether": write "reports whether", "returns", "describes"`}},
		"part of a word":  {"claim/a.go", "package claim\n\nvar shear, besides2 int // patients\n", nil},
		"the standard":    {"claim/a.go", "package claim\n\n// F reports whether it resumes.\n", nil},
		"another file":    {"a.txt", "for ever", nil},
		"the list itself": {"internal/arch/wordlist.go", "package arch\n\nvar x = `for ever`\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			problems, err := CheckWords(fstest.MapFS{test.file: {Data: []byte(test.source)}})
			require.NoError(t, err)
			require.Equal(t, test.want, problems)
		})
	}
}
