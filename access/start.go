package access

import (
	"context"
	"errors"
	"fmt"

	"github.com/hostler/hostler/internal/backoff"
	"github.com/hostler/hostler/runtime"
)

// How long a start waits for the record of an earlier command with its ID that the
// container does not know: its end is being recorded.
var openRecords = backoff.Policy{Min: gatherFor, Max: 10 * gatherFor}

const (
	openRecordTries = 10
	// settleTry is the try from which on that record is of a start which has not
	// reached the container.
	settleTry = 5
)

// recordStart records the start of a command. If one with its ID is recorded as
// running, it attaches to that and returns the attachment.
//
// Such a command is only attached to: if the container started another one, the end
// of the earlier one, which may not be recorded yet, would be taken for the end of
// both, and a tenant who uses an ID again at once would run what no event shows.
func (s *Service) recordStart(ctx context.Context, g Grant, use CommandUse, after int64) (runtime.CommandStream, error) {
	wait := openRecords.Retries()
	for try := range openRecordTries {
		err := s.o.Uses.CommandStarting(ctx, g, use)
		if err == nil {
			return nil, nil
		}
		if !errors.Is(err, ErrCommandOpen) {
			return nil, fmt.Errorf("record the start of a command: %w", err)
		}
		stream, err := s.o.Runtime.AttachCommand(ctx, g.Container(), use.ID, g.Fence(), after)
		if err == nil {
			return stream, nil
		}
		if !errors.Is(err, runtime.ErrUnknownRun) {
			return nil, fmt.Errorf("attach to the command %s: %w", use.ID, err)
		}
		if try == settleTry {
			// A request for that start may still reach the container: what it starts
			// has the record that follows, also if this caller leaves.
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
			defer cancel()
			s.o.Uses.CommandEnded(g, use.ID, runtime.Result{}, err)
		}
		if err := wait.Sleep(ctx); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%w: %w", runtime.ErrUnavailable, ErrCommandOpen)
}
