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

// CanUpdate reports whether a container that holds another snapshot of the tenant
// can be made to hold this one by a download, which removes what the snapshot does
// not have. It has to have all that the container's seed could otherwise have. And
// only in a volume can no link lead the download to files that are not the
// tenant's.
func (s Snapshot) CanUpdate(sync *workload.Sync) bool {
	for _, m := range sync.Mappings {
		if m.Direction == workload.Upload {
			continue
		}
		if m.Volume == "" || m.Direction == workload.Bidirectional && findPart(s.Parts, m.SinkPath) == nil {
			return false
		}
	}
	return true
}
