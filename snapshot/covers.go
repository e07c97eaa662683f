package snapshot

import (
	"strings"

	"github.com/hostler/hostler/workload"
)

// Covers reports whether the snapshot determines what is, or is not, at a path
// of the container into which it is downloaded.
func (s Snapshot) Covers(sync *workload.Sync, path string) bool {
	for _, m := range sync.Mappings {
		p := findPart(s.Parts, m.SinkPath)
		if p == nil || m.Direction != workload.Bidirectional {
			continue
		}
		if path == m.Path {
			return true
		}
		below, ok := strings.CutPrefix(path, strings.TrimSuffix(m.Path, "/")+"/")
		if ok && matches(p.Pattern, below) {
			return true
		}
	}
	return false
}
