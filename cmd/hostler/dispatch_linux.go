package main

import (
	"context"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/internal/flow"
)

// eventBatch is the maximum number of events that are read at once.
const eventBatch = 500

// followEvents reads the events of all servers and handles them, until ctx ends.
// It wakes claims that wait for a container, and the leader's loops.
func (s *server) followEvents(ctx context.Context) error {
	after, err := s.db.LastSeq(ctx)
	for ; err != nil; after, err = s.db.LastSeq(ctx) {
		s.log.Warn("reading last event sequence failed; retrying", "error", err)
		if flow.Sleep(ctx, time.Second) != nil {
			return nil
		}
	}
	for {
		changed := s.db.Changed()
		page, err := s.db.Events(ctx, activity.Filter{}, after, eventBatch)
		if err != nil && ctx.Err() == nil {
			s.log.Warn("event follow failed; retrying", "error", err)
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

// fillDelay is the time between a claim of a container and the refill of its
// pool: creating a container costs the engine a hundred times what a claim costs.
const fillDelay = 100 * time.Millisecond

// handleEvents runs the handlers of events, this server's own and those of
// others, and wakes the pools that they concern.
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

// eventHandlers are the actions of this server on an event of any server.
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

// wakeEvents are the events after which a pool may have work to do, or an idle
// container for a waiting claim.
var wakeEvents = map[activity.Type]bool{
	activity.ClaimRequested: true, activity.ClaimFailed: true,
	activity.ContainerCreated: true, activity.ContainerReleased: true, activity.ContainerDied: true,
	activity.ContainerUnhealthy: true, activity.ContainerDestroying: true, activity.ContainerDestroyed: true,
	activity.WorkloadApplied: true, activity.PoolScaled: true, activity.PoolDrained: true,
	activity.PoolWarning: true, activity.PoolRecovered: true,
}
