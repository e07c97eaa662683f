package workload

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/hooks"
)

var update = flag.Bool("update", false, "rewrite the tables of docs/workload-file.md")

const docsFile = "../docs/workload-file.md"

// tables returns the generated parts of the documentation, by the name in their
// marker.
func tables() map[string]string {
	all := map[string]string{"points": pointsTable(), "gates": gatesTable(), "unsupported keys": unsupportedKeysTable(), "aliases": aliasesTable()}
	for name, t := range mappings {
		all[name] = table(t)
	}
	return all
}

// mappings are the tables that are generated from the types of file.go.
var mappings = map[string]reflect.Type{
	"file":          reflect.TypeFor[file](),
	"healthcheck":   reflect.TypeFor[healthcheckFile](),
	"limits":        reflect.TypeFor[limitsFile](),
	"volumes":       reflect.TypeFor[volumesFile](),
	"volume":        reflect.TypeFor[volumeFile](),
	"custom volume": reflect.TypeFor[customVolumeFile](),
	"pool":          reflect.TypeFor[poolFile](),
	"sync":          reflect.TypeFor[syncFile](),
	"memory":        reflect.TypeFor[memoryFile](),
	"s3 sink":       reflect.TypeFor[s3SinkFile](),
	"gcs sink":      reflect.TypeFor[gcsSinkFile](),
	"azure sink":    reflect.TypeFor[azureSinkFile](),
	"credentials":   reflect.TypeFor[credentialsFile](),
	"file sink":     reflect.TypeFor[dirSinkFile](),
	"mapping":       reflect.TypeFor[mappingFile](),
	"policy":        reflect.TypeFor[policyFile](),
	"hook":          reflect.TypeFor[hookFile](),
	"http":          reflect.TypeFor[requestFile](),
	"webhook":       reflect.TypeFor[webhookFile](),
	"auth":          reflect.TypeFor[authFields](),
	"hook limits":   reflect.TypeFor[hookLimitsFile](),
	"stop on":       reflect.TypeFor[stopOnFile](),
	"secret":        reflect.TypeFor[secretFile](),
	"parameter":     reflect.TypeFor[parameterFile](),
	"listed hook":   reflect.TypeFor[listedHookFile](),
	"listed secret": reflect.TypeFor[listedSecretFile](),
}

// typeNames are the names of the types of values.
var typeNames = map[reflect.Type]string{
	reflect.TypeFor[argv]():           "list of text",
	reflect.TypeFor[environment]():    "mapping or list",
	reflect.TypeFor[userSpec]():       "text or number",
	reflect.TypeFor[duration]():       "duration",
	reflect.TypeFor[size]():           "size",
	reflect.TypeFor[cores]():          "number or text",
	reflect.TypeFor[healthTest]():     "list or text",
	reflect.TypeFor[prefixTemplate](): "text",
	reflect.TypeFor[sinkFile]():       "mapping",
	reflect.TypeFor[hooksFile]():      "mapping",
	reflect.TypeFor[shellArgs]():      "list of text",
	reflect.TypeFor[options]():        "mapping",
	reflect.TypeFor[headersFile]():    "mapping",
	reflect.TypeFor[captureFile]():    "mapping",
	reflect.TypeFor[authFile]():       "mapping or text",
	reflect.TypeFor[secretMap]():      "mapping",
	reflect.TypeFor[parameterMap]():   "mapping",
	reflect.TypeFor[listedAction]():   "mapping",
}

func typeNameOf(t reflect.Type) string {
	if w, ok := typeNames[t]; ok {
		return w
	}
	switch t.Kind() {
	case reflect.Pointer:
		return typeNameOf(t.Elem())
	case reflect.Struct:
		return "mapping"
	case reflect.Slice:
		return "list of " + strings.NewReplacer("mapping", "mappings", "number", "numbers").Replace(typeNameOf(t.Elem()))
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "whole number"
	}
	return "text"
}

// describeRule describes a rule in words.
func describeRule(r rule) string {
	var parts []string
	switch len(r.enum) {
	case 0:
	case 1:
		parts = append(parts, "Always `"+r.enum[0]+"`.")
	default:
		parts = append(parts, "One of `"+strings.Join(r.enum, "`, `")+"`.")
	}
	switch {
	case r.min != "" && r.max != "":
		parts = append(parts, fmt.Sprintf("From %s to %s.", r.min, r.max))
	case r.max != "":
		parts = append(parts, fmt.Sprintf("At most %s.", r.max))
	}
	if r.pattern != nil && r.pattern.String() != "^.+$" { // "not empty" needs no description
		parts = append(parts, strings.ToUpper(r.hint[:1])+r.hint[1:]+".")
	}
	if r.unique {
		parts = append(parts, "No duplicates.")
	}
	return strings.Join(parts, " ")
}

