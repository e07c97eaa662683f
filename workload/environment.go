package workload

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// environment is written as a mapping or as a list of NAME=value, as compose
// has it. In a mapping, numbers and true and false are text as written.
type environment map[string]string

const variablePattern = `^[A-Za-z_][A-Za-z0-9_.-]*$`

var variableForm = regexp.MustCompile(variablePattern)

func (v *environment) read(d *decoder, n *yaml.Node, at string, _ rule) {
	*v = environment{}
	switch n.Kind {
	case yaml.MappingNode:
		for _, p := range pairs(n) {
			below := keyOf(at, p.key.Value)
			if message, remedy := notValue(p.value); message != "" {
				d.fault(p.value, below, message, remedy)
				continue
			}
			v.add(d, p.key, p.key.Value, p.value.Value, below)
		}
	case yaml.SequenceNode:
		for i, e := range n.Content {
			e, below := resolve(e), elementOf(at, i)
			name, value, ok := strings.Cut(d.text(e, below, rule{}), "=")
			if !ok && !d.faulty[below] {
				d.fault(e, below, "has no =", "write NAME=value; nothing is taken from the server's environment")
			}
			if d.faulty[below] {
				continue
			}
			if _, twice := (*v)[name]; twice {
				d.fault(e, below, fmt.Sprintf("sets %s a second time", short(name)), "keep one of them")
			}
			v.add(d, e, name, value, below)
		}
	default:
		d.fault(n, at, "is "+kindOf(n), "write a mapping, or a list of NAME=value")
	}
}

// notValue says why a variable cannot be set to n; "" when it can.
func notValue(n *yaml.Node) (message, remedy string) {
	if n.Kind != yaml.ScalarNode {
		return "is " + kindOf(n) + ", not text", "put it in quotes"
	}
	if n.ShortTag() == "!!null" {
		return "has no value", `write "" to set it to nothing; it is not taken from the server's environment`
	}
	return "", ""
}

func (v *environment) add(d *decoder, n *yaml.Node, name, value, at string) {
	if !variableForm.MatchString(name) {
		d.fault(n, at, fmt.Sprintf("%q is no variable's name", short(name)), "write letters, digits, _, . and -, beginning with a letter or _")
	}
	if len(name)+len(value)+2 > maxArgs {
		d.fault(n, at, "is longer than "+strconv.Itoa(maxArgs)+" bytes", "put it into a file")
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
			"items": schema{"type": "string", "pattern": strings.TrimSuffix(variablePattern, "$") + "="},
		},
	}}
}
