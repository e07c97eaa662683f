package runtimetest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
)

// requestCases are the requests that programs in a container send to the server.
func requestCases(t *testing.T, s *suite) {
	for _, k := range []testCase{
		{"command", requestsOfCommand}, {"main process", requestsOfMain}, {"fence", requestsFence},
		{"flow", requestsOfFlow}, {"earlier flow", requestsOfEarlierFlow}, {"resumed flow", requestsOfResumedFlow},
		{"without a server", requestsWithoutServer}, {"lost", requestsLost}, {"late", lateRequest},
		{"limits", requestLimits}, {"flood", requestFlood}, {"flood of restarts", requestFloodOfRestarts},
		{"garbage", requestGarbage}, {"socket", requestSocket},
	} {
		t.Run(k.name, func(t *testing.T) {
			s.begin(t)
			t.Parallel()
			k.run(t, s)
		})
	}
}

// requestServer is a server of a container's requests in a test.
type requestServer struct {
	cancel context.CancelFunc
	ended  chan error

	mu       sync.Mutex
	received []runtime.Request
}

// serve serves the container's requests: each one gets its own body as the
// response, and "fail" a problem.
func (c *container) serve(t *testing.T, rt runtime.Runtime, fence int64) *requestServer {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s := &requestServer{cancel: cancel, ended: make(chan error, 1)}
	go func() { // ends with the context
		s.ended <- rt.ServeRequests(ctx, c.id, fence, func(_ context.Context, r runtime.Request, respond func(runtime.Response)) {
			s.mu.Lock()
			s.received = append(s.received, r)
			s.mu.Unlock()
			if r.Name == "fail" {
				respond(runtime.Response{Problem: &runtime.Problem{Code: "own_code", Detail: "no <such> thing"}})
				return
			}
			respond(runtime.Response{Body: r.Body})
		})
	}()
	t.Cleanup(func() {
		cancel()
		t.Logf("ServeRequests: %v", testenv.Await(t, s.ended, "ServeRequests returns"))
	})
	return s
}

// serving is serve, and waits until a command's request is answered.
func (c *container) serving(t *testing.T, fence int64) *requestServer {
	t.Helper()
	s := c.serve(t, c.rt, fence)
	testenv.AwaitTrue(t, "requests are served", func() bool {
		result, err := c.exec(t, c.command("ask", "first", "ready", "{}"))
		require.NoError(t, err)
		return result.OK()
	})
	return s
}

// requests returns those that had the name.
func (s *requestServer) requests(name string) (all []runtime.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.received {
		if r.Name == name {
			all = append(all, r)
		}
	}
	return all
}

// askFails sends a request that fails, and returns the code of the problem.
func (c *container) askFails(t *testing.T, id, name, body string) runtime.ProblemCode {
	t.Helper()
	result, err := c.exec(t, c.command("ask", id, name, body))
	require.NoError(t, err)
	require.Equal(t, 1, result.ExitCode, "%+v", result)
	text, ok := strings.CutPrefix(result.Stderr.String(), "box: ")
	require.True(t, ok, "%+v", result)
	code, _, _ := strings.Cut(text, ":")
	return runtime.ProblemCode(code)
}

// askPath returns the path of the program that sends requests.
func (c *container) askPath(t *testing.T) string {
	t.Helper()
	if !c.Limitations.SharedHost {
		return "/.hostler/bin/hostler"
	}
	return strings.TrimSpace(c.mustExec(t, "env", "HOSTLER_BIN")) + "/hostler"
}

// A command's request reaches the server as it was sent, with the fence and with
// the fact that it is a command's, whatever its user.
func requestsOfCommand(t *testing.T, s *suite) {
	c := s.start(t, func(spec *runtime.Spec) { spec.ReadOnly = true })
	server := c.serving(t, 3)
	for i, user := range s.users() {
		name := fmt.Sprint("n", i)
		cmd := c.command("ask", "id-1", name, `{"a": "<b>"}`)
		cmd.User, cmd.RunID = user, newMarker()
		result, err := c.exec(t, cmd)
		require.NoError(t, err)
		require.Equal(t, "{\"a\": \"<b>\"}\n", result.Stdout.String(), "%+v", result)
		require.Equal(t, []runtime.Request{{ID: "id-1", Name: name, Body: []byte(`{"a": "<b>"}`), Fence: 3, FromHook: true, RunID: cmd.RunID}}, server.requests(name))

		cmd = runtime.Command{Args: []string{c.askPath(t), "claim"}, User: user}
		result, err = c.exec(t, cmd)
		require.NoError(t, err)
		require.True(t, result.OK(), "%+v", result)
		require.JSONEq(t, "{}", result.Stdout.String())
	}
	require.Len(t, server.requests("claim"), len(s.users()))
	require.Equal(t, runtime.ProblemCode("own_code"), c.askFails(t, "id-2", "fail", "{}"))
}

