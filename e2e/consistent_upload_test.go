package e2e

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
)

// twoPartState is a workload whose state is read in two parts.
const twoPartState = `
pool: { min_idle: 0, max_size: 2, reuse: never }
sync: { sink: { type: file }, mappings: [{ path: /state/a }, { path: /state/b }] }
`

// The uploaded state of a tenant is consistent, also if its processes write all
// the time and stop every other process: none of them runs during the upload.
func TestUploadIsConsistent(t *testing.T) {
	t.Parallel()
	forEachEngine(t, func(t *testing.T, rt backend) {
		s := serve(t, rt)
		idle := workload(t, rt, "rest", twoPartState)
		busy := strings.Replace(idle, `box", idle]`, `app", restless, /state/go, /state/a/n, /state/b/n]`, 1)
		_, err := s.Apply(t.Context(), "rest", []byte(busy))
		require.NoError(t, err)
		ada := s.claimAs("rest", "ada")
		s.eventually(func() bool { return ada.run("read", "/state/b/n").OK() })
		// The command may be stopped too, so the test does not wait for it.
		_, _ = s.engine.Exec(t.Context(), ada.Container, runtime.Command{
			Args: []string{rt.program(t, "app"), "append", "/state/go", "x"}, Timeout: time.Second,
		})
		ada.release()

		_, err = s.Apply(t.Context(), "rest", []byte(idle))
		require.NoError(t, err)
		next := s.claimAs("rest", "ada")
		a, err := strconv.Atoi(next.mustRun("read", "/state/a/n"))
		require.NoError(t, err)
		b, err := strconv.Atoi(next.mustRun("read", "/state/b/n"))
		require.NoError(t, err)
		require.Contains(t, []int{0, 1}, a-b, "a is %d and b is %d", a, b)
	})
}
