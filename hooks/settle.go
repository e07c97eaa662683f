package hooks

import (
	"context"
	"fmt"
	"time"
)

// Settle ends the attempts that an earlier server began and did not live to
// see end. Nobody can say how they ended: they are Unknown, and none is run
// again.
func Settle(ctx context.Context, rec Recorder, unfinished []Run) error {
	for _, r := range unfinished {
		now := time.Now()
		r.State, r.EndedAt = Unknown, &now
		r.Duration = float64(now.Sub(r.StartedAt).Microseconds()) / 1000
		r.Error = "the server stopped while it ran"
		if err := rec.RunEnded(ctx, r); err != nil {
			return fmt.Errorf("settle run %s of hook %q: %w", r.ID, r.Hook, err)
		}
	}
	return nil
}