// A request of the main process is not one of a command, also after that has
// become an orphan.
func requestsOfMain(t *testing.T, s *suite) {
	if isUnsupported(t, s.Limitations.NoKernel, "main processes that send requests") {
		return
	}
	c := s.start(t, func(spec *runtime.Spec) { spec.Command = []string{spec.Command[0], "asker", "question"} })
	server := c.serving(t, 3)
	c.mustExec(t, "write", "question", "asked {}")
	testenv.AwaitTrue(t, "the request arrives", func() bool { return len(server.requests("asked")) > 0 })
	require.False(t, server.requests("asked")[0].FromHook)
}

// A request has the fence of the claim. Once a call with a greater one has
// reached the container, requests of the earlier claim are refused, and it cannot
// be served again.
func requestsFence(t *testing.T, s *suite) {
	c := s.start(t)
	c.serving(t, 3)
	cmd := c.command("echo", "x")
	cmd.Fence = 4
	_, err := c.exec(t, cmd)
	require.NoError(t, err)
	require.Equal(t, runtime.ProblemNoClaim, c.askFails(t, "id", "late", "{}"))
	require.ErrorIs(t, s.rt.ServeRequests(t.Context(), c.id, 3, nil), runtime.ErrStaleFence)
	next := c.serving(t, 5)
	c.mustExec(t, "ask", "id", "next", "{}")
	require.EqualValues(t, 5, next.requests("next")[0].Fence)
}

// Without a claim, requests are refused.
func requestsWithoutServer(t *testing.T, s *suite) {
	c := s.start(t)
	require.Equal(t, runtime.ProblemNoClaim, c.askFails(t, "id", "x", "{}"))
	require.ErrorIs(t, s.rt.ServeRequests(t.Context(), NewID(), 1, nil), runtime.ErrNotFound)
}

// A server's call ends when its context ends, and when the container does.
// Another server takes over.
func requestsLost(t *testing.T, s *suite) {
	c := s.start(t)
	first := c.serving(t, 3)
	first.cancel()
	require.ErrorIs(t, <-first.ended, context.Canceled)
	first.ended <- nil
	rt := s.rt
	if s.Reopen != nil {
		rt = s.Reopen(t)
	}
	second := c.serve(t, rt, 3)
	testenv.AwaitTrue(t, "the other server serves it", func() bool {
		result, err := c.exec(t, c.command("ask", "id", "moved", "{}"))
		require.NoError(t, err)
		return result.OK()
	})
	require.NotEmpty(t, second.requests("moved"))
	require.NoError(t, s.rt.Destroy(t.Context(), c.id))
	require.Error(t, testenv.Await(t, second.ended, "the container is gone, and not served"))
	second.ended <- nil
}

// What a process has sent before the processes of its container were ended is no
// request of the next claim.
func lateRequest(t *testing.T, s *suite) {
	if isUnsupported(t, s.Limitations.NoKernel, "requests that wait in the kernel") {
		return
	}
	c := s.start(t)
	c.serving(t, 3)
	c.mustExec(t, "ask-late", "late") // the connections outlive it
	require.NoError(t, s.rt.Stop(t.Context(), c.id, 4))
	require.NoError(t, s.rt.Restart(t.Context(), c.id, 4))
	next := c.serving(t, 5)
	c.mustExec(t, "ask", "id", "next", "{}")
	for _, r := range next.requests("late") {
		require.Less(t, r.Fence, int64(5))
	}
}

