package release

import (
	"context"

	"github.com/hostler/hostler/internal/dispatch"
)

// EventHandlers returns what the releases do on events of any server.
func (s *Service) EventHandlers() dispatch.Subscription {
	return dispatch.Subscription{
		Name: "releases",
		Resync: func(context.Context) error {
			s.wake()
			return nil
		},
	}
}
