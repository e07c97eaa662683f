package workload

import (
	"regexp"
	"slices"

	"gopkg.in/yaml.v3"
)

// topFields are the fields of which every workload file has at least one at its
// top level, and files of other programs have none.
var topFields = []string{"id", "image", "pool"}

// topFieldLine is the line of such a field in a file that cannot be parsed.
var topFieldLine = regexp.MustCompile(`(?m)^["']?(id|image|pool)["']?[ \t]*:`)

// IsWorkload reports whether a file describes a workload, perhaps with errors,
// and not something else in the same format, such as the services of a compose
// file: it has a field id, image or pool.
func IsWorkload(source []byte, name string) bool {
	source = frontMatter(source, name)
	root, invalid := parseNode(source)
	if invalid != nil {
		return topFieldLine.Match(source)
	}
	if root.Kind != yaml.MappingNode {
		return false
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i].Value, root.Content[i+1]
		// The image of a chart's values is a mapping.
		if slices.Contains(topFields, key) && (key != "image" || value.Kind == yaml.ScalarNode) {
			return true
		}
	}
	return false
}
