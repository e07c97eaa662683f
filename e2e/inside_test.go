package e2e

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/runtime"
)

// askerWorkload has a main process that sends a request for each content of a
// file, on a read-only root.
const askerWorkload = "read_only: true\npool: { min_idle: 1, max_size: 3 }\n"

// applyAsker applies a workload whose main process sends requests.
func (s *server) applyAsker(id string) {
	s.t.Helper()
	text := strings.Replace(workload(s.t, s.rt, id, askerWorkload), ", idle]", ", asker, state/question]", 1)
	_, err := s.Apply(s.t.Context(), id, []byte(text))
	require.NoError(s.t, err)
}

// inside runs the program that sends requests as a command of the server.
func (g tenantSession) inside(args ...string) runtime.Result {
	g.s.t.Helper()
	path := "/.hostler/bin/hostler"
	if bin := g.box("env", "HOSTLER_BIN"); bin.OK() && strings.TrimSpace(bin.Stdout.String()) != "" {
		path = strings.TrimSpace(bin.Stdout.String()) + "/hostler"
	}
	result, err := g.s.engine.Exec(g.s.t.Context(), g.Container, runtime.Command{Args: append([]string{path}, args...), Timeout: waitTimeout})
	require.NoError(g.s.t, err)
	return result
}

func (g tenantSession) box(args ...string) runtime.Result {
	g.s.t.Helper()
	result, err := g.s.engine.Exec(g.s.t.Context(), g.Container, runtime.Command{
		Args: append([]string{g.s.rt.program(g.s.t, "box")}, args...), Timeout: waitTimeout})
	require.NoError(g.s.t, err)
	return result
}

// requireIdentity asserts that the program describes this claim.
func (g tenantSession) requireIdentity(out string) {
	g.s.t.Helper()
	var got map[string]string
	require.NoError(g.s.t, json.Unmarshal([]byte(out), &got), out)
	require.Equal(g.s.t, map[string]string{"claim": g.ID, "workload": g.Workload, "container": g.Container, "tenant": g.Tenant}, got)
}

// A program in a container learns which claim the container has, also after the
// server was killed, and the main process can release it. A command of the server,
// such as a hook, may not: its release would wait for it.
func TestRequestsFromInside(t *testing.T) {
	t.Parallel()
	forAnyBackend(t, func(t *testing.T, rt backend) {
		s := serve(t, rt)
		s.applyAsker("asking")
		g := s.claimAs("asking", "ada")
		got := g.inside("claim")
		require.True(t, got.OK(), "%+v", got)
		g.requireIdentity(got.Stdout.String())

		got = g.inside("memory", "put", "plan", "--data", `["<b>"]`)
		require.True(t, got.OK(), "%+v", got)
		kept, err := s.GetMemory(t.Context(), g.ID, client.MemoryOfClaim, "plan")
		require.NoError(t, err)
		require.JSONEq(t, `["<b>"]`, string(kept.Value))
		require.Equal(t, "[\"<b>\"]\n", g.inside("memory", "get", "plan").Stdout.String())
		require.Equal(t, 3, g.inside("memory", "get", "none").ExitCode)

		require.True(t, g.inside("event", "publish", "agent.task_completed", "--data", `{"n": 1}`).OK())
		require.True(t, g.inside("activity", "thinking", "--tool", "grep").OK())
		s.awaitEvent(client.EventFilter{Types: []client.EventType{"agent.task_completed"}, Claim: g.ID}, 1)
		require.Equal(t, 1, g.inside("event", "publish", "Bad Type").ExitCode)

		require.Equal(t, 1, g.inside("wait", "--type", "consensus", "--timeout", "1s").ExitCode, "a hook")
		got = g.inside("release")
		require.Equal(t, 1, got.ExitCode, "%+v", got)
		require.Contains(t, got.Stderr.String(), "denied")
		require.Equal(t, 2, g.inside("publish").ExitCode, "an unknown command")
		require.True(t, g.inside("--help").OK())

		s.kill()
		s.start()
		s.eventually(func() bool { return g.inside("claim").OK() })
		g.requireIdentity(g.inside("claim").Stdout.String())

		// The release may end this command first, so the test does not wait for its result.
		_, _ = s.engine.Exec(t.Context(), g.Container, runtime.Command{
			Args: g.boxArgs("write", g.statePath("question"), "release {}"), Timeout: waitTimeout,
		})
		released := s.awaitEvent(client.EventFilter{Types: []client.EventType{client.EventClaimReleased}, Claim: g.ID}, 1)
		require.Contains(t, released.Message, "requested from inside the container")
		s.deleteWorkload("asking")
		s.requireNothingLeft()
	})
}

// statePath returns where a command finds a file of the state.
func (g tenantSession) statePath(name string) string {
	g.s.t.Helper()
	root := g.box("env", "HOSTLER_ROOT")
	return strings.TrimSpace(root.Stdout.String()) + "/state/" + name
}

// A process that the engine has started is not one of a hook, and may release.
func TestEngineExecMayAsk(t *testing.T) {
	t.Parallel()
	requireBackend(t, dockerBackend{})
	s := serve(t, dockerBackend{})
	s.applyAsker("exec")
	g := s.claimAs("exec", "ada")
	s.eventually(func() bool { return g.inside("claim").OK() })
	e, err := localEngine()
	require.NoError(t, err)
	for _, user := range []string{"0:0", "1234:5678"} {
		out, err := e.exec(t.Context(), g.Container, user, "/.hostler/bin/hostler", "claim")
		require.NoError(t, err, out)
		g.requireIdentity(out)
	}
	_, err = s.Signal(t.Context(), g.ID, "review", json.RawMessage(`{"ok":true}`)) // an early one is kept
	require.NoError(t, err)
	out, err := e.exec(t.Context(), g.Container, "1234:5678", "/.hostler/bin/hostler", "wait", "--type", "consensus", "--timeout", "60s", "--name", "review")
	require.NoError(t, err)
	require.JSONEq(t, `{"ok":true}`, out)
	out, err = e.exec(t.Context(), g.Container, "0:0", "/.hostler/bin/hostler", "wait", "--type", "consensus", "--timeout", "1s")
	require.NoError(t, err)
	require.Contains(t, out, "timed_out")
	_, _ = e.exec(t.Context(), g.Container, "1234:5678", "/.hostler/bin/hostler", "release") // it may end before it prints
	s.awaitEvent(client.EventFilter{Types: []client.EventType{client.EventClaimReleased}, Claim: g.ID}, 1)
	s.deleteWorkload("exec")
}

// When the server that made a claim is lost, or leaves, another one serves its
// container.
func TestReplicaTakesOverRequests(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			f := serveFleet(t, 2)
			leader, others := f.leader()
			leader.applyAsker("fleet")
			g := others[0].claimAs("fleet", "ada")
			g.s = leader // whose connection to the engine the test uses
			leader.eventually(func() bool { return g.inside("claim").OK() })
			others[0].signal(signal)
			leader.eventually(func() bool {
				_, ended, _ := others[0].log.find(func(logLine) bool { return false })
				return ended
			})
			got := g.inside("claim") // it asks until another server answers
			require.True(t, got.OK(), "%+v", got)
			g.requireIdentity(got.Stdout.String())
			_, err := leader.Release(t.Context(), g.ID, false)
			require.NoError(t, err)
			leader.deleteWorkload("fleet")
		})
	}
}
