package workload

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/hostler/hostler/hooks/variables"
)

// requireNormalized checks that Parse reads the hooks of w from their normal
// form, and that the normal form of those is the same.
func requireNormalized(t *testing.T, w *Workload) {
	t.Helper()
	text := w.NormalizedHooks()
	// A list with on and action may name what nothing supplies.
	environment := maps.Clone(w.Environment)
	if environment == nil {
		environment = map[string]string{}
	}
	for _, h := range w.EventHooks {
		for _, name := range h.Action.Names() {
			_, ours := variables.RuleOf(name)
			_, secret := w.Secrets[name]
			if !ours && !secret && w.Environment[name] == "" {
				environment[name] = "x"
			}
		}
	}
	source, err := yaml.Marshal(map[string]any{"id": "a", "image": "b", "environment": environment})
	require.NoError(t, err)
	source = append(source, text...)
	again, err := Parse(source, "normalized.yaml")
	require.NoError(t, err, "%s", source)
	require.Equal(t, w.Hooks, again.Hooks, "%s", source)
	require.Equal(t, w.EventHooks, again.EventHooks, "%s", source)
	require.Equal(t, w.Gates, again.Gates, "%s", source)
	require.Equal(t, w.Secrets, again.Secrets, "%s", source)
	require.Equal(t, string(text), string(again.NormalizedHooks()))
}

// The normal form of every form means the same.
func TestNormalizedHooks(t *testing.T) {
	files, err := filepath.Glob("testdata/*/*")
	require.NoError(t, err)
	examples, err := filepath.Glob("../examples/*/*.yaml")
	require.NoError(t, err)
	for _, file := range append(files, examples...) {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		w, err := Parse(source, file)
		require.NoError(t, err, file)
		requireNormalized(t, w)
	}
	for _, hook := range []string{
		`{name: "on", script: "  leading\n\n\ttab \r\n", environment: {A: "true", B: "${", C: " x\n"}}`,
		`{builtin: log, with: {message: "1.0"}}`,
		`{http: {url: "https://a.example/${HOOK}", body: "", auth: gcp}, on_error: retry}`,
		`{name: a, http: {url: "https://a.example"}, blocking: false, debounce: 90s}`,
	} {
		w, err := Parse([]byte(fileWith("hooks: {post_claim: [{command: [x]}, "+hook+", {command: [y], timeout: 1500}]}")), "")
		require.NoError(t, err, hook)
		requireNormalized(t, w)
	}
}

// A file without hooks has no normal form of them.
func TestNormalizedHooksOfNone(t *testing.T) {
	require.Empty(t, parseAccepted(t, "minimal.yaml").NormalizedHooks())
	text := string(parseAccepted(t, "listed.yaml").NormalizedHooks())
	require.True(t, strings.HasPrefix(text, "secrets:\n"), text)
}

// Options of any kind of value are the same after they were written.
func TestOptionsRoundTrip(t *testing.T) {
	read := func(text string) options {
		var n yaml.Node
		require.NoError(t, yaml.Unmarshal([]byte(text), &n))
		d, o := &decoder{nodes: map[string]*yaml.Node{}, invalid: map[string]bool{}}, options{}
		o.read(d, n.Content[0], "with", rule{})
		require.Empty(t, d.errs)
		return o
	}
	first := read(`{a: 1.0, b: 1.5, c: ~, d: "1", e: {f: [true, 1e3]}}`)
	var m mapping
	m.addAny("with", first)
	text, err := yaml.Marshal(m.node().Content[1])
	require.NoError(t, err)
	require.Equal(t, first, read(string(text)))
}
