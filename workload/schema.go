package workload

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// patternMessage is a keyword of editors: what they show instead of a pattern.
const patternMessage = "patternErrorMessage"

// schema is a JSON Schema for encoding/json.
type schema map[string]any

// Schema returns the JSON Schema (2020-12) of a workload file. It is derived from
// the types that Parse uses, for editors and for programs that write such files.
// Only Parse finds what a schema cannot express: fields that depend on each
// other, the limits of a duration or a size that is text, and names that must be
// unique.
func Schema() ([]byte, error) {
	g := &generator{defs: schema{}}
	root := maps.Clone(g.object(reflect.TypeFor[file]()))
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["$id"] = SchemaID
	root["title"] = "Hostler workload"
	root["$defs"] = g.defs
	text, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the schema: %w", err)
	}
	return append(text, '\n'), nil
}

// generator generates schemas from the types of file.go.
type generator struct {
	defs schema // the schemas of mappings, by name
}

// schemaOf returns the schema of a value of type t with rule r.
func (g *generator) schemaOf(t reflect.Type, r rule) schema {
	if self, ok := reflect.New(t).Interface().(customField); ok {
		return self.schema(g, r)
	}
	switch t.Kind() {
	case reflect.Pointer:
		return g.schemaOf(t.Elem(), r)
	case reflect.Struct:
		name := strings.TrimSuffix(t.Name(), "File")
		if _, ok := g.defs[name]; !ok {
			g.defs[name] = g.object(t)
		}
		return schema{"$ref": "#/$defs/" + name}
	case reflect.Slice:
		return listSchema(g.schemaOf(t.Elem(), r.element()), r)
	case reflect.Bool:
		return schema{"type": "boolean"}
	case reflect.Int:
		return integerSchema(r)
	}
	return textSchema(r)
}

// object returns the schema of a mapping.
func (g *generator) object(t reflect.Type) schema {
	properties, required, exclusions := schema{}, []string{}, []schema{}
	for _, f := range fieldsOf(t) {
		p := g.schemaOf(t.FieldByIndex(f.index).Type, f.rule)
		p["description"] = f.doc
		if f.rule.hasDefault {
			p["default"] = parseDefault(f.rule.defaultValue)
		}
		properties[f.name] = p
		if f.required {
			required = append(required, f.name)
		}
		if f.alias != "" {
			deprecated := maps.Clone(p)
			deprecated["deprecated"], deprecated["description"] = true, "Another name of "+f.name+"."
			properties[f.alias] = deprecated
			exclusions = append(exclusions, schema{"not": schema{"required": []string{f.name, f.alias}}})
		}
	}
	s := schema{"type": "object", "additionalProperties": false, "properties": properties}
	if len(required) > 0 {
		s["required"] = required
	}
	if len(exclusions) > 0 {
		s["allOf"] = exclusions
	}
	return s
}

func listSchema(items schema, r rule) schema {
	s := schema{"type": "array", "items": items}
	if minimum, err := strconv.Atoi(r.items); err == nil {
		s["minItems"] = minimum
	}
	if r.unique {
		s["uniqueItems"] = true
	}
	return s
}

func integerSchema(r rule) schema {
	s := schema{"type": "integer"}
	if minimum, err := strconv.Atoi(r.min); err == nil {
		s["minimum"] = minimum
	}
	if maximum, err := strconv.Atoi(r.max); err == nil {
		s["maximum"] = maximum
	}
	return s
}

func textSchema(r rule) schema {
	s := schema{"type": "string"}
	if len(r.enum) > 0 {
		s["enum"] = r.enum
	}
	if r.pattern != nil {
		s["pattern"] = r.pattern.String()
		if r.hint != "" {
			s[patternMessage] = "write " + r.hint
		}
	}
	return s
}

// parseDefault returns a default as a JSON value, decoded like the file.
func parseDefault(text string) any {
	n := &yaml.Node{Kind: yaml.ScalarNode, Value: text}
	var v any
	if err := n.Decode(&v); err != nil {
		return text
	}
	return v
}
