package claim

import (
	"context"
	"time"
)

// IdleTTL returns the claim_idle_ttl of a workload. It is 0 when claims do not
// expire, and for an unknown workload.
func (s *Service) IdleTTL(ctx context.Context, workload string) time.Duration {
	w, _, err := s.pools.Catalog.Current(ctx, workload)
	if err != nil {
		return 0
	}
	return w.Pool.ClaimIdleTTL
}