func table(t reflect.Type) string {
	var b strings.Builder
	b.WriteString("| key | value | default | meaning |\n|---|---|---|---|\n")
	for _, f := range fieldsOf(t) {
		defaultText := ""
		switch {
		case f.required:
			defaultText = "**required**"
		case f.rule.hasDefault:
			defaultText = "`" + f.rule.defaultValue + "`"
		}
		doc := strings.TrimSpace(f.doc + " " + describeRule(f.rule))
		if f.alias != "" {
			doc += " Alias: `" + f.alias + "`."
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.name, typeNameOf(t.FieldByIndex(f.index).Type), defaultText, strings.ReplaceAll(doc, "|", "\\|"))
	}
	return b.String()
}

func pointsTable() string {
	var b strings.Builder
	b.WriteString("| point | when the hooks run, and what a failure does |\n|---|---|\n")
	for _, p := range hooks.Points() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", p.Point, p.Doc)
	}
	return b.String()
}

func gatesTable() string {
	var b strings.Builder
	b.WriteString("| gate | other names | what is checked | builtins |\n|---|---|---|---|\n")
	code := func(names []string) string {
		if len(names) == 0 {
			return ""
		}
		return "`" + strings.Join(names, "`, `") + "`"
	}
	for _, g := range hooks.Gates() {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", g.Gate, code(g.Aliases), g.Doc, code(g.Builtins))
	}
	return b.String()
}

// aliasesTable has the aliases of events of which this version records some.
func aliasesTable() string {
	var b strings.Builder
	b.WriteString("| name | types |\n|---|---|\n")
	for _, a := range hooks.EventAliases() {
		var types []string
		for _, name := range a.Types {
			if isRecorded(name) {
				types = append(types, "`"+name+"`")
			}
		}
		if len(types) == 0 && a.Types != nil {
			continue
		}
		names := "`" + strings.Join(append([]string{a.Name}, a.Aliases...), "`, `") + "`"
		fmt.Fprintf(&b, "| %s | %s |\n", names, strings.TrimSpace(a.Doc+" "+strings.Join(types, ", ")))
	}
	return b.String()
}

func unsupportedKeysTable() string {
	var b strings.Builder
	b.WriteString("| key | instead |\n|---|---|\n")
	for _, key := range slices.Sorted(maps.Keys(unsupportedKeys)) {
		fmt.Fprintf(&b, "| `%s` | %s |\n", key, unsupportedKeys[key])
	}
	return b.String()
}

var tableRegexp = regexp.MustCompile(`(?s)<!-- table: ([a-z0-9 ]+) -->\n.*?<!-- end -->`)

// The tables of the documentation match the tags that the decoder uses. To update
// them: go test ./workload -run Documented -update.
func TestTablesAreDocumented(t *testing.T) {
	old, err := os.ReadFile(docsFile)
	require.NoError(t, err)
	all, seen := tables(), map[string]bool{}
	now := tableRegexp.ReplaceAllStringFunc(string(old), func(section string) string {
		name := tableRegexp.FindStringSubmatch(section)[1]
		require.Contains(t, all, name)
		seen[name] = true
		return "<!-- table: " + name + " -->\n" + all[name] + "<!-- end -->"
	})
	require.Len(t, seen, len(all), "every table is in the documentation")
	if *update {
		require.NoError(t, os.WriteFile(docsFile, []byte(now), 0o644))
		return
	}
	require.Equal(t, now, string(old), "go test ./workload -run Documented -update updates it")
}

// The example in the documentation is a complete, valid file.
func TestDocumentedExample(t *testing.T) {
	text, err := os.ReadFile(docsFile)
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(text), "```yaml\n")
	require.True(t, ok)
	example, _, ok := strings.Cut(rest, "```")
	require.True(t, ok)
	_, err = Parse([]byte(example), docsFile)
	require.NoError(t, err)
}

// The examples in the documentation of hooks are valid, without a note.
func TestDocumentedHooks(t *testing.T) {
	const file = "../docs/hooks.md"
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	blocks := strings.Split(string(text), "```yaml\n")[1:]
	require.NotEmpty(t, blocks)
	for _, block := range blocks {
		hooks, _, ok := strings.Cut(block, "```")
		require.True(t, ok)
		if !strings.HasPrefix(hooks, "hooks:") {
			hooks = "hooks:\n" + hooks // a part of a file
		}
		w, err := Parse([]byte("id: a\nimage: b\n"+hooks), file)
		require.NoError(t, err, hooks)
		require.Empty(t, w.Notes, hooks)
	}
}
