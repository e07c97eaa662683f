package main

import (
	"context"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/internal/flow"
)

// eventBatch is how many events are looked at in one go.
const eventBatch = 500

// followEvents wakes those who wait here when something has changed anywhere: claims
// that wait for a container, and the loops of whoever leads.
func (s *server) followEvents(ctx context.Context) error {
	after, err := s.db.LastSeq(ctx)
	for ; err != nil; after, err = s.db.LastSeq(ctx) {
		s.log.Warn("the end of the log was not found, and is looked for again", "error", err)
		if flow.Sleep(ctx, time.Second) != nil {
			return nil
		}
	}
	for {
		changed := s.db.Changed()
		page, err := s.db.Events(ctx, activity.Filter{}, after, eventBatch)
		if err != nil && ctx.Err() == nil {
			s.log.Warn("what other servers do was not heard of, and is asked for again", "error", err)
			if flow.Sleep(ctx, time.Second) != nil {
				return nil
			}
			continue
		}
		if n := len(page.Items); n > 0 {
			after = page.Items[n-1].Seq
			s.handleEvents(page.Items)
		}
		if len(page.Items) == eventBatch {
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

// fillDelay is how long after a container was claimed its pool is looked at:
// making another takes the engine a hundred times what a claim takes.
const fillDelay = 100 * time.Millisecond

// handleEvents does what events, this server's own and those of others, ask for.
func (s *server) handleEvents(events []activity.Event) {
	served := map[string]bool{} // the claims that got a container
	for _, e := range events {
		served[e.Claim] = served[e.Claim] || e.Type == activity.ContainerClaimed
	}
	wake, fill := map[string]bool{}, map[string]bool{}
	for _, e := range events {
		if do := eventHandlers[e.Type]; do != nil {
			do(s, e)
		}
		switch {
		case e.Type == activity.ContainerClaimed, e.Type == activity.ClaimRequested && served[e.Claim]:
			fill[e.Workload] = true
		case wakeEvents[e.Type]:
			wake[e.Workload] = true
		}
	}
	for id := range wake {
		s.pools.Wake(id)
	}
	for id := range fill {
		if !wake[id] {
			time.AfterFunc(fillDelay, func() { s.pools.WakeFiller(id) })
		}
	}
}

// eventHandlers are what is to be done here at once about what happened anywhere.
var eventHandlers = map[activity.Type]func(*server, activity.Event){
	activity.WorkloadApplied:    func(s *server, e activity.Event) { s.pools.Catalog.Invalidate(e.Workload) },
	activity.ContainerClaimed:   func(s *server, e activity.Event) { s.pools.Health.MarkStarting(e.Container) },
	activity.ContainerReleased:  func(s *server, e activity.Event) { s.pools.Health.MarkRestarted(e.Container) },
	activity.ContainerDestroyed: func(s *server, e activity.Event) { s.pools.Health.Forget(e.Container) },
	activity.PoolWarning:        func(s *server, e activity.Event) { s.pools.ApplyFillEvent(e) },
	activity.PoolRecovered:      func(s *server, e activity.Event) { s.pools.ApplyFillEvent(e) },
	activity.ClaimActivated:     func(s *server, e activity.Event) { s.claims.NotifyChanged(e.Claim) },
	activity.ClaimDiscarded:     func(s *server, e activity.Event) { s.claims.StateSync.AbortUpload(e.Claim) },
	activity.ClaimReleased:      func(s *server, e activity.Event) { s.claims.NotifyChanged(e.Claim) },
	activity.ClaimReleaseFailed: func(s *server, e activity.Event) { s.claims.NotifyChanged(e.Claim); s.releases.WakeRetries() },
	activity.ClaimFailed:        func(s *server, e activity.Event) { s.claims.AbortLocal(e.Claim) },
}

// wakeEvents are the events after which a pool may have something to do, or
// something to give.
var wakeEvents = map[activity.Type]bool{
	activity.ClaimRequested: true, activity.ClaimFailed: true,
	activity.ContainerCreated: true, activity.ContainerReleased: true, activity.ContainerDied: true,
	activity.ContainerUnhealthy: true, activity.ContainerDestroying: true, activity.ContainerDestroyed: true,
	activity.WorkloadApplied: true, activity.PoolScaled: true, activity.PoolDrained: true,
	activity.PoolWarning: true, activity.PoolRecovered: true,
}
