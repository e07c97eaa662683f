// Package generate writes the types of the client in TypeScript from the server's
// OpenAPI document. Its test compares the file in the repository with the document,
// so that the two cannot differ.
package generate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// document is what is read of an OpenAPI document.
type document struct {
	Paths      map[string]map[string]operation
	Components struct{ Schemas map[string]schema }
}

type operation struct {
	Summary     string
	Parameters  []parameter
	RequestBody *struct {
		Required bool
		Content  map[string]media
	}
	Responses map[string]struct{ Content map[string]media }
}

type parameter struct {
	Name, In string
	Required bool
	Schema   schema
}

type media struct{ Schema schema }

// schema is what is read of a JSON Schema. Conditions such as allOf with if narrow a
// type further than TypeScript's types do here.
type schema struct {
	Ref         string `json:"$ref"`
	Type        any    // a string or a list of strings
	Format      string
	Description string
	Enum        []string
	Properties  map[string]schema
	Required    []string
	Items       *schema
	OneOf       []schema
	AnyOf       []schema
	Temporary   []string `json:"x-temporary-codes"` // of Problem
	// AdditionalProperties is a schema, or false in what a client sends.
	AdditionalProperties json.RawMessage
}

const header = `// Code generated from /openapi.json by "go test ./clients/typescript/generate -update"; DO NOT EDIT.

`

// Types returns the source of the types of an OpenAPI document: an interface for each
// schema, and Operations, with what each request has and is answered with.
func Types(text []byte) (string, error) {
	var doc document
	if err := json.Unmarshal(text, &doc); err != nil {
		return "", fmt.Errorf("read the OpenAPI document: %w", err)
	}
	var b strings.Builder
	b.WriteString(header)
	for _, name := range slices.Sorted(maps.Keys(doc.Components.Schemas)) {
		s := doc.Components.Schemas[name]
		writeComment(&b, "", s.Description)
		if s.Properties == nil {
			fmt.Fprintf(&b, "export type %s = %s;\n\n", name, s.typeName(false))
			continue
		}
		fmt.Fprintf(&b, "export interface %s {\n", name)
		writeProperties(&b, s)
		b.WriteString("}\n\n")
	}
	if codes := doc.Components.Schemas["Problem"].Temporary; len(codes) > 0 {
		writeComment(&b, "", "The codes of errors that end by themselves. All other codes are final.")
		fmt.Fprintf(&b, "export const TEMPORARY_CODES: readonly string[] = [%s];\n\n", strings.Join(quoted(codes), ", "))
	}
	writeOperations(&b, doc.Paths)
	return b.String(), nil
}

// isClosed reports whether the schema is of something that clients send. What the
// server sends may get another property, and another value, with a later version.
func (s schema) isClosed() bool { return string(s.AdditionalProperties) == "false" }

func writeProperties(b *strings.Builder, s schema) {
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[name]
		writeComment(b, "  ", p.Description)
		optional := "?"
		if slices.Contains(s.Required, name) {
			optional = ""
		}
		fmt.Fprintf(b, "  %s%s: %s;\n", key(name), optional, p.typeName(s.isClosed()))
	}
}

// typeName returns the type of a schema. The values of a closed one are all that there
// are.
func (s schema) typeName(closed bool) string {
	switch {
	case s.Ref != "":
		return s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]
	case len(s.OneOf) > 0:
		return union(s.OneOf, closed)
	case len(s.AnyOf) > 0:
		return union(s.AnyOf, closed)
	case len(s.Enum) > 0:
		return values(s.Enum, closed)
	case s.Properties != nil:
		var b strings.Builder
		writeProperties(&b, s)
		return "{\n" + b.String() + "}"
	}
	if list, ok := s.Type.([]any); ok {
		types := make([]schema, len(list))
		for i, t := range list {
			types[i] = s
			types[i].Type = t
		}
		return union(types, closed)
	}
	return s.plainName(closed)
}

