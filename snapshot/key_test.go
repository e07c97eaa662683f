package snapshot

import (
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Different names have different escaped forms, and each is one path component
// that no file system interprets as something else.
func FuzzEscape(f *testing.F) {
	for _, s := range []string{"a", "A", "..", "a/b", "_2e", "é", "a.b", strings.Repeat("x", 200)} {
		f.Add(s, s+"_")
	}
	plain := regexp.MustCompile(`^[a-z0-9_.-]+$`)
	f.Fuzz(func(t *testing.T, a, b string) {
		if a == "" || b == "" {
			return
		}
		x, h := escapeName(a), escapeName(b)
		require.Equal(t, a == b, x == h)
		require.Regexp(t, plain, x)
		require.Equal(t, path.Base(x), x)
		require.Equal(t, path.Clean(x), x)
		require.NotContains(t, []string{".", ".."}, x)
		require.LessOrEqual(t, len(x), maxNameLength)
	})
}

// Globs have the meaning that they have in a shell with **.
func TestMatches(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"**", "a/b/c", true}, {"*", "a", true}, {"*", "a/b", false}, {"*.json", "x.json", true}, {"*.json", "d/x.json", false},
		{"**/*.json", "x.json", true}, {"**/*.json", "d/e/x.json", true}, {"**/*.json", "x.jsonl", false},
		{"d/**", "d", true}, {"d/**", "d/e/f", true}, {"d/**", "e/d", false}, {"d/**/f", "d/f", true}, {"d/**/f", "d/a/b/f", true},
		{"a?[0-9]", "ab7", true}, {"a?[0-9]", "ab", false}, {"a/b", "a/b/c", false}, {"config.json", "config.json", true},
		{strings.Repeat("**/a/", 40) + "b", strings.Repeat("a/", 200) + "c", false},
	} {
		require.Equal(t, c.want, matches(c.pattern, c.name), "%s %s", c.pattern, c.name)
	}
}
