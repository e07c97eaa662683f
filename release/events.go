package release

import (
	"context"
	"errors"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/internal/dispatch"
)

// ErrTerminating is why an upload that failed may not be possible again, and why hooks
// of pre_release end, or do not run.
var ErrTerminating = errors.New("the container is terminating: someone else has the engine remove it")

// EventHandlers returns what the releases do on events of any server.
func (s *Service) EventHandlers() dispatch.Subscription {
	return dispatch.Subscription{
		Name: "releases",
		On: map[activity.Type]func(activity.Event){
			// What a hook of pre_release would still do is worth less than the time
			// that is left to upload the tenant's state. Without an upload, the hook
			// may be what saves it.
			activity.ContainerTerminating: func(e activity.Event) {
				if _, isBeforeUpload := s.saves.Load(e.Claim); isBeforeUpload {
					s.runner.End(e.Container, false, ErrTerminating)
				}
			},
		},
		Resync: func(context.Context) error {
			s.wake()
			return nil
		},
	}
}
