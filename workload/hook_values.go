package workload

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/hostler/hostler/hooks"
)

// scriptText is the text of a script.
type scriptText string

func (v *scriptText) read(d *decoder, n *yaml.Node, at string, _ rule) {
	s := d.text(n, at, rule{})
	*v = scriptText(s)
	switch {
	case d.invalid[at]:
	case strings.TrimSpace(s) == "":
		d.addError(n, at, "is empty", "write a script, or remove it")
	case len(s) > hooks.MaxScript:
		d.addError(n, at, fmt.Sprintf("is %d bytes long, more than %d", len(s), hooks.MaxScript), "put it into the image")
	}
}

func (v *scriptText) schema(*generator, rule) schema {
	return schema{"type": "string", "pattern": `\S`}
}

// shellArgs is the argv of a shell.
type shellArgs []string

func (v *shellArgs) read(d *decoder, n *yaml.Node, at string, r rule) { (*argv)(v).read(d, n, at, r) }

func (v *shellArgs) schema(g *generator, r rule) schema { return (*argv)(v).schema(g, r) }

// options are the options of a builtin: any value that JSON can have.
type options map[string]any

func (v *options) read(d *decoder, n *yaml.Node, at string, _ rule) {
	if n.Kind != yaml.MappingNode {
		d.addError(n, at, "is "+kindOf(n)+", not a mapping", "write the names of options with values")
		return
	}
	*v = options{}
	for _, p := range pairs(n) {
		(*v)[p.key.Value] = d.anyValue(p.value, keyOf(at, p.key.Value))
	}
}

// anyValue reads a node of any kind.
func (d *decoder) anyValue(n *yaml.Node, at string) any {
	n = resolve(n)
	switch n.Kind {
	case yaml.MappingNode:
		m := map[string]any{}
		for _, p := range pairs(n) {
			m[p.key.Value] = d.anyValue(p.value, keyOf(at, p.key.Value))
		}
		return m
	case yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, e := range n.Content {
			list[i] = d.anyValue(e, elementOf(at, i))
		}
		return list
	}
	switch n.ShortTag() {
	case "!!int":
		i, _ := scalar[int](d, n, at, "!!int", "a smaller number")
		return i
	case "!!float":
		f, err := strconv.ParseFloat(n.Value, 64)
		if err != nil {
			d.addError(n, at, "is "+truncate(n.Value)+", which JSON does not have", "write a number")
		}
		if whole := int(f); float64(whole) == f {
			return whole // JSON does not distinguish them
		}
		return f
	case "!!bool":
		b, _ := scalar[bool](d, n, at, "!!bool", "true or false, without quotes")
		return b
	case "!!null":
		return nil
	}
	return n.Value
}

func (v *options) schema(*generator, rule) schema { return schema{"type": "object"} }

// readTexts reads a mapping of text.
func (d *decoder) readTexts(n *yaml.Node, at, hint string, check func(p pair, child string)) map[string]string {
	if n.Kind != yaml.MappingNode {
		d.addError(n, at, "is "+kindOf(n)+", not a mapping", hint)
		return nil
	}
	all := map[string]string{}
	for _, p := range pairs(n) {
		child := keyOf(at, p.key.Value)
		d.nodes[child] = p.value
		if message, hint := checkVariableValue(p.value); message != "" {
			d.addError(p.value, child, message, hint)
			continue
		}
		check(p, child)
		all[p.key.Value] = p.value.Value
	}
	return all
}

// headersFile are the headers of a request.
type headersFile map[string]string

const headerPattern = "^[A-Za-z0-9!#$%&'*+.^_`|~-]+$"

var headerRegexp = regexp.MustCompile(headerPattern)

func (v *headersFile) read(d *decoder, n *yaml.Node, at string, _ rule) {
	seen := map[string]string{}
	*v = d.readTexts(n, at, "write names with values", func(p pair, child string) {
		lower := strings.ToLower(p.key.Value)
		switch {
		case !headerRegexp.MatchString(p.key.Value):
			d.addError(p.key, child, fmt.Sprintf("%q is not the name of a header", truncate(p.key.Value)), "write letters, digits and dashes")
		case !hooks.IsHeaderAllowed(lower):
			d.addError(p.key, child, "is set by Hostler", "remove it")
		case seen[lower] != "":
			d.addError(p.key, child, "is the same header as "+seen[lower], "keep one of them")
		}
		seen[lower] = p.key.Value
	})
}

func (v *headersFile) schema(*generator, rule) schema {
	return schema{
		"type": "object", "propertyNames": schema{"pattern": headerPattern},
		"additionalProperties": schema{"type": []string{"string", "number", "boolean"}},
	}
}

// captureFile has the paths of captured values by name.
type captureFile map[string]string

const namePattern = `^[A-Za-z_][A-Za-z0-9_]{0,62}$`

var nameRegexp = regexp.MustCompile(namePattern)

const nameHint = "write letters, digits and _, beginning with a letter or _, at most 63"

// maxCaptures is the max number of values that a hook captures. They are stored
// with each run of it.
const maxCaptures = 32

func (v *captureFile) read(d *decoder, n *yaml.Node, at string, _ rule) {
	if count := len(n.Content) / 2; n.Kind == yaml.MappingNode && count > maxCaptures {
		d.addError(n, at, fmt.Sprintf("has %d values, more than %d", count, maxCaptures), "capture an object, and read it in a script")
		return
	}
	*v = d.readTexts(n, at, "write names with paths such as $.id", func(p pair, child string) {
		if !nameRegexp.MatchString(p.key.Value) {
			d.addError(p.key, child, fmt.Sprintf("%q is not the name of a value", truncate(p.key.Value)), nameHint)
		}
	})
}

