package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/testenv"
)

// follow reads events of the package p.
func follow(t *testing.T, lines ...string) (*collector, string) {
	t.Helper()
	var out bytes.Buffer
	c := newCollector(&out)
	for i, line := range lines {
		lines[i] = strings.ReplaceAll(line, `"P"`, `"Package":"`+module+`/p"`)
	}
	require.NoError(t, c.read(strings.NewReader(strings.Join(lines, "\n"))))
	return c, out.String()
}

// A failure fails the run whatever kind it is of, and is printed with its output.
func TestFailures(t *testing.T) {
	tests := map[string]struct {
		lines   []string
		printed string
		failed  string
	}{
		"of a test": {[]string{
			`{"Action":"run","P","Test":"TestA/b"}`,
			`{"Action":"output","P","Test":"TestA/b","Output":"    a_test.go:3: wrong\n"}`,
			`{"Action":"fail","P","Test":"TestA/b","Elapsed":1}`,
			`{"Action":"fail","P","Elapsed":1}`,
		}, "a_test.go:3: wrong", "p TestA/b"},
		"of a program that exits": {[]string{
			`{"Action":"run","P","Test":"TestA"}`,
			`{"Action":"output","P","Test":"TestA","Output":"panic: oh\n"}`,
			`{"Action":"fail","P","Elapsed":1}`,
		}, "panic: oh", "p TestA"},
		"outside the tests": {[]string{
			`{"Action":"run","P","Test":"TestA"}`,
			`{"Action":"pass","P","Test":"TestA"}`,
			`{"Action":"output","P","Output":"leaked\n"}`,
			`{"Action":"fail","P","Elapsed":1}`,
		}, "leaked", "p"},
		"of a build": {[]string{
			`{"Action":"build-output","ImportPath":"x/q","Output":"q.go:1: syntax error\n"}`,
			`{"Action":"build-fail","ImportPath":"x/q"}`,
		}, "syntax error", "build of x/q"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c, printed := follow(t, tt.lines...)
			require.Contains(t, printed, tt.printed)
			var out bytes.Buffer
			require.False(t, conclude(&out, c, nil))
			require.Contains(t, out.String(), "FAILED: "+tt.failed+"\n")
			require.Contains(t, out.String(), " 1 failed")
		})
	}
}

// What the go command prints between events reaches people, and a go command
// that fails without a failed test fails the run.
func TestFailureOfTheCommand(t *testing.T) {
	c, printed := follow(t, "go: no such module", `{"Action":"pass","P","Test":"TestA"}`)
	require.Contains(t, printed, "no such module")
	require.True(t, conclude(&bytes.Buffer{}, c, nil))
	c.exited()
	require.False(t, conclude(&bytes.Buffer{}, c, nil))
}

func TestCounts(t *testing.T) {
	tests := []outcome{
		{Package: "p", Test: "TestA/b/c", Action: "fail"}, {Package: "p", Test: "TestA/b", Action: "fail"},
		{Package: "p", Test: "TestA/d", Action: "pass"}, {Package: "p", Test: "TestA", Action: "fail"},
		{Package: "p", Test: "TestE/f", Action: "skip"}, {Package: "p", Test: "TestE", Action: "pass"},
		{Package: "q", Test: "TestA", Action: "pass"}, {Package: "q", Test: "TestG", Action: "fail"}, {Package: "q", Test: "TestG/h", Action: "pass"},
	}
	require.Equal(t, 2, count(tests, "fail"))
	require.Equal(t, 3, count(tests, "pass"))
	require.Equal(t, 1, count(tests, "skip"))
}

