package release

import (
	"context"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/internal/dispatch"
)

// EventHandlers returns what the releases do on events of any server.
func (s *Service) EventHandlers() dispatch.Subscription {
	return dispatch.Subscription{
		Name: "releases",
		On: map[activity.Type]func(activity.Event){
			activity.ClaimReleaseFailed: func(activity.Event) { s.WakeRetries() },
		},
		Resync: func(context.Context) error {
			s.wake()
			return nil
		},
	}
}
