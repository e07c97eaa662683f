package workload

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/internal/testenv"
)

// The examples of the documents that the formats come from load, each completed
// by an id and an image. HOSTLER_SEEDS is the directory of those documents; a
// document without examples of files has none to load.
func TestExamplesOfOtherFormats(t *testing.T) {
	dir := os.Getenv("HOSTLER_SEEDS")
	if dir == "" {
		testenv.Skip(t, "seeds", "HOSTLER_SEEDS is not set")
	}
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	total := 0
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		require.NoError(t, err)
		examples := fencedExamples(string(text))
		if filepath.Ext(f.Name()) == ".txt" {
			examples = plainExamples(string(text))
		}
		for i, example := range examples {
			w, err := Parse([]byte(completed(t, example)), f.Name())
			require.NoError(t, err, "example %d of %s:\n%s", i, f.Name(), example)
			if strings.Contains(example, "hooks:\n") {
				hasHooks := len(w.EventHooks) > 0 || len(w.Notes) > 0
				for _, p := range hooks.Points() {
					hasHooks = hasHooks || len(w.Hooks[p.Point]) > 0
				}
				require.True(t, hasHooks, "%s", example)
			}
			requireNormalized(t, w)
			total++
			t.Logf("%s: example %d has hooks for %d points, %d for events, and %d notes", f.Name(), i, len(w.Hooks), len(w.EventHooks), len(w.Notes))
		}
	}
	require.Positive(t, total)
}

var fenceRegexp = regexp.MustCompile("(?ms)^```ya?ml\n(.*?)^```")

// fencedExamples returns the blocks of YAML of a Markdown document that have
// hooks.
func fencedExamples(text string) []string {
	var all []string
	for _, m := range fenceRegexp.FindAllStringSubmatch(text, -1) {
		if strings.Contains(m[1], "hooks:") {
			all = append(all, m[1])
		}
	}
	return all
}

var exampleRegexp = regexp.MustCompile(`(?m)^(harness|lifecycle_hooks|hooks):.*\n((#.*|[a-z_]+:.*|[ \t].*|)\n)+`)

var inlineRegexp = regexp.MustCompile(`\b[a-z]+\.[a-z_]+: \[[a-z_, ]*\]`)

// plainExamples returns what looks like YAML in a document without markup.
func plainExamples(text string) []string {
	all := exampleRegexp.FindAllString(text, -1)
	for _, line := range inlineRegexp.FindAllString(text, -1) {
		all = append(all, "hooks:\n  "+line+"\n")
	}
	return all
}

// completed returns an example with what a workload file needs next to it.
func completed(t *testing.T, example string) string {
	t.Helper()
	var keys map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(example), &keys), "%s", example)
	for _, key := range []string{"image", "id"} {
		if _, ok := keys[key]; !ok {
			example = key + ": example\n" + example
		}
	}
	return example
}
