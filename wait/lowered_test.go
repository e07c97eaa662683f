package wait_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/wait"
)

// A request that began or joined a wait is answered from it when it is repeated, also
// by a server that permits no timeout as long as its own. Nothing else is.
func TestRepeatedAfterLowerMaxTimeout(t *testing.T) {
	on(t, without, func(t *testing.T, r *rig, s *server) {
		began, joined := request("a", 4*time.Minute), request("a", 3*time.Minute)
		began.ID, joined.ID = "began", "joined"
		w, _, err := s.Start(t.Context(), r.claim.ID, began)
		require.NoError(t, err)
		_, _, err = s.Start(t.Context(), r.claim.ID, joined)
		require.NoError(t, err)
		s.kill()
		s = r.start(func(o *wait.Options) { o.MaxTimeout = time.Minute })
		for _, q := range []wait.Request{began, joined} {
			again, created, err := s.Start(t.Context(), r.claim.ID, q)
			require.NoError(t, err)
			require.Equal(t, []any{w.ID, false}, []any{again.ID, created})
		}
		began.Timeout += time.Millisecond
		_, _, err = s.Start(t.Context(), r.claim.ID, began)
		require.ErrorIs(t, err, wait.ErrOtherRequest)
		for _, q := range []wait.Request{request("a", 4*time.Minute), request("b", 4*time.Minute)} {
			for _, id := range []string{"", "new"} {
				q.ID = id
				_, _, err = s.Start(t.Context(), r.claim.ID, q)
				require.ErrorIs(t, err, wait.ErrInvalid)
				require.ErrorContains(t, err, "timeout 4m0s is not between 1ms and 1m0s")
			}
		}
	})
}
