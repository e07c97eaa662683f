package pool

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/internal/dispatch"
)

// fillDelay is the time between a claim of a container and the refill of its
// pool: creating a container costs the engine a hundred times what a claim
// costs, and would slow down a burst of claims.
const fillDelay = 100 * time.Millisecond

// EventHandlers returns what the pools do on events of any server.
func (p *Pools) EventHandlers() dispatch.Subscription {
	wake := func(e activity.Event) { p.filler.Wake(e.Workload); p.Queue.NotifyFirst(e.Workload) }
	wakeAll := func(e activity.Event) { p.filler.Wake(e.Workload); p.Queue.NotifyAll(e.Workload) }
	requested := map[string]string{} // claims without a container, with their workloads, until Flush
	return dispatch.Subscription{
		Name: "pools",
		On: map[activity.Type]func(activity.Event){
			activity.WorkloadApplied: func(e activity.Event) { p.Catalog.Invalidate(e.Workload); wake(e) },
			activity.PoolScaled:      wake,
			activity.PoolDrained:     wakeAll,
			activity.PoolWarning:     wakeAll,
			activity.PoolRecovered:   wakeAll,
			activity.ClaimRequested:  func(e activity.Event) { requested[e.Claim] = e.Workload },
			activity.ClaimFailed:     wake,
			// Its container does not count towards max_size any more.
			activity.ClaimReleaseFailed: wake,
			activity.ContainerClaimed: func(e activity.Event) {
				delete(requested, e.Claim)
				p.Health.MarkStarting(e.Container)
				p.filler.checks.AddAfter(e.Workload, fillDelay)
			},
			activity.ContainerReleased: func(e activity.Event) { p.Health.MarkRestarted(e.Container); wake(e) },
			activity.ContainerDestroyed: func(e activity.Event) {
				p.Health.Forget(e.Container)
				p.runner.Forget(e.Container)
				wake(e)
			},
			activity.ContainerForced: func(e activity.Event) {
				var data activity.ContainerForcedData
				_ = json.Unmarshal(e.Data, &data) // it is of this program
				p.runner.End(e.Container, data.Now, errForced)
				p.reaper.Wake()
			},
			activity.ContainerCreated:     wake,
			activity.ContainerDied:        wake,
			activity.ContainerTerminating: func(e activity.Event) { p.Health.Distrust(e.Container); wake(e) },
			activity.ContainerUnhealthy:   wake,
			activity.ContainerReached:     wake,
			activity.ContainerDestroying:  func(e activity.Event) { p.reaper.Wake(); wake(e) },
		},
		Flush: func() {
			for _, workload := range requested {
				p.filler.Wake(workload)
			}
			clear(requested)
			p.filler.sweeps.WakeAfter(sweepDelay)
			p.watcher.changes.Add(1)
		},
		Resync: func(ctx context.Context) error {
			p.Catalog.InvalidateAll()
			p.Health.forgetRecords()
			all, err := p.store.Workloads(ctx)
			for _, r := range all {
				wakeAll(activity.Event{Workload: r.ID})
			}
			p.reaper.Wake()
			p.filler.sweeps.Wake()
			p.watcher.changes.Add(1)
			return errors.Join(err, p.endForced(ctx))
		},
	}
}
