package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A change is made in a copy, and only if its text occurs once in the file.
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

// Only a test that ran and failed has noticed a change.
func TestJudge(t *testing.T) {
	exit := errors.New("exit status 2")
	for _, text := range []string{
		"--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/x (0.00s)\nFAIL\n",
		"panic: no\n\ngoroutine 26 [running]:\n",
	} {
		require.NoError(t, judge(text, exit, "TestA"))
	}
	require.ErrorContains(t, judge("PASS\n", nil, "TestA"), "passed")
	require.ErrorContains(t, judge("testing: warning: no tests to run\nPASS\n", nil, "TestA"), "does not exist")
	require.ErrorContains(t, judge("panic: test timed out after 10m0s\n", exit, "TestA"), "did not end")
	require.ErrorContains(t, judge("cannot execute\n", exit, "TestA"), "did not run")
}

// Every row still applies: its text occurs once in its file, and its test exists.
// There are few rows, since each costs a build whenever all tests run.
func TestRowsApply(t *testing.T) {
	require.LessOrEqual(t, len(rows()), 60)
	root := filepath.Join("..", "..")
	seen := map[string]bool{}
	for _, m := range rows() {
		assert.False(t, seen[m.desc], m.desc)
		seen[m.desc] = true
		assert.NotEqual(t, m.old, m.new, m.desc)
		source, err := os.ReadFile(filepath.Join(root, m.file))
		if assert.NoError(t, err, m.desc) {
			assert.Equal(t, 1, strings.Count(string(source), m.old), "%s: %s", m.desc, m.old)
		}
		pkg := filepath.Join(root, cmp.Or(m.pkg, path.Dir(m.file)))
		assert.True(t, hasTest(t, pkg, m.test), "%s: %s has no %s", m.desc, pkg, m.test)
	}
}

// hasTest reports whether a package has a test.
func hasTest(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	require.NoError(t, err)
	for _, file := range files {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		if strings.Contains(string(source), "\nfunc "+name+"(t *testing.T)") {
			return true
		}
	}
	return false
}
