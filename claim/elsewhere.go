package claim

import (
	"context"
	"fmt"
)

// elsewhereError says that another server works on the claim.
type elsewhereError struct{ claim Claim }

func (e *elsewhereError) Error() string {
	return fmt.Sprintf("claim %s is %s with another server", e.claim.ID, e.claim.State)
}

// elsewhere says whether another server works on the claim. One that has died
// is taken over, and its claims with it.
func (s *Service) elsewhere(c Claim) bool {
	return (c.State == Pending || c.State == Releasing) && c.Owner != s.store.Self()
}

// Await returns the claim when no other server works on it any more.
func (s *Service) Await(ctx context.Context, c Claim) (Claim, error) {
	for {
		changed := s.store.Changed()
		now, err := s.store.Claim(ctx, c.ID)
		if err != nil || !s.elsewhere(now) {
			return now, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return now, context.Cause(ctx)
		}
	}
}
