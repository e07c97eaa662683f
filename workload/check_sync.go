package workload

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// snapshotsDir is the directory of snapshots below a tenant's prefix.
const snapshotsDir = ".hostler"

func (d *decoder) checkSync(f *file) {
	if f.Sync == nil {
		return
	}
	c := f.Sync.Sink.credentials()
	if _, given := d.nodes["sync.sink.credentials"]; given && (c.File == "") == (c.Env == "") {
		d.addErrorAt("sync.sink.credentials", "does not have one of file and env", "give one of them, or omit credentials")
	}
	if p := f.Sync.Sink.dir.Path; p != "" && path.Clean(p) != p {
		d.addErrorAt("sync.sink.path", fmt.Sprintf("is %q, which is not in its shortest form", truncate(p)), "write "+truncate(path.Clean(p)))
	}
	if s := f.Sync.Policy.Interval; s > 0 && s < duration(minSyncInterval) {
		d.addErrorAt("sync.policy.interval", "is less than 1s", "write at least 1s, or 0 for no uploads")
	}
	if f.Volumes.State == nil && len(f.Sync.Mappings) == 0 {
		d.addErrorAt("sync.mappings", "is omitted, and there is no state volume", "add mappings, or add volumes.state")
	}
	seen, places := map[[2]string]string{}, map[string]string{}
	for i, m := range f.Sync.Mappings {
		at := elementOf("sync.mappings", i)
		d.checkMapping(f, m, at)
		key := [2]string{f.mappingPath(m.Path), m.Pattern}
		if first, twice := seen[key]; twice {
			d.addErrorAt(at, "is the same as "+first, "keep one of them")
		}
		seen[key] = at
		if Direction(m.Direction) == Download || d.invalid[at] {
			continue
		}
		// A download finds the files of a mapping by its sink path.
		if first, twice := places[f.sinkPath(m)]; twice {
			d.addErrorAt(at, "has the same sink path as "+first, "give one of them another sink_path")
		}
		places[f.sinkPath(m)] = at
	}
}

func (d *decoder) checkMapping(f *file, m mappingFile, at string) {
	absolute := strings.HasPrefix(m.Path, "/") && m.Path != "/"
	if !absolute && f.Volumes.State == nil {
		d.addErrorAt(at+".path", "is below the state volume, and there is none", "write an absolute path, or add volumes.state")
	}
	// With a read-only root, files can only be written to volumes, and only
	// volumes outlive the restart that follows a download.
	inVolume := func(v placedVolume) bool { return isUnder(f.mappingPath(m.Path), v.Target) }
	if f.ReadOnly && absolute && !slices.ContainsFunc(f.volumes(), inVolume) {
		d.addErrorAt(at+".path", "is not in a volume, and read_only is true", "add a volume that contains it")
	}
	if p := path.Clean(m.Path); p != strings.TrimSuffix(m.Path, "/") && m.Path != "/" && "./"+p != m.Path ||
		!absolute && m.Path != "/" && !isCleanRelPath(p) {
		d.addErrorAt(at+".path", fmt.Sprintf("is %q, which is not a clean path", truncate(m.Path)), "write it without // and ..")
	}
	if m.SinkPath != "" && !isCleanRelPath(strings.TrimSuffix(m.SinkPath, "/")) {
		d.addErrorAt(at+".sink_path", fmt.Sprintf("is %q, which is not a clean relative path", truncate(m.SinkPath)), "write it without a leading /, // and ..")
	}
	if isUnder(m.SinkPath, snapshotsDir) {
		d.addErrorAt(at+".sink_path", "is in "+snapshotsDir+", where snapshots are", "choose another")
	}
	if _, err := path.Match(m.Pattern, ""); err != nil || strings.HasPrefix(m.Pattern, "/") || slices.Contains(strings.Split(m.Pattern, "/"), "..") {
		d.addErrorAt(at+".pattern", fmt.Sprintf("is %q, which is not a glob below path", truncate(m.Pattern)), "write one like ** or *.json")
	}
}
