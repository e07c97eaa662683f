package snapshot

import (
	"path"
	"strings"
)

// matchAll is the pattern that all names match.
const matchAll = "**"

// matches says whether a glob matches a clean relative path. ** stands for any
// number of folders, also none; the rest is path.Match, part by part. The work
// is bounded by the product of the parts, whatever a tenant calls its files.
func matches(pattern, name string) bool {
	if pattern == matchAll {
		return true
	}
	globs, parts := strings.Split(pattern, "/"), strings.Split(name, "/")
	// reach[j] says that the globs so far match the first j parts.
	reach := make([]bool, len(parts)+1)
	reach[0] = true
	for _, glob := range globs {
		next := make([]bool, len(parts)+1)
		for j := range reach {
			switch {
			case glob == matchAll:
				next[j] = reach[j] || j > 0 && next[j-1]
			case j > 0 && reach[j-1]:
				next[j], _ = path.Match(glob, parts[j-1]) // package workload has refused bad ones
			}
		}
		reach = next
	}
	return reach[len(parts)]
}
