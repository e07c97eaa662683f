package workload

import (
	"fmt"
	"net/netip"
	"path"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/hostler/hostler/runtime"
)

// check validates what needs more than one field. It skips fields that are
// already invalid, so that one mistake is one error.
func (d *decoder) check(f *file) {
	for i, address := range f.DNS {
		if _, err := netip.ParseAddr(address); err != nil {
			d.addErrorAt(elementOf("dns", i), fmt.Sprintf("is %q, which is not an IP address", truncate(address)), "write one like 1.1.1.1")
		}
	}
	if f.StopSignal != "" {
		if _, err := runtime.ParseSignal(f.StopSignal); err != nil {
			d.addErrorAt("stop_signal", fmt.Sprintf("is %q, which is not a signal", truncate(f.StopSignal)), "write one like SIGTERM, SIGUSR1 or SIGRTMIN+3")
		}
	}
	d.checkIsolation(f)
	if !d.invalid["pool.max_size"] && f.Pool.MinIdle > f.Pool.MaxSize {
		d.addErrorAt("pool.min_idle", fmt.Sprintf("is %d, more than max_size, which is %d", f.Pool.MinIdle, f.Pool.MaxSize), "lower it, or raise max_size")
	}
	d.checkVolumes(f)
	d.checkSync(f)
	if f.Sync != nil {
		d.checkKeyFile(f.Sync.Sink.sink().Credentials.File, "sync.sink.credentials.file")
	}
	d.checkHooks(f)
	if f.HooksFrom == f.ID && f.ID != "" {
		d.addErrorAt("hooks_from", "is this workload itself", "name another workload")
	}
}

// addErrorAt adds an error at a path, unless there is one. Its position is that
// of the value, or of the nearest enclosing mapping.
func (d *decoder) addErrorAt(at, message, hint string) {
	d.addError(d.nearest(at), at, message, hint)
}

// nearest returns the node at a path, or that of the nearest enclosing mapping.
func (d *decoder) nearest(at string) *yaml.Node {
	for d.nodes[at] == nil && at != "" {
		at = at[:max(strings.LastIndexAny(at, ".["), 0)]
	}
	if n := d.nodes[at]; n != nil {
		return n
	}
	return &yaml.Node{}
}

func (d *decoder) checkVolumes(f *file) {
	seen := map[string]string{"state": "", "secrets": "", "comm": ""}
	for i, v := range f.Volumes.Custom {
		at := keyOf(elementOf("volumes.custom", i), "name")
		if first, twice := seen[v.Name]; twice && first == "" {
			d.addErrorAt(at, fmt.Sprintf("is %q, which is a predefined volume", v.Name), "write it directly under volumes, or choose another name")
		} else if twice {
			d.addErrorAt(at, "is the same as "+first, "volume names must be unique")
		}
		seen[v.Name] = at
	}
	volumes := f.volumes()
	for i, v := range volumes {
		d.checkTarget(v)
		d.checkSeed(v)
		for _, other := range volumes[:i] {
			if d.invalid[v.at+".target"] || d.invalid[other.at+".target"] {
				continue
			}
			if isUnder(v.Target, other.Target) || isUnder(other.Target, v.Target) {
				d.addErrorAt(v.at+".target", fmt.Sprintf("is %s, and %s has %s", truncate(v.Target), other.at, truncate(other.Target)), "volumes must not be nested")
			}
		}
	}
}

// reservedDirs are directories that a volume must not be in.
var reservedDirs = map[string]string{
	"/.hostler": "Hostler's own",
	"/proc":     "the kernel's",
	"/sys":      "the kernel's",
	"/dev":      "the engine's",
}

func (d *decoder) checkTarget(v placedVolume) {
	at := v.at + ".target"
	if !strings.HasPrefix(v.Target, "/") {
		return // its pattern has reported that
	}
	if cleaned := path.Clean(v.Target); cleaned != v.Target {
		d.addErrorAt(at, fmt.Sprintf("is %q, which is not in its shortest form", truncate(v.Target)), "write "+truncate(cleaned))
	}
	if path.Clean(v.Target) == "/" {
		d.addErrorAt(at, "is the root of the container", "write a directory below it")
	}
	for dir, whose := range reservedDirs {
		if isUnder(v.Target, dir) {
			d.addErrorAt(at, fmt.Sprintf("is in %s, which is %s", dir, whose), "choose another directory")
		}
	}
}

func (d *decoder) checkSeed(v placedVolume) {
	at := v.at + ".seed"
	if v.Seed == "" && d.nodes[at] == nil {
		return
	}
	if seed := path.Clean(v.Seed); strings.HasPrefix(v.Seed, "/") || !isCleanRelPath(seed) || seed == "." {
		d.addErrorAt(at, fmt.Sprintf("is %q, which is not a directory next to the file", truncate(v.Seed)), "write a relative path without .., such as ./seed")
	}
}

// isUnder reports whether p is dir or below it. Both must be clean.
func isUnder(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}

// isCleanRelPath reports whether p is a clean relative path that does not begin
// with "..".
func isCleanRelPath(p string) bool {
	return p != "" && p == path.Clean(p) && p != ".." && !strings.HasPrefix(p, "../") && !strings.HasPrefix(p, "/")
}
