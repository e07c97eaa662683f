package workload

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hostler/hostler/hooks"
)

// reservedPrefix is the prefix of the variables that Hostler sets for hooks.
const reservedPrefix = "HOSTLER_"

func (d *decoder) checkHooks(f *file) {
	for _, rule := range hooks.Points() {
		seen := map[string]string{}
		for i, h := range f.Hooks[rule.Point] {
			at := elementOf(keyOf("hooks", string(rule.Point)), i)
			if first, twice := seen[h.Name]; twice && h.Name != "" {
				d.addErrorAt(at+".name", fmt.Sprintf("is %q, which is also the name of %s", h.Name, first), "hook names must be unique within a point")
			}
			seen[h.Name] = at
			d.checkHook(h, at)
		}
	}
}

func (d *decoder) checkHook(h hookFile, at string) {
	if h.Retries != nil && h.OnError != string(hooks.Retry) && !d.invalid[at+".on_error"] {
		d.addErrorAt(at+".retries", "is given without on_error: retry", "add on_error: retry, or remove it")
	}
	for _, name := range slices.Sorted(maps.Keys(h.Environment)) {
		if strings.HasPrefix(name, reservedPrefix) {
			d.addErrorAt(keyOf(at+".environment", name), truncate(name)+" is set by Hostler", "choose a name that does not begin with "+reservedPrefix)
		}
	}
}
