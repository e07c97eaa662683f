package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
)

// longOutput is longer than what is kept of the beginning of a hook's output.
const longOutput = 20_000

const lifeHooks = `
pool: { min_idle: 1, max_size: 2, reuse: wipe }
hooks:
  post_create: [{ name: warm, command: [BOX, echo, warm] }]
  post_claim:
    - { name: greet, command: [BOX, env, HOSTLER_TENANT] }
    - { name: talk, command: [BOX, repeat, "y", "20000"] }
  pre_release: [{ name: flush, command: [BOX, err, flushed] }]
  pre_destroy: [{ name: leave, command: [BOX, echo, bye] }]
`

// The command line covers the whole lifecycle of a container, and each command
// prints its result for people and for programs.
func TestLifecycleByCommandLine(t *testing.T) {
	t.Parallel()
	forEachBackend(t, func(t *testing.T, rt backend) {
		s := serve(t, rt)
		file := filepath.Join(t.TempDir(), "life.yaml")
		require.NoError(t, os.WriteFile(file, []byte(workload(t, rt, "life", lifeHooks)), 0o600))
		s.mustCLI("validate", file)
		require.Contains(t, s.mustCLI("apply", "-f", file), "workload life created")
		require.Contains(t, s.mustCLI("apply", "-f", file), "unchanged")
		s.awaitEvent(eventsOf("life", client.EventContainerCreated), 1)
		require.Regexp(t, `(?m)^life +1 `, s.mustCLI("get", "pools"))

		c := s.claimByCommandLine()
		s.listByCommandLine(c)
		s.logsByCommandLine(c)
		s.releaseByCommandLine(c)
		s.scaleDownByCommandLine()
		s.requireEnds()
		s.requireNothingLeft()
	})
}

// mustRunJSON runs a command with -o json and decodes its output.
func mustRunJSON[T any](s *server, args ...string) T {
	s.t.Helper()
	var v T
	require.NoError(s.t, json.Unmarshal([]byte(s.mustCLI(append(args, "-o", "json")...)), &v))
	return v
}

func (s *server) claimByCommandLine() client.Claim {
	s.t.Helper()
	c := mustRunJSON[client.Claim](s, "claim", "life", "--tenant", "ada")
	require.Equal(s.t, client.ClaimActive, c.State)
	require.Len(s.t, c.Hooks, 2)
	again := mustRunJSON[client.Claim](s, "claim", "life", "--tenant", "ada")
	require.Equal(s.t, c.ID, again.ID)
	require.Contains(s.t, s.mustCLI("claim", "life", "--tenant", "ada"), c.ID+" (active, already held)")
	require.Contains(s.t, s.mustCLI("claim", "life", "--tenant", "ada", "-o", "yaml"), "\nstate: active\n")
	return c
}

func (s *server) listByCommandLine(c client.Claim) {
	s.t.Helper()
	require.Contains(s.t, s.mustCLI("get", "claims", "--tenant", "ada"), c.ID)
	require.NotContains(s.t, s.mustCLI("get", "claims", "--tenant", "bob"), c.ID)
	container := mustRunJSON[client.Container](s, "get", "container", c.Container)
	require.Equal(s.t, client.ContainerClaimed, container.State)
	require.Contains(s.t, s.mustCLI("get", "workload", "life", "-o", "yaml"), "\nimage: ")
	runs := mustRunJSON[[]client.Run](s, "get", "runs", "--claim", c.ID, "--point", "post_claim")
	require.Len(s.t, runs, 2)
	claimed := s.mustCLI("events", "--claim", c.ID, "--after", "0", "-o", "json")
	require.Equal(s.t, 1, strings.Count(claimed, `"claim.activated"`))
	require.NotContains(s.t, claimed, "workload.applied")
	table := s.mustCLI("events", "--after", "0", "--type", "hook.completed", "--point", "post_create")
	require.Contains(s.t, table, `post_create hook "warm" completed`)
	require.NotContains(s.t, table, "greet")
}

// logsByCommandLine checks that logs prints the whole output of a hook, each
// stream separately.
func (s *server) logsByCommandLine(c client.Claim) {
	s.t.Helper()
	greeted := s.cli("logs", c.Hooks[0].Run)
	require.Equal(s.t, commandResult{0, "ada\n", "# post_claim greet, attempt 1: succeeded, exit code 0\n"}, greeted)
	require.Equal(s.t, strings.Repeat("y", longOutput), s.mustCLI("logs", c.Hooks[1].Run))
	// Once for each start: the baseline is recorded while the container is stopped.
	var printed string
	s.eventually(func() bool { // the main process may not have printed it yet
		printed = s.mustCLI("logs", "--container", c.Container)
		return printed != ""
	})
	require.Regexp(s.t, `^(idle\n)+$`, printed)
}

func (s *server) releaseByCommandLine(c client.Claim) {
	s.t.Helper()
	got := mustRunJSON[client.Claim](s, "release", "--workload", "life", "--tenant", "ada")
	require.Equal(s.t, client.ClaimReleased, got.State)
	require.Equal(s.t, c.ID, got.ID)
	require.Contains(s.t, s.mustCLI("release", c.ID), "released", "releasing twice is not an error")
	require.Contains(s.t, s.mustCLI("release", "--workload", "life", "--tenant", "ada"), c.ID, "nor is it by name")
	flushed := s.runsOf(client.RunFilter{Claim: c.ID, Point: client.PreRelease})
	require.Len(s.t, flushed, 1)
	require.Equal(s.t, "flushed\n", flushed[0].Stderr.String())
}

func (s *server) scaleDownByCommandLine() {
	s.t.Helper()
	require.Contains(s.t, s.mustCLI("scale", "life", "--min-idle", "2"), "min_idle 2")
	s.awaitEvent(eventsOf("life", client.EventContainerCreated), 2)
	require.Contains(s.t, s.mustCLI("drain", "life"), "drained")
	s.awaitEvent(eventsOf("life", client.EventContainerDestroyed), 2)
	require.Equal(s.t, 4, s.cli("claim", "life", "--tenant", "ada").code, "a draining pool has no container for claims")
	left := s.runsOf(client.RunFilter{Point: client.PreDestroy})
	require.Len(s.t, left, 2)
	require.Contains(s.t, s.mustCLI("delete", "workload", "life"), "workload life delet")
	s.awaitEvent(eventsOf("life", client.EventWorkloadDeleted), 1)
	require.Equal(s.t, 3, s.cli("get", "workload", "life").code)
}
