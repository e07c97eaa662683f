package workload

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// text reads a node that must be text and satisfy its rule.
func (d *decoder) text(n *yaml.Node, at string, r rule) string {
	tag := n.ShortTag()
	// Only YAML distinguishes a date from text.
	if n.Kind != yaml.ScalarNode || tag != "!!str" && tag != "!!timestamp" {
		hint := "write text"
		if n.Kind == yaml.ScalarNode {
			hint = "put it in quotes: " + strconv.Quote(truncate(n.Value))
		}
		d.addError(n, at, "is "+kindOf(n)+", not text", hint)
		return ""
	}
	if len(r.enum) > 0 && !slices.Contains(r.enum, n.Value) {
		hint := "write one of " + strings.Join(r.enum, ", ")
		if suggestion := suggest(n.Value, r.enum); suggestion != "" {
			hint = "did you mean " + suggestion + "?"
		}
		d.addError(n, at, fmt.Sprintf("is %q, which is not allowed", truncate(n.Value)), hint)
	}
	if r.pattern != nil && !r.pattern.MatchString(n.Value) {
		d.addError(n, at, fmt.Sprintf("is %q, which is not allowed", truncate(n.Value)), "write "+r.hint)
	}
	return n.Value
}

// integer reads a whole number within the limits of its rule.
func (d *decoder) integer(n *yaml.Node, at string, r rule) int {
	i, ok := scalar[int](d, n, at, "!!int", "a whole number, without quotes")
	if !ok {
		return 0
	}
	if minimum, err := strconv.Atoi(r.min); err == nil && i < minimum {
		d.addError(n, at, fmt.Sprintf("is %d, less than %d", i, minimum), "raise it")
	}
	if maximum, err := strconv.Atoi(r.max); err == nil && i > maximum {
		d.addError(n, at, fmt.Sprintf("is %d, more than %d", i, maximum), "lower it")
	}
	return i
}

// scalar decodes a node that must have the given tag.
func scalar[T any](d *decoder, n *yaml.Node, at, tag, want string) (T, bool) {
	var v T
	if n.Kind != yaml.ScalarNode || n.ShortTag() != tag {
		d.addError(n, at, "is "+kindOf(n), "write "+want)
		return v, false
	}
	if err := n.Decode(&v); err != nil {
		d.addError(n, at, fmt.Sprintf("is %s, which cannot be read", truncate(n.Value)), "write "+want)
		return v, false
	}
	return v, true
}
