package workload

import (
	"reflect"
)

// SchemaID identifies the schema. Nothing is loaded from it.
const SchemaID = "https://github.com/hostler/hostler/workload.schema.json"

// kindSchema is the schema of a mapping of one kind, by the value of type.
type kindSchema struct {
	name  string
	forms []reflect.Type // one of which it has
}

// schemaByKind returns the schema of a mapping whose key type decides about its
// other keys. Only the schema of its kind applies, so that an error is about that
// kind and not about all of them.
func (g *generator) schemaByKind(doc string, kinds []kindSchema) schema {
	names, cases := []string{}, []schema{}
	for _, k := range kinds {
		names = append(names, k.name)
		then := g.schemaOf(k.forms[0], rule{})
		if len(k.forms) > 1 {
			var forms []schema
			for _, t := range k.forms {
				forms = append(forms, g.schemaOf(t, rule{}))
			}
			then = schema{"anyOf": forms}
		}
		cases = append(cases, schema{
			"if":   schema{"required": []string{"type"}, "properties": schema{"type": schema{"const": k.name}}},
			"then": then,
		})
	}
	return schema{
		"type": "object", "required": []string{"type"}, "allOf": cases,
		"properties": schema{"type": schema{
			"type": "string", "enum": names, "description": doc,
		}},
	}
}