func (v *captureFile) schema(*generator, rule) schema {
	return schema{
		"type": "object", "propertyNames": schema{"pattern": namePattern}, "maxProperties": maxCaptures,
		"additionalProperties": schema{"type": []string{"string", "number", "boolean"}},
	}
}

// authFile is how a request is authenticated: the name of a way, or a mapping.
type authFile struct {
	authFields
}

func (v *authFile) read(d *decoder, n *yaml.Node, at string, _ rule) {
	if n.Kind != yaml.MappingNode {
		n = &yaml.Node{Kind: yaml.MappingNode, Line: n.Line, Column: n.Column, Content: []*yaml.Node{
			{Kind: yaml.ScalarNode, Value: "type", Line: n.Line, Column: n.Column}, n,
		}}
	}
	d.readStruct(n, at, reflect.ValueOf(&v.authFields).Elem(), rule{})
}

func (v *authFile) schema(g *generator, _ rule) schema {
	t := reflect.TypeFor[authFields]()
	return schema{"anyOf": []schema{g.schemaOf(t, rule{}), textSchema(fieldsOf(t)[0].rule)}}
}

// secretMap has the secrets of a workload by name. It is written as a mapping, or
// as a list of keys (Scion's form).
type secretMap map[string]secretFile

func (v *secretMap) read(d *decoder, n *yaml.Node, at string, _ rule) {
	if n.Kind == yaml.SequenceNode {
		v.readListed(d, n, at)
		return
	}
	if n.Kind != yaml.MappingNode {
		d.addError(n, at, "is "+kindOf(n)+", not a mapping", "write names with {file: …} or {env: …}")
		return
	}
	*v = secretMap{}
	for _, p := range pairs(n) {
		child := keyOf(at, p.key.Value)
		if !nameRegexp.MatchString(p.key.Value) {
			d.addError(p.key, child, fmt.Sprintf("%q is not the name of a secret", truncate(p.key.Value)), nameHint)
			continue
		}
		var s secretFile
		d.read(p.value, child, reflect.ValueOf(&s).Elem(), rule{})
		if !d.invalid[child] && !d.invalid[child+".file"] && !d.invalid[child+".env"] && (s.File == "") == (s.Env == "") {
			d.addError(p.value, child, "does not have one of file and env", "give one of them")
		}
		d.checkKeyFile(s.File, child+".file")
		if strings.HasSuffix(s.File, ".allow") {
			d.addError(p.value, child+".file", "ends with .allow", "that file limits a secret: choose another name")
		}
		if strings.HasSuffix(s.Env, "_ALLOW") {
			d.addError(p.value, child+".env", "ends with _ALLOW", "that variable limits a secret: choose another name")
		}
		(*v)[p.key.Value] = s
	}
}

// readListed reads a list of secrets. The server has them under their keys.
func (v *secretMap) readListed(d *decoder, n *yaml.Node, at string) {
	var list []listedSecretFile
	d.read(n, at, reflect.ValueOf(&list).Elem(), rule{})
	*v = secretMap{}
	for i, s := range list {
		child := elementOf(at, i)
		where := secretFile{Env: "HOSTLER_SECRET_" + s.Key}
		if s.Type == "file" {
			where = secretFile{File: s.Key}
		}
		if _, twice := (*v)[s.Key]; twice {
			d.addErrorAt(child+".key", "is the key of another secret", "keep one of them")
		}
		if strings.HasSuffix(where.Env, "_ALLOW") {
			d.addErrorAt(child+".key", "ends with _ALLOW", "that variable limits a secret: choose another name")
		}
		if !d.invalid[child] && !d.invalid[child+".key"] {
			(*v)[s.Key] = where
			d.addNoteAt(child, "is not given to the container: requests may use it, and the server has it as "+where.place(), "")
		}
	}
}

// place describes where a secret is.
func (s secretFile) place() string {
	if s.File != "" {
		return "the file " + s.File + " of its credentials directory"
	}
	return "the variable " + s.Env
}

func (v *secretMap) schema(g *generator, _ rule) schema {
	return schema{"anyOf": []schema{
		{
			"type": "object", "propertyNames": schema{"pattern": namePattern},
			"additionalProperties": g.schemaOf(reflect.TypeFor[secretFile](), rule{}),
		},
		{"type": "array", "items": g.schemaOf(reflect.TypeFor[listedSecretFile](), rule{})},
	}}
}

// secrets returns the secrets of the workload.
func (v secretMap) secrets() map[string]hooks.Secret {
	if len(v) == 0 {
		return nil
	}
	all := make(map[string]hooks.Secret, len(v))
	for name, s := range v {
		all[name] = hooks.Secret{File: s.File, Env: s.Env}
	}
	return all
}

// sortedKeys returns the keys of a mapping in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// builtinName is the name of a function of the server.
type builtinName string

func (v *builtinName) read(d *decoder, n *yaml.Node, at string, _ rule) {
	name := d.text(n, at, rule{})
	*v = builtinName(name)
	if !slices.Contains(Builtins(), name) && !d.invalid[at] {
		message, hint := checkBuiltin(name)
		d.addError(n, at, message, hint)
	}
	if instead, ok := deprecatedBuiltins[name]; ok {
		d.addNoteAt(at, "is deprecated", "write "+instead)
	}
}

func (v *builtinName) schema(*generator, rule) schema {
	return schema{"type": "string", "enum": builtinsFor("")}
}
