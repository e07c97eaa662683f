package workload

import (
	"slices"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/runtime"
)

// HooksAt returns the hooks of a point in order: of the image, if w has
// ImageHooks, and then of the file. image are those of the container's image.
func (w *Workload) HooksAt(p hooks.Point, image []runtime.ImageHook) []hooks.Hook {
	if !w.ImageHooks {
		return w.Hooks[p]
	}
	own := hooks.ImageHooksAt(p, image)
	if p == hooks.PreDestroy {
		w.bound(own)
	}
	return slices.Concat(own, w.Hooks[p])
}
