package workload

import (
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"
)

// nodeChecker looks at every node before anything is decoded: it bounds the work
// that follows, whatever aliases stand for, and finds what is wrong whatever
// the field.
type nodeChecker struct {
	d     *decoder
	nodes int
}

// knownTags are the tags that a node may have, written or implied. Others would
// make a value into something that no field is.
var knownTags = map[string]bool{
	"!!str": true, "!!int": true, "!!float": true, "!!bool": true, "!!null": true,
	"!!map": true, "!!seq": true, "!!timestamp": true, "!!merge": true,
}

// walk says whether the rest is worth looking at: not when a bound is passed.
func (g *nodeChecker) walk(n *yaml.Node, at string, depth int) bool {
	g.nodes++
	if g.nodes > maxNodes {
		g.d.addError(n, at, fmt.Sprintf("is part of more than %d values", maxNodes), "aliases count as often as they are used")
		return false
	}
	if depth > maxDepth {
		g.d.addError(n, at, fmt.Sprintf("is nested deeper than %d levels", maxDepth), "an alias must not hold itself")
		return false
	}
	if n.Kind != yaml.AliasNode && !knownTags[n.ShortTag()] {
		g.d.addError(n, at, fmt.Sprintf("has the tag %s", truncate(n.Tag)), "remove it")
	}
	switch n.Kind {
	case yaml.AliasNode:
		return g.walk(n.Alias, at, depth+1)
	case yaml.MappingNode:
		return g.mapping(n, at, depth)
	case yaml.SequenceNode:
		for i, e := range n.Content {
			if !g.walk(e, elementOf(at, i), depth+1) {
				return false
			}
		}
	case yaml.ScalarNode:
		if strings.ContainsRune(n.Value, 0) {
			g.d.addError(n, at, "holds a NUL byte", "no program or path can take one")
		}
	}
	return true
}

func (g *nodeChecker) mapping(n *yaml.Node, at string, depth int) bool {
	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		// A key may be an alias, or a whole mapping.
		key, value := resolve(n.Content[i]), n.Content[i+1]
		if key.Kind != yaml.ScalarNode {
			g.d.addError(n.Content[i], at, "has "+kindOf(key)+" for a key", "keys are text")
			continue
		}
		child := keyOf(at, key.Value)
		if !g.walk(key, child, depth+1) {
			return false
		}
		if first, twice := lines[key.Value]; twice {
			g.d.addError(n.Content[i], child, fmt.Sprintf("is there twice, first in line %d", first), "keep one of them")
		}
		lines[key.Value] = n.Content[i].Line
		if !g.walk(value, child, depth+1) {
			return false
		}
		if isMerge(key) && !isMergeable(value) {
			g.d.addError(value, child, "is not a mapping", "<< takes an alias of a mapping, or a list of them")
		}
	}
	return true
}

// isMergeable says whether a << key can take n over. An alias of a whole list is
// none: other readers of YAML refuse it.
func isMergeable(n *yaml.Node) bool {
	if n.Kind != yaml.SequenceNode {
		return resolve(n).Kind == yaml.MappingNode
	}
	for _, e := range n.Content {
		if resolve(e).Kind != yaml.MappingNode {
			return false
		}
	}
	return true
}
