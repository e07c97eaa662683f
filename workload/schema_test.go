package workload

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/hostler/hostler/hooks"
)

// compileSchema compiles the schema with an independent validator.
func compileSchema(t testing.TB) *jsonschema.Schema {
	t.Helper()
	text, err := Schema()
	require.NoError(t, err)
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("workload.json", doc))
	s, err := c.Compile("workload.json")
	require.NoError(t, err)
	return s
}

// asJSON converts a YAML document to the form that an editor passes to a
// validator. It returns false if that is not possible.
func asJSON(source []byte) (any, bool) {
	var v any
	if err := yaml.Unmarshal(source, &v); err != nil {
		return nil, false
	}
	text, err := json.Marshal(v)
	if err != nil {
		return nil, false
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	return doc, err == nil
}

// The schema accepts what Parse accepts.
func TestSchemaAccepts(t *testing.T) {
	s := compileSchema(t)
	files, err := filepath.Glob("testdata/accepted/*")
	require.NoError(t, err)
	examples, err := filepath.Glob("../examples/*/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, examples)
	for _, file := range append(files, examples...) {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		_, err = Parse(source, file)
		require.NoError(t, err)
		doc, ok := asJSON(fromJSON(source))
		require.True(t, ok, file)
		require.NoError(t, s.Validate(doc), file)
	}
}

// parseOnly has the names of the errors that only Parse finds: those that depend
// on several fields or elements, limits of quantities that are text, and what is
// lost in the conversion from YAML to JSON.
var parseOnly = map[string]bool{
	"command has no program": true, "hook timeout too long": true, "memory too small": true, "memory too large": true, "interval": true,
	"command too long": true, "variable twice": true, "NUL in an argument": true,
	"resolver": true, "unknown tag": true, "unknown tag on a mapping": true,
	"target /": true, "target //": true, "target with ..": true, "target with a slash": true, "target reserved by Hostler": true,
	"target reserved by the kernel": true, "target twice": true, "target nested": true,
	"volume name twice": true, "volume name taken": true,
	"seed outside": true, "seed outside, not clean": true, "seed absolute": true, "seed is the directory itself": true, "seed is empty": true,
	"idle more than size": true,
	"credentials empty":   true, "credentials twice": true, "sink path not clean": true, "state too large": true,
	"same sink path twice": true, "sink path reserved": true, "prefix with a variable": true, "prefix with ..": true,
	"no mappings and no state": true, "mapping without state": true, "mapping with ..": true, "mapping not clean": true,
	"mapping twice": true, "mapping on a read-only root": true, "mapping's pattern": true, "mapping's sink path": true,
	"hook names": true, "retries without on_error": true, "reserved variable": true,
	"two documents": true, // asJSON reads the first
}

// The schema rejects what Parse rejects, except for what a schema cannot express.
func TestSchemaRejects(t *testing.T) {
	s := compileSchema(t)
	validated := map[string]bool{}
	for _, c := range invalidFiles {
		doc, ok := asJSON([]byte(c.source))
		if !ok {
			continue
		}
		validated[c.name] = true
		rejected := s.Validate(doc) != nil
		require.Equal(t, !parseOnly[c.name], rejected, "%s: %s", c.name, c.source)
	}
	for name := range parseOnly {
		require.True(t, validated[name], name)
	}
	require.Greater(t, len(validated), len(invalidFiles)*9/10)
}

// Every key has a description, and every point that of its row.
func TestSchemaDescribes(t *testing.T) {
	text, err := Schema()
	require.NoError(t, err)
	var root schema
	require.NoError(t, json.Unmarshal(text, &root))
	var walk func(at string, v any)
	walk = func(at string, v any) {
		m, ok := v.(map[string]any)
		if !ok {
			return
		}
		if properties, ok := m["properties"].(map[string]any); ok {
			if _, ok := properties["type"]; !ok || len(properties) > 1 { // else it only selects one that is closed
				require.Equal(t, false, m["additionalProperties"], at)
			}
			for name, p := range properties {
				if _, isCondition := p.(map[string]any)["const"]; isCondition {
					continue
				}
				require.NotEmpty(t, p.(map[string]any)["description"], at+"/"+name)
			}
		}
		for name, child := range m {
			walk(at+"/"+name, child)
		}
	}
	walk("", map[string]any(root))
	for _, rule := range hooks.Points() {
		require.Contains(t, string(text), rule.Doc)
	}
}

// The schema is never stricter than Parse: an editor must not reject what the
// server accepts. Every value of some accepted files is replaced in turn by
// others of all kinds.
func TestSchemaIsNeverStricter(t *testing.T) {
	t.Parallel()
	s := compileSchema(t)
	others := []string{
		"0", "30000", "1.5", "true", "~", "''", "x", "1m30s", "512m", "/a", "a:b", "retry", "'${tenantId}'", "[]", "[A=b]", "{}", "{a: b}",
	}
	accepted := 0
	for _, file := range []string{"whole.yaml", "compose.yaml", "hooks.yaml", "listed.yaml", "names.yaml"} {
		source, err := os.ReadFile(filepath.Join("testdata", "accepted", file))
		require.NoError(t, err)
		var root yaml.Node
		require.NoError(t, yaml.Unmarshal(source, &root))
		var try func(n *yaml.Node)
		try = func(n *yaml.Node) {
			kept := *n
			for _, other := range others {
				var value yaml.Node
				require.NoError(t, yaml.Unmarshal([]byte(other), &value))
				*n = *value.Content[0]
				n.Anchor = kept.Anchor
				text, err := yaml.Marshal(&root)
				require.NoError(t, err)
				if _, err := Parse(text, file); err != nil {
					continue
				}
				accepted++
				doc, ok := asJSON(text)
				require.True(t, ok, "%s", text)
				require.NoError(t, s.Validate(doc), "%s", text)
			}
			*n = kept
			for i, c := range n.Content {
				if n.Kind != yaml.MappingNode || i%2 == 1 {
					try(c)
				}
			}
		}
		try(root.Content[0])
	}
	require.Greater(t, accepted, 200)
}
