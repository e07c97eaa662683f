package docker_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
)

// While a worker starts a command, processes of the command's user can set the
// worker's limits, and stop or kill it. That never reaches a command of another
// user.
func TestWorkerOfTenantRunsNoOtherUsersCommand(t *testing.T) {
	rt := openRuntime(t)
	id := startContainer(t, rt, func(s *runtime.Spec) {
		s.Image, s.User, s.Command, s.Workdir = imageUsers, "1001:1001", []string{"/usr/bin/box", "idle"}, "/data"
	})
	putProgram(t, rt, id, "threads")
	done := make(chan struct{})
	go func() { // ends with the command
		defer close(done)
		r, err := rt.Exec(context.Background(), id, runtime.Command{Args: []string{"/data/threads", "20"}, Timeout: 30 * time.Second})
		t.Logf("the tenant: %s%s %v", r.Stdout.String(), r.Stderr.String(), err)
	}()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		// The tenant may break a command of its own user.
		_, _ = rt.Exec(t.Context(), id, runtime.Command{Args: []string{"/usr/bin/box", "pwd"}})
		r, err := rt.Exec(t.Context(), id, runtime.Command{Args: []string{"/usr/bin/box", "write", "/root-hook", "text"}, User: "0:0"})
		require.NoError(t, err)
		require.True(t, r.OK(), "%+v", r)
	}
}
