package workload

import (
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"
)

// nodeChecker checks every node before anything is decoded. It limits the work
// that follows, also for aliases, and finds errors that do not depend on the
// field.
type nodeChecker struct {
	d     *decoder
	nodes int
	bytes int // of all values
}

// knownTags are the tags that a node may have, explicit or implicit. No field has
// a type for other tags.
var knownTags = map[string]bool{
	"!!str": true, "!!int": true, "!!float": true, "!!bool": true, "!!null": true,
	"!!map": true, "!!seq": true, "!!timestamp": true, "!!merge": true,
}

// walk checks a node and reports whether to continue: not if a limit is exceeded. The
// paths of many errors may be a thousand times the file.
func (g *nodeChecker) walk(n *yaml.Node, at string, depth int) bool {
	if len(g.d.errs) >= maxKept {
		return false
	}
	g.nodes++
	if g.nodes > maxNodes {
		g.d.addError(n, at, fmt.Sprintf("is one of more than %d values", maxNodes), "aliases count as often as they are used")
		return false
	}
	if depth > maxDepth {
		g.d.addError(n, at, fmt.Sprintf("is nested deeper than %d levels", maxDepth), "an alias must not contain itself")
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
		// A revision and a plan have copies of the values.
		if g.bytes += len(n.Value); g.bytes > MaxSize {
			g.d.addError(n, at, fmt.Sprintf("is one of values of more than %d bytes together", MaxSize), "aliases count as often as they are used")
			return false
		}
		if strings.ContainsRune(n.Value, 0) {
			g.d.addError(n, at, "contains a NUL byte", "programs and paths cannot contain it")
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
			g.d.addError(n.Content[i], at, "has "+kindOf(key)+" for a key", "keys must be text")
			continue
		}
		child := keyOf(at, key.Value)
		if !g.walk(key, child, depth+1) {
			return false
		}
		if first, twice := lines[key.Value]; twice {
			g.d.addError(n.Content[i], child, fmt.Sprintf("is given twice, first in line %d", first), "keep one of them")
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

// isMergeable reports whether a << key can merge n. An alias of a list is not
// mergeable, because other YAML parsers reject it.
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