// The second pass is to run exactly what the first one has skipped: not what is
// for the full suite or another rotation.
func TestSkippedTestsRunLater(t *testing.T) {
	c, _ := follow(t,
		`{"Action":"output","P","Test":"TestA/docker","Output":"    a_test.go:3: no Docker engine\n"}`,
		`{"Action":"skip","P","Test":"TestA/docker"}`,
		`{"Action":"output","P","Test":"TestB","Output":"    b_test.go:3: `+testenv.FullSuite+`hours\n"}`,
		`{"Action":"skip","P","Test":"TestB"}`,
		`{"Action":"output","P","Test":"TestC","Output":"    c_test.go:3: `+testenv.Rotation+`1/10\n"}`,
		`{"Action":"skip","P","Test":"TestC"}`)
	name := filepath.Join(t.TempDir(), "skipped")
	require.NoError(t, newSkipList(c.tests).write(name))
	list, err := readSkipList(name)
	require.NoError(t, err)
	pkg := module + "/p"
	require.Equal(t, skipList{pkg: {"TestA/docker": "no Docker engine"}}, list)
	require.Equal(t, "^TestA$/^docker$", list.pattern(pkg))

	end := func(action, reason string) []outcome {
		return []outcome{{Package: pkg, Test: "TestA/docker", Action: action, Reason: reason}}
	}
	require.Empty(t, list.missing(end("pass", "")))
	require.Empty(t, list.missing(end("skip", testenv.Rotation+"1/10")))
	require.Empty(t, list.missing(end("skip", "this machine has no IPv6 address")))
	require.Len(t, list.missing(end("skip", "no Docker engine")), 1)
	require.Len(t, list.missing(nil), 1)
	require.False(t, conclude(&bytes.Buffer{}, newCollector(nil), list))
}

// The pattern matches the tests of the list, and no others.
func TestPattern(t *testing.T) {
	list := skipList{"p": {"TestA/b": "", "TestC": "", "TestD/e_[f|g]": ""}}
	pattern := list.pattern("p")
	require.Equal(t, `^TestA$/^b$|^TestC$|^TestD$/^e_\[f\|g\]$`, pattern)
	require.True(t, regexp.MustCompile(`^e_\[f\|g\]$`).MatchString("e_[f|g]"))
}

// The time of a file depends on its content only.
func TestContentTime(t *testing.T) {
	a, err := contentTime("da39a3ee5e6b4b0d3255bfef95601890afd80709")
	require.NoError(t, err)
	b, err := contentTime("da39a3ee5e6b4b1d3255bfef95601890afd80709")
	require.NoError(t, err)
	require.NotEqual(t, a, b)
	require.Less(t, a.Year(), 2021)
	_, err = contentTime("x")
	require.Error(t, err)
}

func TestLedger(t *testing.T) {
	now := time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)
	all := []entry{
		{Commit: "a", Date: now.Add(-9 * 24 * time.Hour), Part: "1", Machine: "warm", summary: summary{Passed: 5}},
		{Commit: "b", Date: now.Add(-time.Hour), Part: "2", summary: summary{Passed: 5, Failed: 1, Names: []string{"p TestA"}}},
		{Commit: "c", Date: now.Add(-time.Hour), Part: "3", summary: summary{Failed: 1, Names: []string{"p TestB"}}, Issue: "7"},
	}
	var out bytes.Buffer
	printLedger(&out, all, now, func(string) (int, error) { return 4, nil })
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Equal(t, []string{
		"WARNING: full suite, part 1: 9 days and 4 commits ago at a: 5 passed, 0 failed, 0 s (warm)",
		"full suite, part 2: 0 days and 4 commits ago at b: 5 passed, 1 failed, 0 s ()",
		"WARNING: open failures of part 2, without an issue: p TestA",
		"full suite, part 3: 0 days and 4 commits ago at c: 0 passed, 1 failed, 0 s ()",
		"WARNING: full suite, part 4: never run (make test-full PART=4)",
	}, lines)
	_, found := last(all, "2", passed)
	require.False(t, found)
}

