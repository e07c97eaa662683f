package workload

import (
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// check finds what no field can know alone. Fields that are faulty already are
// left out: one mistake is one fault.
func (d *decoder) check(f *file) {
	for i, address := range f.DNS {
		if _, err := netip.ParseAddr(address); err != nil {
			d.wrong(elementOf("dns", i), fmt.Sprintf("is %q, which is no IP address", short(address)), "write one like 1.1.1.1")
		}
	}
	if !d.faulty["pool.max_size"] && f.Pool.MinIdle > f.Pool.MaxSize {
		d.wrong("pool.min_idle", fmt.Sprintf("is %d, more than max_size, which is %d", f.Pool.MinIdle, f.Pool.MaxSize), "lower it, or raise max_size")
	}
	d.checkVolumes(f)
	d.checkSync(f)
	d.checkHooks(f)
}

// wrong adds a fault at a path, unless there is one. The place is the value's,
// or that of the nearest mapping around it.
func (d *decoder) wrong(at, message, remedy string) {
	near := at
	for d.where[near] == nil && near != "" {
		near = near[:max(strings.LastIndexAny(near, ".["), 0)]
	}
	n := d.where[near]
	if n == nil {
		n = &yaml.Node{}
	}
	d.fault(n, at, message, remedy)
}

func (d *decoder) checkVolumes(f *file) {
	seen := map[string]string{"state": "", "secrets": "", "comm": ""}
	for i, v := range f.Volumes.Custom {
		at := keyOf(elementOf("volumes.custom", i), "name")
		if first, twice := seen[v.Name]; twice && first == "" {
			d.wrong(at, fmt.Sprintf("is %q, which is a volume of its own", v.Name), "write it beside custom, or choose another name")
		} else if twice {
			d.wrong(at, "is the same as "+first, "volumes have different names")
		}
		seen[v.Name] = at
	}
	volumes := f.volumes()
	for i, v := range volumes {
		d.checkTarget(v)
		d.checkSeed(v)
		for _, other := range volumes[:i] {
			if d.faulty[v.at+".target"] || d.faulty[other.at+".target"] {
				continue
			}
			if below(v.Target, other.Target) || below(other.Target, v.Target) {
				d.wrong(v.at+".target", fmt.Sprintf("is %s, and %s has %s", short(v.Target), other.at, short(other.Target)), "volumes cannot lie within each other")
			}
		}
	}
}

// reserved are folders that a volume must not hide, nor lie in.
var reserved = map[string]string{
	"/.hostler": "Hostler's own",
	"/proc":     "the kernel's",
	"/sys":      "the kernel's",
	"/dev":      "the engine's",
}

func (d *decoder) checkTarget(v placedVolume) {
	at := v.at + ".target"
	if !strings.HasPrefix(v.Target, "/") {
		return // its pattern has said so
	}
	if tidy := path.Clean(v.Target); tidy != v.Target {
		d.wrong(at, fmt.Sprintf("is %q, which can be written shorter", short(v.Target)), "write "+short(tidy))
	}
	if path.Clean(v.Target) == "/" {
		d.wrong(at, "is the root of the container", "write a folder in it")
	}
	for dir, whose := range reserved {
		if below(v.Target, dir) {
			d.wrong(at, fmt.Sprintf("is in %s, which is %s", dir, whose), "choose another folder")
		}
	}
}

func (d *decoder) checkSeed(v placedVolume) {
	at := v.at + ".seed"
	if v.Seed == "" && d.where[at] == nil {
		return
	}
	if seed := path.Clean(v.Seed); strings.HasPrefix(v.Seed, "/") || !clean(seed) || seed == "." {
		d.wrong(at, fmt.Sprintf("is %q, which is no folder beside the file", short(v.Seed)), "write a relative path without .., such as ./seed")
	}
}

func (d *decoder) checkSync(f *file) {
	if f.Sync == nil {
		return
	}
	s3 := f.Sync.Sink.s3
	if (s3.AccessKeyID == "") != (s3.SecretAccessKey == "") {
		d.wrong("sync.sink", "has one of access_key_id and secret_access_key", "give both, or neither")
	}
	if s := f.Sync.Policy.Interval; s > 0 && s < duration(leastInterval) {
		d.wrong("sync.policy.interval", "is less than 1s", "write at least 1s, or 0 for not at all")
	}
	if f.Volumes.State == nil && len(f.Sync.Mappings) == 0 {
		d.wrong("sync.mappings", "is left out, and there is no state volume", "name what is kept, or add volumes.state")
	}
	seen := map[[2]string]string{}
	for i, m := range f.Sync.Mappings {
		at := elementOf("sync.mappings", i)
		d.checkMapping(f, m, at)
		key := [2]string{f.mappingPath(m.Path), m.Pattern}
		if first, twice := seen[key]; twice {
			d.wrong(at, "keeps the same as "+first, "keep one of them")
		}
		seen[key] = at
	}
}

func (d *decoder) checkMapping(f *file, m mappingFile, at string) {
	absolute := strings.HasPrefix(m.Path, "/") && m.Path != "/"
	if !absolute && f.Volumes.State == nil {
		d.wrong(at+".path", "is below the state volume, and there is none", "write an absolute path, or add volumes.state")
	}
	// Only files that are written to a volume can be there after the restart
	// that follows a download.
	inVolume := func(v placedVolume) bool { return below(f.mappingPath(m.Path), v.Target) }
	if f.ReadOnly && absolute && !slices.ContainsFunc(f.volumes(), inVolume) {
		d.wrong(at+".path", "is in no volume, and read_only is true", "add a volume that holds it")
	}
	if p := path.Clean(m.Path); p != strings.TrimSuffix(m.Path, "/") && m.Path != "/" && "./"+p != m.Path ||
		!absolute && m.Path != "/" && !clean(p) {
		d.wrong(at+".path", fmt.Sprintf("is %q, which goes astray", short(m.Path)), "write it without // and ..")
	}
	if m.SinkPath != "" && !clean(strings.TrimSuffix(m.SinkPath, "/")) {
		d.wrong(at+".sink_path", fmt.Sprintf("is %q, which is no relative path", short(m.SinkPath)), "write it without a / in front, // and ..")
	}
	if _, err := path.Match(m.Pattern, ""); err != nil || strings.HasPrefix(m.Pattern, "/") || slices.Contains(strings.Split(m.Pattern, "/"), "..") {
		d.wrong(at+".pattern", fmt.Sprintf("is %q, which is no glob below path", short(m.Pattern)), "write one like ** or *.json")
	}
}

// below says whether p is dir or lies in it. Both are clean.
func below(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}

// clean says whether p is a relative path that stays where it is and has no
// superfluous part.
func clean(p string) bool {
	return p != "" && p == path.Clean(p) && p != ".." && !strings.HasPrefix(p, "../") && !strings.HasPrefix(p, "/")
}
