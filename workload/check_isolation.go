package workload

import (
	"fmt"
	"strings"
)

// checkIsolation rejects options that contradict each other or reduce isolation:
// authors are trusted with their own containers, not with those of others.
func (d *decoder) checkIsolation(f *file) {
	seen := map[string]bool{}
	for i, option := range f.SecurityOpt {
		at := elementOf("security_opt", i)
		kind, name, _ := strings.Cut(strings.Replace(option, ":", "=", 1), "=")
		if name == "unconfined" {
			d.addErrorAt(at, fmt.Sprintf("is %q, which would disable the profile", option), "name a profile, or remove it")
		}
		if seen[kind] {
			d.addErrorAt(at, fmt.Sprintf("is the second %s", truncate(kind)), "keep one of them")
		}
		seen[kind] = true
	}
	if f.NetworkMode == "" {
		return
	}
	for field, given := range map[string]bool{
		"networks": len(f.Networks) > 0, "ports": len(f.Ports) > 0, "dns": len(f.DNS) > 0,
	} {
		if given {
			d.addErrorAt(field, "is given with network_mode: none", "remove one of them")
		}
	}
}
