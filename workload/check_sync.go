package workload

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// snapshotsDir is where below a tenant's prefix snapshots are.
const snapshotsDir = ".hostler"

func (d *decoder) checkSync(f *file) {
	if f.Sync == nil {
		return
	}
	c := f.Sync.Sink.credentials()
	if _, given := d.nodes["sync.sink.credentials"]; given && (c.File == "") == (c.Env == "") {
		d.addErrorAt("sync.sink.credentials", "does not have one of file and env", "give one of them, or leave credentials out")
	}
	if p := f.Sync.Sink.dir.Path; p != "" && path.Clean(p) != p {
		d.addErrorAt("sync.sink.path", fmt.Sprintf("is %q, which can be written shorter", truncate(p)), "write "+truncate(path.Clean(p)))
	}
	if s := f.Sync.Policy.Interval; s > 0 && s < duration(minSyncInterval) {
		d.addErrorAt("sync.policy.interval", "is less than 1s", "write at least 1s, or 0 for not at all")
	}
	if f.Volumes.State == nil && len(f.Sync.Mappings) == 0 {
		d.addErrorAt("sync.mappings", "is left out, and there is no state volume", "name what is kept, or add volumes.state")
	}
	seen, places := map[[2]string]string{}, map[string]string{}
	for i, m := range f.Sync.Mappings {
		at := elementOf("sync.mappings", i)
		d.checkMapping(f, m, at)
		key := [2]string{f.mappingPath(m.Path), m.Pattern}
		if first, twice := seen[key]; twice {
			d.addErrorAt(at, "keeps the same as "+first, "keep one of them")
		}
		seen[key] = at
		if Direction(m.Direction) == Download || d.invalid[at] {
			continue
		}
		// What is kept is found again by its sink path.
		if first, twice := places[f.sinkPath(m)]; twice {
			d.addErrorAt(at, "is kept in the same place as "+first, "give one of them another sink_path")
		}
		places[f.sinkPath(m)] = at
	}
}

func (d *decoder) checkMapping(f *file, m mappingFile, at string) {
	absolute := strings.HasPrefix(m.Path, "/") && m.Path != "/"
	if !absolute && f.Volumes.State == nil {
		d.addErrorAt(at+".path", "is below the state volume, and there is none", "write an absolute path, or add volumes.state")
	}
	// Only files that are written to a volume can be there after the restart
	// that follows a download.
	inVolume := func(v placedVolume) bool { return isUnder(f.mappingPath(m.Path), v.Target) }
	if f.ReadOnly && absolute && !slices.ContainsFunc(f.volumes(), inVolume) {
		d.addErrorAt(at+".path", "is in no volume, and read_only is true", "add a volume that holds it")
	}
	if p := path.Clean(m.Path); p != strings.TrimSuffix(m.Path, "/") && m.Path != "/" && "./"+p != m.Path ||
		!absolute && m.Path != "/" && !isCleanRelPath(p) {
		d.addErrorAt(at+".path", fmt.Sprintf("is %q, which goes astray", truncate(m.Path)), "write it without // and ..")
	}
	if m.SinkPath != "" && !isCleanRelPath(strings.TrimSuffix(m.SinkPath, "/")) {
		d.addErrorAt(at+".sink_path", fmt.Sprintf("is %q, which is no relative path", truncate(m.SinkPath)), "write it without a / in front, // and ..")
	}
	if isUnder(m.SinkPath, snapshotsDir) {
		d.addErrorAt(at+".sink_path", "is in "+snapshotsDir+", where snapshots are", "choose another")
	}
	if _, err := path.Match(m.Pattern, ""); err != nil || strings.HasPrefix(m.Pattern, "/") || slices.Contains(strings.Split(m.Pattern, "/"), "..") {
		d.addErrorAt(at+".pattern", fmt.Sprintf("is %q, which is no glob below path", truncate(m.Pattern)), "write one like ** or *.json")
	}
}