// A request that is too large, or malformed, is refused, and the next one is
// answered. A large one is answered in full.
func requestLimits(t *testing.T, s *suite) {
	c := s.start(t)
	c.serving(t, 3)
	for _, tt := range []struct{ id, name, body string }{
		{"", "x", "{}"}, {"id", "", "{}"}, {strings.Repeat("i", runtime.MaxRequestID+1), "x", "{}"},
		{"id", strings.Repeat("n", runtime.MaxRequestName+1), "{}"}, {"a:b", "x", "{}"}, {"id", "é", "{}"},
	} {
		require.Equal(t, runtime.ProblemInvalid, c.askFails(t, tt.id, tt.name, tt.body), "%q %q", tt.id, tt.name)
	}
	for _, id := range []string{".", "_a", "-a", strings.Repeat("Z", runtime.MaxRequestID)} {
		require.Equal(t, "1\n", c.mustExec(t, "ask", id, "x", "1"))
	}
	body, err := json.Marshal(strings.Repeat("<", 10_000)) // of which a command's output is kept
	require.NoError(t, err)
	require.Equal(t, string(body)+"\n", c.mustExec(t, "ask", "id", "large", string(body)))
}

// What the program in a container lets its processes send in a second, and at once.
const programRate, programBurst = 20, 40

// More requests than the rate allows are refused in the container: they do not
// reach the server, and commands continue.
func requestFlood(t *testing.T, s *suite) {
	if isUnsupported(t, s.Limitations.NoKernel, "rates") {
		return
	}
	c := s.start(t)
	server := c.serving(t, 3)
	began := time.Now()
	out := c.mustExec(t, "ask-flood", "flooded", "400")
	require.Contains(t, out, string(runtime.ProblemBusy))
	require.Less(t, float64(len(server.requests("flooded"))), programBurst+programRate*time.Since(began).Seconds()+1)
	testenv.AwaitTrue(t, "requests are answered again", func() bool {
		result, err := c.exec(t, c.command("ask", "id", "after", "{}"))
		require.NoError(t, err)
		return result.OK()
	})
	select {
	case err := <-server.ended:
		t.Fatalf("the flood has cost the container its connection: %v", err)
	default:
	}
}

// The rate is that of the claim: a container whose main process is restarted again
// and again sends no more, and does not lose its connection for it.
func requestFloodOfRestarts(t *testing.T, s *suite) {
	if isUnsupported(t, s.Limitations.NoKernel, "rates") {
		return
	}
	c := s.start(t)
	server := c.serving(t, 3)
	for range 6 {
		c.mustExec(t, "ask-flood", "flooded", "60")
		require.NoError(t, s.rt.Restart(t.Context(), c.id, 3))
	}
	select {
	case err := <-server.ended:
		server.ended <- err
		t.Fatalf("the requests have cost the container its connection: %v", err)
	default:
	}
}

// Connections that send nothing, or garbage, neither prevent others nor commands.
func requestGarbage(t *testing.T, s *suite) {
	if isUnsupported(t, s.Limitations.NoKernel, "connections") {
		return
	}
	c := s.start(t)
	c.serving(t, 3)
	cmd := c.command("ask-garbage", "2s")
	ended := make(chan error, 1)
	go func() { // ends with the command
		_, err := c.rt.Exec(t.Context(), c.id, cmd)
		ended <- err
	}()
	testenv.AwaitTrue(t, "requests are answered", func() bool {
		result, err := c.exec(t, c.command("ask", "id", "concurrent", "{}"))
		require.NoError(t, err)
		return result.OK()
	})
	require.NoError(t, <-ended)
	testenv.AwaitTrue(t, "requests are answered", func() bool {
		result, err := c.exec(t, c.command("ask", "id", "after", "{}"))
		require.NoError(t, err)
		return result.OK()
	})
}

// No process of a tenant can take the socket or change the program.
func requestSocket(t *testing.T, s *suite) {
	if isUnsupported(t, s.Limitations.SharedHost || s.Limitations.NoKernel, "to keep the socket from its own user") {
		return
	}
	c := s.start(t)
	c.serving(t, 3)
	for _, user := range s.users() {
		c.requireExecFails(t, user, "listen", "@hostler")
		c.requireExecFails(t, user, "remove", c.askPath(t))
		c.requireExecFails(t, user, "append", c.askPath(t), "x")
		c.requireExecFails(t, user, "rename", c.askPath(t), "/tmp/x")
	}
	c.mustExec(t, "ask", "id", "still", "{}")
}
