package snapshot

import (
	"path"
	"strings"
)

// matchAll is the pattern that matches all names.
const matchAll = "**"

// matches reports whether a glob matches a clean relative path. ** matches any
// number of directories, also none; the rest is path.Match for each component.
// The work is bounded by the product of the numbers of components, whatever a
// tenant calls its files.
func matches(pattern, name string) bool {
	if pattern == matchAll {
		return true
	}
	globs, parts := strings.Split(pattern, "/"), strings.Split(name, "/")
	// reach[j] reports whether the globs so far match the first j parts.
	reach := make([]bool, len(parts)+1)
	reach[0] = true
	for _, glob := range globs {
		next := make([]bool, len(parts)+1)
		for j := range reach {
			switch {
			case glob == matchAll:
				next[j] = reach[j] || j > 0 && next[j-1]
			case j > 0 && reach[j-1]:
				next[j], _ = path.Match(glob, parts[j-1]) // package workload refuses invalid ones
			}
		}
		reach = next
	}
	return reach[len(parts)]
}
