package claim

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A claim that failed on another server is canceled here. One whose failure this
// server records keeps its cause: those who joined the call are told that its
// caller canceled, and try again.
func TestOwnFailureCancelsNothing(t *testing.T) {
	s := &Service{inflight: map[key]*inflightCall{}, subscribers: map[string]chan struct{}{}}
	theirs, _, _ := s.joinOrStart(t.Context(), key{"w", "ann"}, "theirs")
	ours, _, _ := s.joinOrStart(t.Context(), key{"w", "bob"}, "ours")
	s.markFailing("ours")
	for _, id := range []string{"theirs", "ours"} {
		s.AbortLocal(id)
	}
	require.Error(t, theirs.Err())
	require.NoError(t, ours.Err())
}
