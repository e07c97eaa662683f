package main

import (
	"cmp"
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A mutation is applied to a copy, and only if its text occurs once in the
// file.
func TestOverlay(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.go")
	require.NoError(t, os.WriteFile(file, []byte("a b b"), 0o600))
	name, err := overlay(t.TempDir(), mutation{file: file, old: "a", new: "c"})
	require.NoError(t, err)
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	var rules struct{ Replace map[string]string }
	require.NoError(t, json.Unmarshal(text, &rules))
	changed, err := os.ReadFile(rules.Replace[file])
	require.NoError(t, err)
	require.Equal(t, "c b b", string(changed))
	original, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "a b b", string(original))
	for _, old := range []string{"b", "x", ""} {
		_, err := overlay(t.TempDir(), mutation{file: file, old: old})
		require.ErrorContains(t, err, "occurs", "%q", old)
	}
}

// The name of a failed test is found in the output of each kind of failure.
func TestParseResult(t *testing.T) {
	for text, want := range map[string]string{
		"--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/x (0.00s)\nFAIL\n":                             "TestA",
		"panic: test timed out after 3m0s\n\trunning tests:\n\t\tTestB (3m0s)\n":                     "TestB",
		"panic: no\n\ngithub.com/hostler/hostler/claim_test.TestC.func1(0x35a35927fb08)\n\tx.go:1\n": "TestC",
	} {
		require.Equal(t, result{test: want}, parseResult(text, false, ""))
	}
	require.Equal(t, result{}, parseResult("PASS\n", true, ""))
	require.Error(t, parseResult("testing: warning: no tests to run\nPASS\n", true, "TestD").err)
	require.Error(t, parseResult("exit status 2", false, "TestD").err)
	require.Error(t, parseResult("panic: no\n", false, "").err)
	require.Equal(t, result{test: "TestD"}, parseResult("panic: no\n\ngoroutine 26 [running]:\n", false, "TestD"))
}

// Every mutation has a description, a text that occurs once in its file, and a
// test that detects it or a reason why none can.
func TestMutationsAreComplete(t *testing.T) {
	seen := map[string]bool{}
	for _, g := range groups {
		for _, m := range g.list {
			require.False(t, seen[m.desc], m.desc)
			seen[m.desc] = true
			source, err := os.ReadFile(filepath.Join("..", "..", m.file))
			require.NoError(t, err, m.desc)
			assert.Equal(t, 1, strings.Count(string(source), m.old), "%s: %s", m.desc, m.old)
			require.NotEqual(t, m.old, m.new, m.desc)
			require.NotEqual(t, m.test == "", m.equivalent == "", m.desc)
			if m.test != "" {
				pkg := filepath.Join("..", "..", cmp.Or(m.pkg, path.Dir(m.file)))
				assert.Contains(t, testSources(t, pkg), "\nfunc "+m.test+"(t *testing.T)", m.desc)
			}
		}
	}
}

// testSources returns the tests of a package.
func testSources(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	require.NoError(t, err)
	var all strings.Builder
	for _, name := range files {
		source, err := os.ReadFile(name)
		require.NoError(t, err)
		all.Write(source)
	}
	return all.String()
}
