package claim

import (
	"context"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/internal/dispatch"
)

// EventHandlers returns what the claims do on events of any server.
func (s *Service) EventHandlers() dispatch.Subscription {
	changed := func(e activity.Event) { s.NotifyChanged(e.Claim) }
	return dispatch.Subscription{
		Name: "claims",
		On: map[activity.Type]func(activity.Event){
			// Storage may record it after the call has failed.
			activity.ClaimRequested:     func(activity.Event) { s.sweeper.WakeAfter(lateSweepDelay) },
			activity.ClaimActivated:     changed,
			activity.ClaimReleased:      changed,
			activity.ClaimReleaseFailed: changed,
			activity.ClaimFailed:        func(e activity.Event) { s.AbortLocal(e.Claim) },
			activity.ClaimDiscarded:     func(e activity.Event) { s.StateSync.AbortUpload(e.Claim) },
		},
		Resync: func(context.Context) error {
			s.notifyAll()
			s.sweeper.Wake()
			return nil
		},
	}
}
