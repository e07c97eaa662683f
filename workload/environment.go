package workload

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// environment is written as a mapping or as a list of NAME=value, as in compose.
// In a mapping, numbers, true and false are text as written.
type environment map[string]string

const variablePattern = `^[A-Za-z_][A-Za-z0-9_.-]*$`

var variableRegexp = regexp.MustCompile(variablePattern)

func (v *environment) read(d *decoder, n *yaml.Node, at string, _ rule) {
	*v = environment{}
	switch n.Kind {
	case yaml.MappingNode:
		for _, p := range pairs(n) {
			child := keyOf(at, p.key.Value)
			if message, hint := checkVariableValue(p.value); message != "" {
				d.addError(p.value, child, message, hint)
				continue
			}
			v.add(d, p.key, p.key.Value, p.value.Value, child)
		}
	case yaml.SequenceNode:
		for i, e := range n.Content {
			e, child := resolve(e), elementOf(at, i)
			name, value, ok := strings.Cut(d.text(e, child, rule{}), "=")
			if !ok && !d.invalid[child] {
				d.addError(e, child, "has no =", "write NAME=value; the server's environment is not used")
			}
			if d.invalid[child] {
				continue
			}
			if _, twice := (*v)[name]; twice {
				d.addError(e, child, fmt.Sprintf("sets %s a second time", truncate(name)), "keep one of them")
			}
			v.add(d, e, name, value, child)
		}
	default:
		d.addError(n, at, "is "+kindOf(n), "write a mapping, or a list of NAME=value")
	}
}

// checkVariableValue returns why a variable cannot be set to n; "" if it can.
func checkVariableValue(n *yaml.Node) (message, hint string) {
	if n.Kind != yaml.ScalarNode {
		return "is " + kindOf(n) + ", not text", "put it in quotes"
	}
	if n.ShortTag() == "!!null" {
		return "has no value", `write "" for an empty value; the server's environment is not used`
	}
	return "", ""
}

func (v *environment) add(d *decoder, n *yaml.Node, name, value, at string) {
	if !variableRegexp.MatchString(name) {
		d.addError(n, at, fmt.Sprintf("%q is not a variable name", truncate(name)), "write letters, digits, _, . and -, beginning with a letter or _")
	}
	if len(name)+len(value)+2 > maxArgs {
		d.addError(n, at, "is longer than "+strconv.Itoa(maxArgs)+" bytes", "put it into a file")
	}
	(*v)[name] = value
}

func (v *environment) schema(_ *generator, _ rule) schema {
	return schema{"anyOf": []schema{
		{
			"type":                 "object",
			"propertyNames":        schema{"pattern": variablePattern},
			"additionalProperties": schema{"type": []string{"string", "number", "boolean"}},
		},
		{
			"type":  "array",
			"items": schema{"type": "string", "pattern": strings.TrimSuffix(variablePattern, "$") + "=", patternMessage: "write NAME=value"},
		},
	}}
}
