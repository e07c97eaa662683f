package runtimetest

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
)

// flowRequests are the requests of the processes of a command of a flow, in a test.
// Each waits for a response.
type flowRequests struct {
	asked   chan runtime.Request
	respond chan runtime.Response
	running atomic.Int64
}

func newFlowRequests() *flowRequests {
	return &flowRequests{asked: make(chan runtime.Request, 100), respond: make(chan runtime.Response)}
}

func (f *flowRequests) handle(ctx context.Context, r runtime.Request, respond func(runtime.Response)) {
	f.running.Add(1)
	defer f.running.Add(-1)
	f.asked <- r
	select {
	case response := <-f.respond:
		respond(response)
	case <-ctx.Done():
	}
}

// begin runs a command whose requests f handles, until the test waits for its end.
func (f *flowRequests) begin(t *testing.T, c *container, fence int64, args ...string) (cmd runtime.Command, end func() runtime.Result) {
	t.Helper()
	cmd = c.command(args...)
	cmd.RunID, cmd.Fence, cmd.Requests = newMarker(), fence, f.handle
	ended, err, result := make(chan struct{}), error(nil), runtime.Result{}
	go func() { // ends with the command
		defer close(ended)
		result, err = c.rt.Exec(t.Context(), c.id, cmd)
		if n := f.running.Load(); n > 0 {
			t.Errorf("%d requests of a command are handled after it is over", n)
		}
	}()
	return cmd, func() runtime.Result {
		t.Helper()
		<-ended
		require.NoError(t, err)
		return result
	}
}

// While the container serves no other process, the processes of a command of a flow may
// ask, with the fence of the flow, and no other process may: neither that of another
// command nor the main process. When the command is over, so is that.
func requestsOfFlow(t *testing.T, s *suite) {
	c := s.start(t, func(spec *runtime.Spec) {
		if !s.Limitations.NoKernel {
			spec.Command = []string{spec.Command[0], "asker", "question"}
		}
	})
	c.serving(t, 3)
	for _, user := range s.users() {
		f := newFlowRequests()
		cmd, end := f.begin(t, c, 4, "ask", "id", "early", `{"a":1}`)
		require.Equal(t, runtime.Request{ID: "id", Name: "early", Body: []byte(`{"a":1}`), Fence: 4, FromHook: true, RunID: cmd.RunID}, <-f.asked)
		other := c.command("ask", "id", "other", "{}")
		other.Fence, other.User = 4, user
		result, err := c.exec(t, other)
		require.NoError(t, err)
		require.Contains(t, result.Stderr.String(), string(runtime.ProblemNoClaim))
		if !s.Limitations.NoKernel {
			c.askAsMain(t, "tenant")
		}
		f.respond <- runtime.Response{Body: []byte("yes")}
		require.Equal(t, "yes\n", end().Stdout.String())
		require.Equal(t, runtime.ProblemNoClaim, c.askFails(t, "id", "late", "{}"))
		require.Empty(t, f.asked)
	}
	next := c.serving(t, 4)
	if !s.Limitations.NoKernel {
		c.askAsMain(t, "next")
		testenv.AwaitTrue(t, "the main process asks", func() bool { return len(next.requests("next")) > 0 })
		require.Empty(t, next.requests("tenant"))
	}
}

// askAsMain has the main process, an asker, send a request, and waits until it has the
// response.
func (c *container) askAsMain(t *testing.T, name string) {
	t.Helper()
	c.mustExec(t, "write", "question", name+" {}")
	testenv.AwaitTrue(t, "the main process has a response", func() bool {
		result, err := c.exec(t, c.command("read", "question"))
		require.NoError(t, err)
		return !result.OK()
	})
}

// Once a call with a greater fence has reached the container, the processes of a
// command of an earlier flow may not ask any more, and its server serves nothing.
func requestsOfEarlierFlow(t *testing.T, s *suite) {
	if isUnsupported(t, s.Limitations.NoKernel, "commands that send several requests") {
		return
	}
	c := s.start(t)
	f := newFlowRequests()
	_, end := f.begin(t, c, 3, "ask-flood", "flooded", "16")
	<-f.asked
	cmd := c.command("echo", "x")
	cmd.Fence = 4
	_, err := c.exec(t, cmd)
	require.NoError(t, err)
	close(f.respond)
	require.Contains(t, end().Stdout.String(), string(runtime.ProblemNoClaim)+":")
	require.LessOrEqual(t, len(f.asked), 7)
}

// A server that waits for the outcome of a command which another one has started
// serves its requests from then on.
func requestsOfResumedFlow(t *testing.T, s *suite) {
	if isUnsupported(t, s.Limitations.NoKernel, "programs that ask again") {
		return
	}
	c := s.start(t)
	first, second := newFlowRequests(), newFlowRequests()
	cmd := runtime.Command{Args: []string{c.askPath(t), "claim"}, RunID: newMarker(), Fence: 3, Requests: first.handle}
	started := make(chan error, 1)
	go func() { // ends with the command
		_, err := c.rt.Exec(t.Context(), c.id, cmd)
		started <- err
	}()
	asked := <-first.asked
	rt := s.rt
	if s.Reopen != nil {
		rt = s.Reopen(t)
	}
	cmd.Fence, cmd.Requests = 4, second.handle
	ended := make(chan runtime.Result, 1)
	go func() { // ends with the command
		result, err := rt.WaitResult(t.Context(), c.id, cmd)
		if err != nil {
			t.Error(err)
		}
		ended <- result
	}()
	unavailable := runtime.Response{Problem: &runtime.Problem{Code: runtime.ProblemUnavailable}}
	for again := (runtime.Request{}); again.ID == ""; {
		select {
		case first.respond <- unavailable: // the program asks again
		case <-first.asked:
		case again = <-second.asked:
			require.Equal(t, asked.ID, again.ID)
			require.EqualValues(t, 4, again.Fence)
		}
	}
	second.respond <- runtime.Response{Body: []byte("{}")}
	require.NoError(t, <-started)
	result := <-ended
	require.True(t, result.OK(), "%+v", result)
}
