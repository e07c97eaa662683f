package workload

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"gopkg.in/yaml.v3"
)

// FieldChange is a value of a file that differs from that of another file.
type FieldChange struct {
	Field  string  `json:"field" doc:"Its path, such as hooks.post_claim[1].timeout."`
	Before *string `json:"before,omitempty" doc:"The value that is applied, as JSON; missing: there was none."`
	After  *string `json:"after,omitempty" doc:"The value in the file, as JSON; missing: there is none."`
}

// The bounds of what Differences returns.
const (
	maxChanges     = 200
	maxChangedText = 200
)

// Differences returns the values in the file of a workload that differ from those
// in the file before, in the order of their paths, and which parts of its
// revision differ. before is nil if there was none.
func Differences(before, after *Workload) (changes []FieldChange, revised []string) {
	changes, revised = []FieldChange{}, []string{}
	old, current := values(before), values(after)
	paths := maps.Clone(old)
	maps.Copy(paths, current)
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		c := FieldChange{Field: path}
		if v, ok := old[path]; ok {
			c.Before = &v
		}
		if v, ok := current[path]; ok {
			c.After = &v
		}
		if c.Before == nil || c.After == nil || *c.Before != *c.After {
			c.Before, c.After = shortened(c.Before), shortened(c.After)
			changes = append(changes, c)
		}
	}
	if before == nil {
		return changes[:min(len(changes), maxChanges)], revised
	}
	return changes[:min(len(changes), maxChanges)], revisedParts(canonical(before), canonical(after), "")
}

// revisedParts returns the names of what differs in two canonical forms. The
// points of hooks are parts of their own.
func revisedParts(before, after form, prefix string) []string {
	parts := []string{}
	names := maps.Clone(before)
	maps.Copy(names, after)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if name == "hooks" && prefix == "" {
			old, _ := before[name].(form)
			current, _ := after[name].(form)
			parts = append(parts, revisedParts(old, current, "hooks.")...)
			continue
		}
		if jsonText(before[name]) != jsonText(after[name]) {
			parts = append(parts, prefix+name)
		}
	}
	return parts
}

// values returns the scalars of a file by their path, as JSON.
func values(w *Workload) map[string]string {
	all := map[string]string{}
	if w == nil {
		return all
	}
	var root any
	if err := yaml.Unmarshal(w.Source, &root); err == nil { // Parse accepted it
		addValues(all, "", root)
	}
	return all
}

func addValues(all map[string]string, at string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, element := range v {
			addValues(all, keyOf(at, key), element)
		}
		if len(v) > 0 {
			return
		}
	case []any:
		for i, element := range v {
			addValues(all, elementOf(at, i), element)
		}
		if len(v) > 0 {
			return
		}
	}
	all[at] = jsonText(value)
}

// jsonText returns a value as JSON, or in another form if it has none: the keys of a
// mapping are not texts, or a number is not finite.
func jsonText(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(text)
}

func shortened(s *string) *string {
	if s == nil {
		return nil
	}
	if r := []rune(*s); len(r) > maxChangedText {
		short := string(r[:maxChangedText]) + "…"
		return &short
	}
	return s
}
