package variables

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const document = `{"id": "a\"${T}", "n": 1.50, "big": 12345678901234567890, "t": true, "null": null, "items": [{"id": 7}, ["x"]],
	"display-name": "d", "a.b": "dot", "it's": "quote", "q\"": "double", "ü": "umlaut", "": "empty", "html": "<&>", "obj": {"b": "<", "a": [1, null]}, "dup": 1, "dup": 2}`

// A path selects one value.
func TestPath(t *testing.T) {
	for text, want := range map[string]string{
		"$.id": `a"${T}`, "$.n": "1.50", "$.big": "12345678901234567890", "$.t": "true", "$.items[0].id": "7", "$.items[1][0]": "x",
		`$["display-name"]`: "d", `$['display-name']`: "d", `$["a.b"]`: "dot", `$['it\'s']`: "quote", `$["it's"]`: "quote", `$["q\""]`: "double", `$['q"']`: "double",
		"$.ü": "umlaut", `$["\u00fc"]`: "umlaut", `$[""]`: "empty", "$.html": "<&>", "$.obj": `{"a":[1,null],"b":"<"}`, "$.items": `[{"id":7},["x"]]`, "$.dup": "2",
		"$.null": "-", "$.missing": "-", "$.items[2]": "-", "$.items.id": "-", "$.id[0]": "-", "$[0]": "-", "$.null.a": "-", "$.ID": "-", "$.obj.a[1]": "-", "$.items[2147483647]": "-",
	} {
		p, err := ParsePath(text)
		require.NoError(t, err, text)
		require.Equal(t, text, p.String())
		got, ok, err := p.Find([]byte(document))
		require.NoError(t, err, text)
		require.Equal(t, want != "-", ok, text)
		if ok {
			require.Equal(t, want, got, text)
		}
	}
	for data, want := range map[string]string{`"s"`: "s", " [1]\n": "[1]", "12": "12", `"\ud800"`: "\uFFFD"} {
		got, ok, err := Path{}.Find([]byte(data))
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, want, got)
	}
	for _, data := range []string{"", "<html>s3cret", `{"a": 1} x`, `{"a": 1`, "\xff", "NaN"} {
		_, ok, err := Path{}.Find([]byte(data))
		require.EqualError(t, err, "not JSON", data)
		require.False(t, ok)
	}
}

// A syntax error is where the reader has to change the text.
func TestPathSyntax(t *testing.T) {
	for text, want := range map[string]string{
		"":               "at offset 0: a path begins with $",
		"id":             "at offset 0: a path begins with $",
		".id":            "at offset 0: a path begins with $",
		"$id":            `at offset 1: 'i' is not part of a path`,
		"$.":             "at offset 2: a key is missing",
		"$..id":          "at offset 2: a key is missing",
		"$.*":            "at offset 2: a key is missing: write .key, or [\"key\"] for a key with special characters; a path selects one value",
		"$.a-b":          `at offset 3: '-' is not part of a path`,
		"$.1":            "at offset 2: a key is missing",
		"$.a b":          `at offset 3: ' ' is not part of a path`,
		"$[]":            "at offset 2: not an index",
		"$[*]":           "at offset 2: not an index: write [0] or [\"key\"]; a path selects one value",
		"$[-1]":          "at offset 2: not an index",
		"$[01]":          "at offset 2: not an index",
		"$[+1]":          "at offset 2: not an index",
		"$[1":            "at offset 2: not an index",
		"$[1:2]":         "at offset 2: not an index",
		"$[4294967296]":  "at offset 2: not an index",
		`$["a`:           "at offset 1: a key in brackets without its end",
		`$["a\"]`:        "at offset 1: a key in brackets without its end",
		`$["a"`:          "at offset 1: a key in brackets without its end",
		`$["a","b"]`:     "at offset 1: a key in brackets without its end",
		`$["\x"]`:        "at offset 2: a key that is not a JSON string",
		"$['\n']":        "at offset 2: a key that is not a JSON string",
		"$.a\xff":        "at offset 3: not valid UTF-8",
		"$.a[?(@.b==1)]": "at offset 4: not an index",
	} {
		_, err := ParsePath(text)
		require.ErrorContains(t, err, want, "%q", text)
		require.IsType(t, &SyntaxError{}, err)
	}
}

// What takes a path's time is proportional to the length of the path and of the
// JSON.
func TestLargePaths(t *testing.T) {
	const n = 100_000
	p, err := ParsePath("$" + strings.Repeat("[0]", n))
	require.NoError(t, err)
	_, ok, err := p.Find([]byte(strings.Repeat("[", 9_999) + strings.Repeat("]", 9_999)))
	require.NoError(t, err)
	require.False(t, ok)
	_, _, err = p.Find([]byte(strings.Repeat("[", n) + strings.Repeat("]", n)))
	require.EqualError(t, err, "not JSON") // nested too deeply
	_, err = ParsePath("$" + strings.Repeat(`["`, n))
	require.Error(t, err)
}
