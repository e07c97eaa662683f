package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/delivery"
	"github.com/hostler/hostler/doctor"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/publish"
	"github.com/hostler/hostler/wait"
)

// enums returns the values of the properties of responses that have only some, as
// SCHEMA.PROPERTY.
func enums() map[string][]string {
	health := texts([]pool.Health{pool.Healthy, pool.Unhealthy, pool.Exited})
	var points, kinds []string
	for _, p := range hooks.Points() {
		points = append(points, string(p.Point))
	}
	for _, k := range hooks.Kinds() {
		kinds = append(kinds, string(k.Kind))
	}
	return map[string][]string{
		"Claim.state":               texts(claim.States()),
		"Claim.health":              health,
		"Claim.source":              texts([]claim.Source{claim.Fresh, claim.Affinity, claim.Recycled}),
		"Claim.failure_reason":      texts([]claim.FailureReason{claim.FailedByTenant, claim.FailedBySink, claim.FailedStale, claim.FailedByVersion}),
		"Claim.activity":            publish.Activities(),
		"ActivityResponse.activity": publish.Activities(),
		"Container.state":           texts(pool.States()),
		"Container.health":          health,
		"FillStatus.state":          texts([]pool.FillState{pool.FillIdle, pool.Filling, pool.BackingOff, pool.FillFailing, pool.FillDraining}),
		"Finding.severity":          texts([]doctor.Severity{doctor.Error, doctor.Warning}),
		"Delivery.state":            texts(delivery.States()),
		"Wait.state":                texts(wait.States()),
		"Run.state":                 texts(hooks.RunStates()),
		"Run.action":                kinds,
		"Run.point":                 append([]string{""}, points...),
		"HookSummary.state":         texts(hooks.RunStates()),
		"HookSummary.point":         points,
		"LiveTest.point":            points,
		"Result.point":              append([]string{""}, points...),
		"Hook.action":               kinds,
		"Event.point":               points,
		"FollowedEvent.point":       points,
		"Problem.code":              texts(slices.Sorted(maps.Keys(statuses))),
		"Snapshot.reason":           {"release", "interval", "request", "restored", "import"},
		"Variable.source":           {"given", "sample", "environment", "secret", "captured", "nothing"},
	}
}

// texts returns values as text.
func texts[S ~string](values []S) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}

// schemaTree is the document as JSON. Schemas are changed here and not in huma's
// registry, which validates requests with them.
type schemaTree struct {
	root    map[string]any
	schemas map[string]any
}

// finishSchemas returns the document with what huma cannot derive from types.
func finishSchemas(document []byte) []byte {
	t := &schemaTree{}
	if err := json.Unmarshal(document, &t.root); err != nil {
		panic(fmt.Sprintf("api: decode the OpenAPI document: %v", err))
	}
	t.schemas = t.root["components"].(map[string]any)["schemas"].(map[string]any)
	t.addEnums()
	t.openResponses()
	t.describeTenants()
	for _, name := range []string{"Event", "FollowedEvent"} {
		t.describeEvent(name)
	}
	t.schemas["Problem"].(map[string]any)["x-temporary-codes"] = temporaryCodes
	t.removeUnused()
	out, err := json.Marshal(t.root)
	if err != nil {
		panic(fmt.Sprintf("api: encode the OpenAPI document: %v", err))
	}
	return out
}

// property returns a property of a schema, or nil.
func (t *schemaTree) property(schema, name string) map[string]any {
	s, _ := t.schemas[schema].(map[string]any)
	properties, _ := s["properties"].(map[string]any)
	p, _ := properties[name].(map[string]any)
	return p
}

func (t *schemaTree) addEnums() {
	for where, values := range enums() {
		schema, name, _ := strings.Cut(where, ".")
		if p := t.property(schema, name); p != nil {
			p["enum"] = values
		}
	}
}

// openResponses lets responses have further properties, so that a new one breaks
// no client.
func (t *schemaTree) openResponses() {
	requests := map[string]bool{}
	for _, item := range t.root["paths"].(map[string]any) {
		for _, o := range item.(map[string]any) {
			if operation, ok := o.(map[string]any); ok {
				t.collect(operation["requestBody"], requests)
			}
		}
	}
	for name, s := range t.schemas {
		if !requests[name] {
			delete(s.(map[string]any), "additionalProperties")
		}
	}
}

// collect adds the names of the schemas that a part of the document refers to.
func (t *schemaTree) collect(part any, names map[string]bool) {
	switch v := part.(type) {
	case map[string]any:
		ref, _ := v["$ref"].(string)
		if name, ok := strings.CutPrefix(ref, "#/components/schemas/"); ok && !names[name] {
			names[name] = true
			t.collect(t.schemas[name], names)
		}
		for _, child := range v {
			t.collect(child, names)
		}
	case []any:
		for _, child := range v {
			t.collect(child, names)
		}
	}
}

// describeTenants adds the rule for tenants' names to requests. Responses may have
// older names.
func (t *schemaTree) describeTenants() {
	rule := func(s map[string]any) {
		s["pattern"], s["minLength"], s["maxLength"] = claim.TenantPattern, 1, claim.MaxTenant
	}
	for name := range t.schemas {
		if p := t.property(name, "tenant"); p != nil && strings.HasSuffix(name, "Request") {
			rule(p)
		}
	}
	for _, item := range t.root["paths"].(map[string]any) {
		for _, o := range item.(map[string]any) {
			operation, _ := o.(map[string]any)
			parameters, _ := operation["parameters"].([]any)
			for _, p := range parameters {
				if param := p.(map[string]any); param["name"] == "tenant" {
					rule(param["schema"].(map[string]any))
				}
			}
		}
	}
}

// describeEvent adds the types of events, and the data of each.
func (t *schemaTree) describeEvent(schema string) {
	var types []string
	var rules []any
	for _, known := range activity.Types() {
		types = append(types, string(known))
		if data := dataSchema(known); data != "" {
			rules = append(rules, map[string]any{
				"if":   map[string]any{"properties": map[string]any{"type": map[string]any{"const": string(known)}}},
				"then": map[string]any{"properties": map[string]any{"data": map[string]any{"$ref": "#/components/schemas/" + data}}},
			})
		}
	}
	if schema == "FollowedEvent" {
		types = append(types, string(LogTruncated), string(LogEnded))
	}
	t.property(schema, "type")["anyOf"] = []any{
		map[string]any{"enum": types},
		map[string]any{"pattern": `^(agent|custom)\.`, "description": "Of an event that a tenant's program published."},
	}
	t.schemas[schema].(map[string]any)["allOf"] = rules
}

// dataSchema returns the name of the schema of the data of a type's events; empty
// if they have none.
func dataSchema(known activity.Type) string {
	data := activity.NewData(known)
	if data == nil {
		return ""
	}
	return reflect.TypeOf(data).Elem().Name()
}

// registerData adds the schemas of the data of events. An older event may lack
// what was added to its type later.
func registerData(schemas huma.Registry) {
	for _, known := range activity.Types() {
		if name := dataSchema(known); name != "" {
			schemas.Schema(reflect.TypeOf(activity.NewData(known)).Elem(), true, name)
			schemas.Map()[name].Required = nil
		}
	}
}

// removeUnused removes schemas that nothing refers to, such as those of huma's own
// errors.
func (t *schemaTree) removeUnused() {
	used := map[string]bool{}
	t.collect(t.root["paths"], used)
	for name := range t.schemas {
		if !used[name] {
			delete(t.schemas, name)
		}
	}
}
