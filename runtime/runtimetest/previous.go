package runtimetest

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
)

// previousVersionCase tests a container of the previous protocol version, which a
// server has adopted with its claim: everything works but requests, which are
// refused. Neither commands that may send them nor the server fail.
func previousVersionCase(t *testing.T, s *suite) {
	if isUnsupported(t, s.CreatePrevious == nil, "containers of the previous version") {
		return
	}
	spoken := s.rt.Protocols()
	spec := s.Spec(t)
	s.CreatePrevious(t, spec)
	adopted := *s
	if s.Reopen != nil {
		adopted.rt = s.Reopen(t)
	}
	c := &container{suite: &adopted, id: spec.ID, testprog: spec.Command[0]}
	require.Equal(t, spoken.Oldest, c.recordedProtocol(t, c.id))
	require.NoError(t, c.rt.Start(t.Context(), c.id, 1))

	require.ErrorIs(t, c.rt.ServeRequests(t.Context(), c.id, 1, nil), runtime.ErrUnsupported)
	for _, args := range [][]string{
		{"claim"}, {"event", "publish", "agent.x"}, {"activity", "idle"}, {"memory", "put", "k", "--data", "1"}, {"memory", "get", "k"},
		{"wait", "--type", "consensus", "--timeout", "1m"}, {"release"},
	} {
		cmd := runtime.Command{RunID: newMarker(), Args: slices.Concat([]string{c.askPath(t)}, args), Timeout: maxWait}
		cmd.Fence, cmd.Requests = 1, func(_ context.Context, r runtime.Request, _ func(runtime.Response)) {
			t.Errorf("request %q was sent", r.Name)
		}
		result, err := c.exec(t, cmd)
		require.NoError(t, err, "%q", args)
		require.Equal(t, []any{69, ""}, []any{result.ExitCode, result.Stdout.String()}, "%q: %+v", args, result)
		require.Contains(t, result.Stderr.String(), "an older server has created it", "%q", args)
	}
	require.Equal(t, "still", strings.TrimSpace(c.mustExec(t, "echo", "still")))
	require.NoError(t, c.rt.Stop(t.Context(), c.id, 2))
	require.NoError(t, c.rt.Destroy(t.Context(), c.id))
}
