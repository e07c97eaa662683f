package wait_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
)

// Whatever can be the ID of a program's request can be that of one to wait.
func TestRequestIDs(t *testing.T) {
	on(t, without, func(t *testing.T, r *rig, s *server) {
		for n, id := range []string{".", "_", "-", "..a", "_a", "-a", "a", "0", "a:b", strings.Repeat("-", runtime.MaxRequestID), strings.Repeat("a", 128)} {
			q := request(fmt.Sprint("n", n), time.Second)
			q.ID = id
			w, created, err := s.Start(t.Context(), r.claim.ID, q)
			require.NoError(t, err, id)
			require.True(t, created, id)
			again, _, err := s.Start(t.Context(), r.claim.ID, q)
			require.NoError(t, err, id)
			require.Equal(t, w.ID, again.ID, id)
		}
	})
}
