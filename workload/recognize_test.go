package workload

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A file is a workload's by its fields, also if it is invalid. Files of other
// programs are not.
func TestIsWorkload(t *testing.T) {
	for name, test := range map[string]struct {
		file, text string
		want       bool
	}{
		"workload":            {"w.yaml", "id: w\nimage: box\n", true},
		"without id":          {"w.yaml", "image: box\n", true},
		"only a pool":         {"w.yaml", "pool: { min_idle: 1 }\n", true},
		"on one line":         {"w.yaml", "{ id: w, image: box }\n", true},
		"syntax error":        {"w.yaml", "id: w\nimage: [\n", true},
		"second document":     {"w.yaml", "id: w\nimage: box\n---\nid: v\n", true},
		"front matter":        {"w.md", "---\nid: w\nimage: box\n---\nText.\n", true},
		"compose":             {"compose.yaml", "name: x\nservices:\n  web:\n    image: nginx\nvolumes: { data: {} }\n", false},
		"values of a chart":   {"values.yaml", "image:\n  repository: x\n", false},
		"manifests":           {"m.yaml", "apiVersion: v1\nkind: Pod\n---\napiVersion: v1\n", false},
		"template":            {"t.yaml", "apiVersion: v1\n{{- if .Values.x }}\nkind: Pod\n  id: x\n", false},
		"list":                {"l.yaml", "- id: w\n", false},
		"empty":               {"e.yaml", "# nothing\n", false},
		"other front matter":  {"post.md", "---\ntitle: x\n---\nid: w\n", false},
		"alias of the fields": {"w.yaml", "x: &a { id: w }\ny: *a\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, test.want, IsWorkload([]byte(test.text), test.file))
		})
	}
}
