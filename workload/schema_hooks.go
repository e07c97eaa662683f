package workload

import (
	"reflect"
	"regexp"
	"strings"

	"github.com/hostler/hostler/hooks"
)

func (v *hooksFile) schema(g *generator, _ rule) schema {
	listed := schema{"type": "array", "items": g.listedSchema(), "description": "Hooks with the points and events that they are for."}
	hook, event := g.hookSchema("hook"), g.hookSchema("eventHook")
	properties := schema{eventsKey: schema{
		"type": "array", "items": event, "description": "Hooks for events. Nothing waits for them.",
	}}
	for _, key := range pointKeys() {
		point, _ := PointNamed(key)
		properties[key] = schema{
			"anyOf": []schema{
				{"type": "array", "items": schema{"anyOf": []schema{hook, builtinSchema()}}},
				(*scriptText).schema(nil, g, rule{}),
			},
			"description": point.Rule().Doc,
		}
	}
	g.addGates(properties)
	return schema{"anyOf": []schema{listed, {
		"type": "object", "additionalProperties": false, "properties": properties,
		// The names of events.
		"patternProperties": schema{eventPattern(): schema{"type": "array", "items": builtinSchema()}},
	}}}
}

func builtinSchema() schema { return (*builtinName).schema(nil, nil, rule{}) }

// eventPattern matches the names of events that are not those of points.
func eventPattern() string {
	var names []string
	for _, name := range append(eventNames(), sortedKeys(noEvent)...) {
		if _, isPoint := PointNamed(name); !isPoint {
			names = append(names, regexp.QuoteMeta(name))
		}
	}
	for _, a := range hooks.EventAliases() {
		for _, name := range a.Types {
			if !isRecorded(name) {
				names = append(names, regexp.QuoteMeta(name))
			}
		}
	}
	return "^(" + strings.Join(names, "|") + ")$"
}

// hookSchema returns the schema of hooks of a point, or of those for events.
func (g *generator) hookSchema(name string) schema {
	ref := schema{"$ref": "#/$defs/" + name}
	s := g.object(reflect.TypeFor[hookFile]())
	g.defs[name] = s
	var actions []schema
	for _, k := range hooks.Kinds() {
		actions = append(actions, schema{"required": []string{string(k.Kind)}})
	}
	s["oneOf"] = actions
	if name == "eventHook" {
		s["required"] = []string{"name", "on"}
		return ref
	}
	// Only hooks with blocking: false have what hooks for events have. Keys are
	// constrained by pattern, because their descriptions are above.
	s["if"] = schema{"required": []string{"blocking"}, "patternProperties": schema{"^blocking$": schema{"const": false}}}
	s["then"] = schema{"required": []string{"name"}}
	s["else"] = schema{
		"not": schema{"required": []string{"debounce"}}, "patternProperties": schema{"^retries$": schema{"type": "integer", "maximum": hooks.MaxRetries}},
	}
	return ref
}

// listedSchema returns the schema of a hook of a list with on and action.
func (g *generator) listedSchema() schema {
	return g.schemaOf(reflect.TypeFor[listedHookFile](), rule{})
}
