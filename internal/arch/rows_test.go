package arch

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// rowTables are the tables of docs/hook-rows.md with the number of their rows;
// 0 for a table whose numbers have gaps.
var rowTables = map[string]int{"Scion": 112, "Boilerhouse": 62, "CFN": 64, "lionagi": 34, "Edge cases": 0}

var (
	rowRegexp       = regexp.MustCompile(`^\| (\d+) \| (.+?) \| (\w+) \| (.+) \|$`)
	namedTestRegexp = regexp.MustCompile("`((?:[a-z0-9/-]+\\.)?(?:Test|Fuzz|Benchmark)[A-Z]\\w*)`")
	testFuncRegexp  = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)[A-Z]\w*)\(`)
)

// Every row of docs/hook-rows.md is there, and has a test that exists or what it
// waits for.
func TestHookRows(t *testing.T) {
	root := filepath.Join("..", "..")
	text, err := os.ReadFile(filepath.Join(root, "docs", "hook-rows.md"))
	require.NoError(t, err)
	tests := testsOf(t, root)
	named := 0
	for _, m := range namedTestRegexp.FindAllStringSubmatch(string(text), -1) {
		require.True(t, tests[m[1]], "there is no %s", m[1])
		named++
	}
	require.Greater(t, named, 500)
	for title, count := range rowTables {
		_, table, ok := strings.Cut(string(text), "\n## "+title+"\n")
		require.True(t, ok, title)
		table, _, _ = strings.Cut(table, "\n## ")
		last := 0
		for line := range strings.Lines(table) {
			if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| | ") {
				continue
			}
			m := rowRegexp.FindStringSubmatch(strings.TrimSpace(line))
			require.NotNil(t, m, "%s: %s", title, line)
			number, err := strconv.Atoi(m[1])
			require.NoError(t, err)
			require.Greater(t, number, last, title)
			require.True(t, count == 0 || number == last+1, "%s %d: the one before is missing", title, number)
			last = number
			require.Contains(t, []string{"kept", "differs", "later"}, m[3], "%s %d", title, number)
			require.True(t, m[3] == "later" || namedTestRegexp.MatchString(m[4]), "%s %d names no test", title, number)
		}
		require.True(t, count == 0 && last > 0 || last == count, "%s has %d rows", title, last)
	}
}

// testsOf returns the tests of a module, as PACKAGE.NAME and as NAME.
func testsOf(t *testing.T, root string) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != root {
			if err == nil {
				err = fs.SkipDir
			}
			return err
		}
		if d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		source, err := os.ReadFile(path)
		for _, m := range testFuncRegexp.FindAllSubmatch(source, -1) {
			all[filepath.ToSlash(dir)+"."+string(m[1])], all[string(m[1])] = true, true
		}
		return err
	})
	require.NoError(t, err)
	return all
}
