package workload

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

// For any input, Parse returns a complete workload or validation errors. The
// schema accepts what Parse accepts, and the style of a file does not change its
// meaning.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/accepted/*")
	require.NoError(f, err)
	for _, file := range files {
		source, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(source)
	}
	for _, c := range invalidHookFiles {
		if len(c.source) < 1<<10 {
			f.Add([]byte(c.source))
		}
	}
	for _, c := range invalidFiles {
		// The fuzzer would spend its time minimizing long inputs.
		if len(c.source) < 1<<10 {
			f.Add([]byte(c.source))
		}
	}
	validator := compileSchema(f)
	f.Fuzz(func(t *testing.T, source []byte) {
		requireFewNodes(t, source)
		w, err := Parse(source, "w.yaml")
		if err != nil {
			var invalid ValidationErrors
			require.True(t, errors.As(err, &invalid))
			require.NotEmpty(t, invalid)
			require.LessOrEqual(t, len(invalid), maxErrors)
			require.Nil(t, w)
			return
		}
		require.NotEmpty(t, w.ID)
		require.NotEmpty(t, w.Image)
		if doc, ok := asJSON(fromJSON(source)); ok {
			require.NoError(t, validator.Validate(doc))
		}
		again, err := Parse(w.Source, "w.yaml")
		require.NoError(t, err)
		require.Equal(t, w.Revision, again.Revision)
		requireNormalized(t, w)
		for _, style := range []yaml.Style{0, yaml.FlowStyle} {
			other := restyled(t, source, style)
			again, err := Parse(other, "w.yaml")
			require.NoError(t, err, "%s", other)
			require.Equal(t, w.Revision, again.Revision, "%s", other)
		}
	})
}

// restyled returns a document in another style and without comments.
func restyled(t *testing.T, source []byte, style yaml.Style) []byte {
	t.Helper()
	root, invalid := parseNode(source)
	require.Nil(t, invalid)
	var walk func(n *yaml.Node)
	walk = func(n *yaml.Node) {
		n.HeadComment, n.LineComment, n.FootComment = "", "", ""
		if n.Kind != yaml.ScalarNode && n.Kind != yaml.AliasNode {
			n.Style = style
		}
		for _, c := range n.Content {
			walk(c)
		}
	}
	walk(root)
	text, err := yaml.Marshal(root)
	require.NoError(t, err)
	return text
}

// A parsed duration is not negative, and parsing its Go notation returns the same
// duration.
func FuzzDuration(f *testing.F) {
	for _, s := range []string{"500ms", "1m30s", "9999999999h", "-1s", "0", "1h2m3s4ms", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := parseDuration(s)
		if err != nil {
			require.Zero(t, d)
			return
		}
		require.GreaterOrEqual(t, d, time.Duration(0))
		again, err := time.ParseDuration(d.String())
		require.NoError(t, err)
		require.Equal(t, d, again)
	})
}

// A parsed size is not negative and within limits.
func FuzzSize(f *testing.F) {
	for _, s := range []string{"512m", "1.5g", "1GiB", "999999999999999t", "-1", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := parseSize(s)
		if err != nil {
			require.Zero(t, n)
			return
		}
		require.GreaterOrEqual(t, n, int64(0))
		require.LessOrEqual(t, n, int64(1)<<60)
	})
}
