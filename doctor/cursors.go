package doctor

import (
	"context"
	"fmt"
	"time"
)

// maxCursorDelay is how long an event may wait for a follower that handles each
// event once.
const maxCursorDelay = 10 * time.Minute

// stuckCursors finds followers of the activity log that do not advance. Until
// they do, retention keeps the events after them.
func (v *examination) stuckCursors(ctx context.Context) error {
	cursors, err := v.Records.Cursors(ctx)
	if err != nil {
		return err
	}
	for _, c := range cursors {
		if c.Oldest.IsZero() || v.now.Sub(c.Oldest) <= maxCursorDelay {
			continue
		}
		v.addFinding(Finding{
			Severity: Warning,
			Message:  fmt.Sprintf("%q has not handled %d events, the first for %s; they are kept beyond their retention", c.Name, c.Behind, v.age(c.Oldest)),
			Hint:     "check the server's log for \"handling events failed\"",
		})
	}
	return nil
}
