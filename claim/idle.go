package claim

import (
	"context"
	"time"
)

// IdleTTL is after how long the idle claims of a workload are released; 0 for
// never, and for a workload that is not there.
func (s *Service) IdleTTL(ctx context.Context, workload string) time.Duration {
	w, _, err := s.pools.Catalog.Current(ctx, workload)
	if err != nil {
		return 0
	}
	return w.Pool.ClaimIdleTTL
}
