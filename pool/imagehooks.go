package pool

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/workload"
)

// listImageHooks records the hooks of a new container's image. A tenant may replace
// the files later: what runs is only what is on record. Refused files are a
// warning.
func (p *Provisioner) listImageHooks(ctx context.Context, c Container) error {
	found, err := p.rt.ImageHooks(ctx, c.ID, hooks.PointsOfImageHooks(), c.Fence)
	if err != nil {
		return err
	}
	var events []activity.Event
	if len(found.Refused) > 0 {
		events = []activity.Event{{
			Type:    activity.HookWarning,
			Message: "hooks of the image do not run: " + strings.Join(found.Refused[:min(len(found.Refused), maxRefusals)], "; "),
			Data:    activity.Data(activity.HookWarningData{Hook: strings.TrimSuffix(hooks.ImagePrefix, ":"), Warnings: found.Refused}),
		}}
	}
	_, err = p.store.UpdateContainer(ctx, Note(c.ID, Creating, func(c *Container) { c.ImageHooks = found.Hooks }, events...))
	if err != nil {
		return fmt.Errorf("record the hooks of the image: %w", err)
	}
	return nil
}

// maxRefusals is how many refusals the message of an event has. Its data has all.
const maxRefusals = 3

// HasHooks reports whether hooks of the container's image, or of the workload's
// file, run at a point.
func (c Container) HasHooks(p hooks.Point, w *workload.Workload) bool {
	return len(w.HooksAt(p, c.ImageHooks)) > 0
}

// creationTimeout returns how long a creation may take at most. The hooks of the
// image are not known yet: they share imageHooksTime.
func creationTimeout(w *workload.Workload) time.Duration {
	all := slices.Concat(w.Hooks[hooks.PreStart], w.Hooks[hooks.PostStart], w.Hooks[hooks.PostCreate])
	timeout := createTimeout + maxHooksDuration(all)
	if w.ImageHooks {
		timeout += imageHooksTime
	}
	return timeout
}

// imageHooksTime is how long the hooks of an image may take in a creation, all
// together. A creation that hangs is not held up by what 64 hooks could need.
const imageHooksTime = 10 * time.Minute
