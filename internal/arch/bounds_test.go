package arch

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "lower the numbers in testdata/bounds.txt")

// Tests do not depend on how busy their machine is. testdata/bounds.txt has the
// files that still do, with the number of bounds in each. It only shrinks: go test
// ./internal/arch -run Bounds -update lowers its numbers and never raises one.
func TestBoundsOnlyShrink(t *testing.T) {
	const list = "testdata/bounds.txt"
	text, err := os.ReadFile(list)
	require.NoError(t, err)
	allowed := map[string]int{}
	for line := range strings.Lines(string(text)) {
		var file string
		var count int
		_, err := fmt.Sscanln(line, &count, &file)
		require.NoError(t, err, line)
		allowed[file] = count
	}
	found, err := FindBounds(os.DirFS("../.."))
	require.NoError(t, err)
	for file, bounds := range found {
		if len(bounds) > allowed[file] {
			t.Errorf("the list allows %d bounds on elapsed time, but there are %d: wait with testenv.Await, "+
				"or run the test in a bubble of testing/synctest\n\t%s", allowed[file], len(bounds), strings.Join(bounds, "\n\t"))
		}
	}
	var shrunk strings.Builder
	for _, file := range slices.Sorted(maps.Keys(allowed)) {
		if count := min(allowed[file], len(found[file])); count > 0 {
			fmt.Fprintln(&shrunk, count, file)
		}
	}
	if *update {
		require.NoError(t, os.WriteFile(list, []byte(shrunk.String()), 0o600))
	} else {
		require.Equal(t, string(text), shrunk.String(), "the list has more than there is: go test ./internal/arch -run Bounds -update")
	}
}

// A bound is found in a test, in what a test reaches, and in packages that support
// tests; not in a bubble, in a benchmark or in what only these use.
func TestFindBounds(t *testing.T) {
	test := func(body string) string { return "package x\n\nfunc TestX(t *testing.T) {\n\t" + body + "\n}\n" }
	sleep := "<-time.After(1)"
	for name, c := range map[string]struct {
		files map[string]string
		want  int
	}{
		"sleep":             {map[string]string{"a/a_test.go": test(sleep)}, 1},
		"eventually":        {map[string]string{"a/a_test.go": test("require.Eventuallyf(t, f, 1, 1)")}, 1},
		"context":           {map[string]string{"a/a_test.go": test("context.WithTimeout(ctx, 1)")}, 1},
		"socket":            {map[string]string{"a/a_test.go": test("c.SetReadDeadline(time.Now().Add(1))")}, 1},
		"end of socket":     {map[string]string{"a/a_test.go": test("c.SetReadDeadline(time.Time{})")}, 0},
		"loop":              {map[string]string{"a/a_test.go": test("for time.Now().Before(end) {}")}, 1},
		"comparison":        {map[string]string{"a/a_test.go": test("if time.Since(start) > 1 {}")}, 1},
		"variable":          {map[string]string{"a/a_test.go": test("took := time.Since(start)\n\trequire.Less(t, took, 1)")}, 1},
		"lower bound":       {map[string]string{"a/a_test.go": test("require.Greater(t, time.Since(start), 1)")}, 0},
		"bubble":            {map[string]string{"a/a_test.go": test("synctest.Test(t, func(t *testing.T) { " + sleep + " })")}, 0},
		"after a bubble":    {map[string]string{"a/a_test.go": test("synctest.Test(t, func(t *testing.T) {})\n\t" + sleep)}, 1},
		"bubble's function": {map[string]string{"a/a_test.go": test("synctest.Test(t, func(t *testing.T) { f() })") + "func f() { " + sleep + " }"}, 0},
		"function of both":  {map[string]string{"a/a_test.go": test("synctest.Test(t, f)\n\tf()") + "func f() { " + sleep + " }"}, 1},
		"maker of bubbles": {map[string]string{"a/a_test.go": test("run(t, func() { "+sleep+" })") +
			"func run(t *testing.T, f func()) { synctest.Test(t, func(t *testing.T) { f() }) }"}, 0},
		"type of a bubble": {map[string]string{"a/a_test.go": test("synctest.Test(t, func() { x{}.f() })\n\ty{}.f()") +
			"func (x) f() { " + sleep + " }\n\nfunc (y) f() {}"}, 0},
		"row of bubbles": {map[string]string{"a/a_test.go": test("for _, f := range map[string]func(){\"x\": func() { " + sleep + " }} {\n\t\tsynctest.Test(t, f)\n\t}")}, 0},
		"benchmark":      {map[string]string{"a/a_test.go": "package x\n\nfunc BenchmarkX(b *testing.B) { " + sleep + " }"}, 0},
		"support": {map[string]string{
			"a/a_test.go":     "package x\n\nimport \"" + module + "/a/atest\"\n\n" + test("atest.Run(t)")[len("package x"):],
			"a/atest/test.go": "package atest\n\nfunc Run() { run() }\n\nfunc run() { " + sleep + " }\n\nfunc Other() { " + sleep + " }",
		}, 1},
		"program": {map[string]string{"a/a.go": test(sleep)}, 0},
		"testenv": {map[string]string{"internal/testenv/await_test.go": test(sleep)}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			files := fstest.MapFS{}
			for file, source := range c.files {
				files[file] = &fstest.MapFile{Data: []byte(source)}
			}
			found, err := FindBounds(files)
			require.NoError(t, err)
			require.Len(t, slices.Concat(slices.Collect(maps.Values(found))...), c.want, "%v", found)
		})
	}
}
