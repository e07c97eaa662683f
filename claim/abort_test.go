package claim

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A claim that failed on another server is canceled here. One whose failure this
// server records keeps its cause: those who joined the call are told that its
// caller canceled, and try again.
func TestOwnFailureCancelsNothing(t *testing.T) {
	s := &Service{subscribers: map[string]chan struct{}{}}
	theirs, _ := s.calls.Join(t.Context(), key{"w", "ann"}, &progress{claimID: "theirs"})
	ours, _ := s.calls.Join(t.Context(), key{"w", "bob"}, &progress{claimID: "ours"})
	s.markFailing("ours")
	for _, id := range []string{"theirs", "ours"} {
		s.AbortLocal(id)
	}
	require.Error(t, theirs.Context().Err())
	require.NoError(t, ours.Context().Err())
}
