package workload

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// repeated is a file with a value of size bytes that n aliases repeat.
func repeated(size, n int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "id: w\nimage: box\nenvironment:\n  A: &s %s\n", strings.Repeat("k", size))
	for i := range n {
		fmt.Fprintf(&b, "  B%d: *s\n", i)
	}
	return b.String()
}

// Aliases cannot make a small file large: a revision and a plan have a copy of each
// value, and without a bound a file of 1 MiB would need 25 GB of the server.
func TestAliasesAreBounded(t *testing.T) {
	_, err := Parse([]byte(repeated(1000, 1030)), "w.yaml")
	require.NoError(t, err)
	for _, large := range []string{repeated(1000, 1060), repeated(500_000, 40_000)} {
		_, err = Parse([]byte(large), "w.yaml")
		require.ErrorContains(t, err, "is one of values of more than 1048576 bytes together")
	}
}

// The copies of hooks_from repeat no comment: a file of 1 MiB with one of 900 KB and
// fifteen thousand aliases would need 13 GB of the server.
func TestCommentsAreNotMultiplied(t *testing.T) {
	other, err := Parse([]byte("id: other\nimage: x\nhooks: {post_claim: [{command: [a]}]}\n"), "other.yaml")
	require.NoError(t, err)
	comment := "# " + strings.Repeat("c", 10_000)
	for _, value := range []string{"&s x " + comment, "&s " + comment + "\n    x"} {
		var b strings.Builder
		fmt.Fprintf(&b, "id: w\nimage: box\nhooks_from: other\nenvironment:\n  A: %s\n", value)
		for i := range 200 {
			fmt.Fprintf(&b, "  B%d: *s\n", i)
		}
		w, err := Parse([]byte(b.String()), "w.yaml")
		require.NoError(t, err)
		merged, err := w.WithHooksOf(other, "w.yaml")
		require.NoError(t, err)
		require.LessOrEqual(t, strings.Count(string(merged.Source), comment), 1)
		require.Equal(t, w.Environment, merged.Environment)
	}
}

// A file with thousands of unknown keys costs no comparison of each with all keys.
func TestManyErrorsAreCheap(t *testing.T) {
	d := &decoder{errs: make(ValidationErrors, maxErrors)}
	require.Empty(t, d.hintFor("imag", []string{"image"}))
	d.errs = d.errs[1:]
	require.Equal(t, "did you mean image?", d.hintFor("imag", []string{"image"}))
}
