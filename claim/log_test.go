package claim_test

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/e2e/flowtest"
)

// The log of a recycled container begins with the claim: it contains no output
// of the previous tenant.
func TestLogStartsAtClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply("id: w\nimage: box\ncommand: [box, idle]\npool: { min_idle: 1, max_size: 1, reuse: wipe }\n")
		first := h.Claim("w", "ada")
		h.Release(first)
		second := h.Claim("w", "bob")
		require.Equal(t, first.Container, second.Container)
		synctest.Wait()
		log := func(r io.ReadCloser, err error) string {
			require.NoError(t, err)
			defer r.Close()
			text, err := io.ReadAll(r)
			require.NoError(t, err)
			return string(text)
		}
		require.Greater(t, len(log(h.RT.Logs(t.Context(), first.Container, time.Time{}, 1<<20))), len("idle\n"), "the engine has the full log")
		require.Equal(t, "idle\n", log(h.Pools.Logs(t.Context(), first.Container, 1<<20)))
	})
}
