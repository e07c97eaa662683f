package workload

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// text reads a node that must be text and keep to its rule.
func (d *decoder) text(n *yaml.Node, at string, r rule) string {
	tag := n.ShortTag()
	// A date is text to everybody but YAML.
	if n.Kind != yaml.ScalarNode || tag != "!!str" && tag != "!!timestamp" {
		remedy := "write text"
		if n.Kind == yaml.ScalarNode {
			remedy = "put it in quotes: " + strconv.Quote(short(n.Value))
		}
		d.fault(n, at, "is "+kindOf(n)+", not text", remedy)
		return ""
	}
	if len(r.enum) > 0 && !slices.Contains(r.enum, n.Value) {
		remedy := "write one of " + strings.Join(r.enum, ", ")
		if near := nearest(n.Value, r.enum); near != "" {
			remedy = "did you mean " + near + "?"
		}
		d.fault(n, at, fmt.Sprintf("is %q, which is not allowed", short(n.Value)), remedy)
	}
	if r.pattern != nil && !r.pattern.MatchString(n.Value) {
		d.fault(n, at, fmt.Sprintf("is %q, which is not allowed", short(n.Value)), "write "+r.hint)
	}
	return n.Value
}

// integer reads a whole number within the bounds of its rule.
func (d *decoder) integer(n *yaml.Node, at string, r rule) int {
	i, ok := scalar[int](d, n, at, "!!int", "a whole number, without quotes")
	if !ok {
		return 0
	}
	if least, err := strconv.Atoi(r.min); err == nil && i < least {
		d.fault(n, at, fmt.Sprintf("is %d, less than %d", i, least), "raise it")
	}
	if most, err := strconv.Atoi(r.max); err == nil && i > most {
		d.fault(n, at, fmt.Sprintf("is %d, more than %d", i, most), "lower it")
	}
	return i
}

// scalar reads a node that must have a tag into a Go type.
func scalar[T any](d *decoder, n *yaml.Node, at, tag, want string) (T, bool) {
	var v T
	if n.Kind != yaml.ScalarNode || n.ShortTag() != tag {
		d.fault(n, at, "is "+kindOf(n), "write "+want)
		return v, false
	}
	if err := n.Decode(&v); err != nil {
		d.fault(n, at, fmt.Sprintf("is %s, which cannot be read", short(n.Value)), "write "+want)
		return v, false
	}
	return v, true
}
