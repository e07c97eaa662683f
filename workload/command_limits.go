package workload

import (
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/runtime"
)

// commandLimits returns the greatest limit of each kind that a hook has.
func (w *Workload) commandLimits() runtime.ProcessLimits {
	var all runtime.ProcessLimits
	add := func(action hooks.Action) {
		var l hooks.ProcessLimits
		switch a := action.(type) {
		case hooks.Command:
			l = a.Limits
		case hooks.Script:
			l = a.Limits
		}
		all = runtime.ProcessLimits{
			CPUTime: max(all.CPUTime, l.CPUTime), Memory: max(all.Memory, l.Memory),
			FileSize: max(all.FileSize, l.FileSize), Output: max(all.Output, l.Output),
		}
	}
	for _, list := range w.Hooks {
		for _, h := range list {
			add(h.Action)
		}
	}
	for _, h := range w.EventHooks {
		add(h.Action)
	}
	return all
}