// The counts of the runs of one part are added.
func TestSummaryAdds(t *testing.T) {
	name := filepath.Join(t.TempDir(), "summary")
	c := newCollector(nil)
	c.tests = []outcome{{Package: "p", Test: "TestA", Action: "pass"}, {Package: "p", Test: "TestB", Action: "fail"}}
	require.NoError(t, addSummary(name, c, 2*time.Second))
	require.NoError(t, addSummary(name, c, 3*time.Second))
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	require.JSONEq(t, `{"passed":2,"failed":2,"seconds":5,"failures":["p TestB","p TestB"]}`, string(text))
}

// A test is run again only if its failure can be chance, and if no more than two
// failed.
func TestReruns(t *testing.T) {
	failed := func(name, output string) outcome {
		return outcome{Package: "p", Test: name, Action: "fail", Output: output}
	}
	parent := failed("TestA", "")
	tests := map[string]struct {
		tests  []outcome
		broken []string
		want   []string
	}{
		"the subtest that failed": {tests: []outcome{failed("TestA/b", "wrong"), {Package: "p", Test: "TestA/c", Action: "pass"}, parent}, want: []string{"TestA/b"}},
		"two":                     {tests: []outcome{failed("TestA/b", "wrong"), parent, failed("TestB", "")}, want: []string{"TestA/b", "TestB"}},
		"three":                   {tests: []outcome{parent, failed("TestB", ""), failed("TestC", "")}},
		"a race":                  {tests: []outcome{failed("TestA", "WARNING: DATA RACE\n")}},
		"a race and another":      {tests: []outcome{failed("TestB", ""), failed("TestA", "testing.go:1: race detected during execution of test")}},
		"a panic":                 {tests: []outcome{failed("TestA", "x\npanic: oh\n")}},
		"a program that ends":     {tests: []outcome{failed("TestA", noEnd)}},
		"a deadlock":              {tests: []outcome{failed("TestA", "fatal error: all goroutines are asleep - deadlock!")}},
		"a deadlock in a bubble":  {tests: []outcome{failed("TestA", "deadlock: main bubble goroutine has exited")}},
		"a leak":                  {tests: []outcome{failed("TestA", "leaked 2 goroutines")}},
		"an attack":               {tests: []outcome{failed("TestHostile/docker/reads_the_key", "")}},
		"a fence":                 {tests: []outcome{failed("TestRuntimeContract/fencing", "")}},
		"the kill matrix":         {tests: []outcome{failed("TestKilledAtEachStep/x", "")}},
		"a crash of the store":    {tests: []outcome{failed("TestSQLiteCrash", "")}},
		"claims at once":          {tests: []outcome{failed("TestPostgresRace", "")}},
		"a package":               {tests: []outcome{parent}, broken: []string{"q"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCollector(nil)
			c.tests, c.broken = tt.tests, tt.broken
			var names []string
			for _, o := range c.reruns() {
				names = append(names, o.Test)
			}
			require.Equal(t, tt.want, names)
		})
	}
}

// A test that has passed then is named, and fails its run no longer; one that has
// not does.
func TestExcuse(t *testing.T) {
	c := newCollector(nil)
	for _, name := range []string{"TestA/b/c", "TestA/b", "TestA/d", "TestA"} {
		c.tests = append(c.tests, outcome{Package: "p", Test: name, Action: "fail"})
	}
	c.excuse(c.tests[0])
	var out bytes.Buffer
	require.False(t, conclude(&out, c, nil))
	require.Contains(t, out.String(), "FLAKY p TestA/b/c\nFAILED: p TestA/d\nFAILED: p TestA\n")
	c.excuse(c.tests[2])
	require.True(t, conclude(&out, c, nil))
	require.Equal(t, []string{"p TestA/b/c", "p TestA/d"}, c.flaky)
}

// A run in which no test ran has not passed: a pattern may match none.
func TestRunWithoutTests(t *testing.T) {
	c, _ := follow(t, `{"Action":"pass","P","Elapsed":1}`)
	require.False(t, conclude(&bytes.Buffer{}, c, nil))
}
