package workload

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"gopkg.in/yaml.v3"
)

// decoder reads nodes into the types of file.go according to their tags. It
// collects all errors instead of stopping at the first.
type decoder struct {
	file    string
	errs    ValidationErrors
	notes   []Note
	advice  []Note
	nodes   map[string]*yaml.Node // of each value that was read, by path
	invalid map[string]bool       // the paths that have an error
}

// customField is a type of file.go with its own decoder: its value may be written
// in several forms, or tags cannot describe it.
type customField interface {
	// read decodes n, which is at the path at and is not null.
	read(d *decoder, n *yaml.Node, at string, r rule)
	// schema returns the schema of what read accepts.
	schema(g *generator, r rule) schema
}

// addError adds an error of the node at a path. It ignores further errors at the
// same path, because they would have the same cause.
func (d *decoder) addError(n *yaml.Node, at, message, hint string) {
	if d.invalid[at] {
		return
	}
	d.invalid[at] = true
	d.errs = append(d.errs, ValidationError{
		File: d.file, Line: n.Line, Column: n.Column, Field: at, Message: message, Hint: hint,
	})
}

// read fills v from the node at a path.
func (d *decoder) read(n *yaml.Node, at string, v reflect.Value, r rule) {
	n = resolve(n)
	d.nodes[at] = n
	if n.ShortTag() == "!!null" {
		d.addError(n, at, "has no value", "give it a value, or remove the key")
		return
	}
	if self, ok := v.Addr().Interface().(customField); ok {
		self.read(d, n, at, r)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.read(n, at, v.Elem(), r)
	case reflect.Struct:
		d.readStruct(n, at, v, r)
	case reflect.Slice:
		d.readList(n, at, v, r)
	case reflect.String:
		v.SetString(d.text(n, at, r))
	case reflect.Bool:
		if b, ok := scalar[bool](d, n, at, "!!bool", "true or false, without quotes"); ok {
			v.SetBool(b)
		}
	case reflect.Int:
		v.SetInt(int64(d.integer(n, at, r)))
	default:
		panic("workload: unsupported kind of field: " + v.Kind().String())
	}
}

// readStruct reads a mapping. Unknown keys and missing required keys are errors;
// an omitted key has its default.
func (d *decoder) readStruct(n *yaml.Node, at string, v reflect.Value, r rule) {
	if n.Kind != yaml.MappingNode {
		d.addError(n, at, "is "+kindOf(n)+", not a mapping", "write keys with values")
		return
	}
	fields := fieldsOf(v.Type())
	given := make(map[string]pair)
	for _, p := range pairs(n) {
		if !slices.ContainsFunc(fields, func(f field) bool { return p.key.Value == f.name || p.key.Value == f.alias && f.alias != "" }) {
			d.unknown(p.key, at, fieldNames(fields))
			continue
		}
		given[p.key.Value] = p
	}
	for _, f := range fields {
		if key, ok := r.keys[f.name]; ok {
			f.rule = key
		}
		d.readField(n, at, f, given, v.FieldByIndex(f.index))
	}
}

func (d *decoder) readField(n *yaml.Node, at string, f field, given map[string]pair, v reflect.Value) {
	child := keyOf(at, f.name)
	p, ok := given[f.name]
	if other, aliased := given[f.alias]; aliased && f.alias != "" {
		if ok {
			d.addError(other.key, keyOf(at, f.alias), "is another name of "+f.name+", which is also given", "keep one of them")
		}
		p, ok = other, true
	}
	// The default is set first: if the value is invalid, checks that compare
	// fields use the default.
	if f.rule.hasDefault {
		d.read(&yaml.Node{Kind: yaml.ScalarNode, Value: f.rule.defaultValue, Line: n.Line, Column: n.Column}, child, v, f.rule)
	}
	switch {
	case ok:
		d.read(p.value, child, v, f.rule)
	case f.required:
		d.addError(n, child, "is missing", "it must be given")
	case v.Kind() == reflect.Struct && !isCustomField(v):
		d.readStruct(&yaml.Node{Kind: yaml.MappingNode, Line: n.Line, Column: n.Column}, child, v, rule{})
	}
}

func isCustomField(v reflect.Value) bool {
	_, ok := v.Addr().Interface().(customField)
	return ok
}

// readList reads a list, element by element.
func (d *decoder) readList(n *yaml.Node, at string, v reflect.Value, r rule) {
	if n.Kind != yaml.SequenceNode {
		d.addError(n, at, "is "+kindOf(n)+", not a list", "write [one, two], or one element per line after a dash")
		return
	}
	if minimum, _ := strconv.Atoi(r.items); len(n.Content) < minimum { // empty is 0
		d.addError(n, at, fmt.Sprintf("has %d elements, fewer than %d", len(n.Content), minimum), "add one, or remove the key")
	}
	list := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	first := map[any]int{}
	for i, e := range n.Content {
		child := elementOf(at, i)
		d.read(e, child, list.Index(i), r.element())
		if !r.unique || d.invalid[child] {
			continue
		}
		value := list.Index(i).Interface()
		if j, twice := first[value]; twice {
			d.addError(resolve(e), child, fmt.Sprintf("is the same as %s", elementOf(at, j)), "keep one of them")
			continue
		}
		first[value] = i
	}
	v.Set(list)
}

// unknown adds an error for a key that is not a field.
func (d *decoder) unknown(key *yaml.Node, at string, candidates []string) {
	child := keyOf(at, key.Value)
	instead, ok := unsupportedKeys[child]
	if i := strings.LastIndexByte(at, '.'); !ok {
		instead, ok = unsupportedKeys["*."+keyOf(at[i+1:], key.Value)] // of an element of a list
	}
	if ok {
		d.addError(key, child, "is not used here", instead)
		return
	}
	d.addError(key, child, "is an unknown key", d.hintFor(key.Value, candidates))
}

// hintFor returns which key was perhaps meant. There is none when there are more errors
// than are reported: each costs a comparison with all keys.
func (d *decoder) hintFor(key string, candidates []string) string {
	if len(d.errs) >= maxErrors {
		return ""
	}
	if suggestion := suggest(key, candidates); suggestion != "" {
		return "did you mean " + suggestion + "?"
	}
	return "known keys are " + strings.Join(candidates, ", ")
}

func fieldNames(fields []field) []string {
	list := make([]string, len(fields))
	for i, f := range fields {
		list[i] = f.name
	}
	return list
}

// keyOf returns the path of a key in a mapping.
func keyOf(at, key string) string {
	key = truncate(key)
	if strings.ContainsFunc(key, func(r rune) bool { return !unicode.IsPrint(r) }) {
		key = strconv.Quote(key)
	}
	if at == "" {
		return key
	}
	return at + "." + key
}

// elementOf returns the path of an element of a list.
func elementOf(at string, i int) string { return at + "[" + strconv.Itoa(i) + "]" }