func (s schema) plainName(closed bool) string {
	switch s.Type {
	case "string":
		if s.Format == "binary" {
			return "unknown"
		}
		return "string"
	case "integer", "number":
		return "number"
	case "boolean", "null":
		return fmt.Sprint(s.Type)
	case "array":
		if s.Items == nil {
			return "unknown[]"
		}
		return "Array<" + s.Items.typeName(closed) + ">"
	case "object":
		var value schema
		if json.Unmarshal(s.AdditionalProperties, &value) != nil {
			value = schema{}
		}
		return "Record<string, " + value.typeName(closed) + ">"
	}
	return "unknown"
}

// union returns the types of schemas, each once. One that is anything is all of it.
func union(list []schema, closed bool) string {
	names := make([]string, 0, len(list))
	for _, s := range list {
		name := s.typeName(closed)
		if name == "unknown" {
			return name
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, " | ")
}

// values returns the type of an enumeration.
func values(list []string, closed bool) string {
	all := quoted(list)
	if !closed {
		all = append(all, "(string & {})") // editors propose the known ones
	}
	return strings.Join(all, " | ")
}

func quoted(list []string) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = quote(v)
	}
	return out
}

func writeOperations(b *strings.Builder, paths map[string]map[string]operation) {
	writeComment(b, "", "What requests have and are answered with, by method and path.")
	b.WriteString("export interface Operations {\n")
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		for _, method := range slices.Sorted(maps.Keys(paths[path])) {
			o := paths[path][method]
			writeComment(b, "  ", o.Summary)
			fmt.Fprintf(b, "  %s: {\n", quote(strings.ToUpper(method)+" "+path))
			fmt.Fprintf(b, "    path: %s;\n    query: %s;\n", o.parameters("path"), o.parameters("query"))
			fmt.Fprintf(b, "    body: %s;\n    answer: %s;\n  };\n", o.body(), o.answer())
		}
	}
	b.WriteString("}\n")
}

func (o operation) parameters(in string) string {
	var parts []string
	for _, p := range o.Parameters {
		if p.In != in {
			continue
		}
		optional := "?"
		if p.Required {
			optional = ""
		}
		parts = append(parts, key(p.Name)+optional+": "+p.Schema.typeName(true))
	}
	if len(parts) == 0 {
		return "Record<never, never>"
	}
	return "{ " + strings.Join(parts, "; ") + " }"
}

func (o operation) body() string {
	if o.RequestBody == nil {
		return "undefined"
	}
	name := contentName(o.RequestBody.Content)
	if !o.RequestBody.Required && name != "unknown" {
		name += " | undefined"
	}
	return name
}

// answer returns the type of an answer that is not an error.
func (o operation) answer() string {
	var all []string
	for _, status := range slices.Sorted(maps.Keys(o.Responses)) {
		r := o.Responses[status]
		if !strings.HasPrefix(status, "2") {
			continue
		}
		for name := range strings.SplitSeq(contentName(r.Content), " | ") {
			if !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	if slices.Contains(all, "unknown") {
		return "unknown"
	}
	return cmp.Or(strings.Join(all, " | "), "undefined")
}

// contentName returns the type of content: of its JSON, also that of lines.
func contentName(content map[string]media) string {
	if len(content) == 0 {
		return "undefined"
	}
	for _, kind := range []string{"application/json", "application/x-ndjson"} {
		if m, ok := content[kind]; ok {
			return m.Schema.typeName(true)
		}
	}
	return "unknown"
}

func writeComment(b *strings.Builder, indent, text string) {
	if text != "" {
		fmt.Fprintf(b, "%s/** %s */\n", indent, strings.ReplaceAll(text, "*/", "*\\/"))
	}
}

var plainKey = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// key returns the name of a property.
func key(name string) string {
	if plainKey.MatchString(name) {
		return name
	}
	return quote(name)
}

func quote(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		return `""` // a string is always JSON
	}
	return string(b)
}
