package workload

import (
	"fmt"
	"net/netip"
	"path"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/hostler/hostler/runtime"
)

// check finds what no field can know alone. Fields that are faulty already are
// left out: one mistake is one fault.
func (d *decoder) check(f *file) {
	for i, address := range f.DNS {
		if _, err := netip.ParseAddr(address); err != nil {
			d.wrong(elementOf("dns", i), fmt.Sprintf("is %q, which is no IP address", short(address)), "write one like 1.1.1.1")
		}
	}
	if f.StopSignal != "" {
		if _, err := runtime.ParseSignal(f.StopSignal); err != nil {
			d.wrong("stop_signal", fmt.Sprintf("is %q, which is no signal", short(f.StopSignal)), "write one like SIGTERM, SIGUSR1 or SIGRTMIN+3")
		}
	}
	d.checkIsolation(f)
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

// below says whether p is dir or lies in it. Both are clean.
func below(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}

// clean says whether p is a relative path that stays where it is and has no
// superfluous part.
func clean(p string) bool {
	return p != "" && p == path.Clean(p) && p != ".." && !strings.HasPrefix(p, "../") && !strings.HasPrefix(p, "/")
}
