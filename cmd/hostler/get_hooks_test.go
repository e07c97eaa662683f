package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/workload"
)

const hookedWeb = `id: web
image: nginx
hooks:
  post_claim:
    - { name: init, command: [init] }
    - { name: off, command: [init], enabled: false }
  pre_destroy: ["log"]
  exec.before: [guard_destructive]
  events:
    - { name: audit, on: [claim.failed], webhook: { url: "https://audit.example/" } }
`

// get hooks shows the hooks of a workload, or of a container's, in one form.
func TestGetHooks(t *testing.T) {
	serveTestBackend(t)
	code, _, errOut := hostler(t, hookedWeb, "apply", "-f", "-")
	require.Equal(t, exitOK, code, errOut)
	for _, of := range []string{"web", "box-1"} {
		code, out, errOut := hostler(t, "", "get", "hooks", of)
		require.Equal(t, exitOK, code, errOut)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		require.Len(t, lines, 5, out)
		require.Equal(t, strings.Fields("AT HOOK ACTION ATTEMPTS FAILURES AVERAGE_MS P95_MS MAX_MS LAST_STATE LAST"), strings.Fields(lines[0]))
		require.Equal(t, "pre_destroy", strings.Fields(lines[2])[0])
		require.Equal(t, []string{"exec.before", "exec.before[0]", "builtin"}, strings.Fields(lines[3])[:3])
		require.Equal(t, []string{"claim.failed", "audit", "webhook", "0", "0"}, strings.Fields(lines[4])[:5])
	}
	code, out, errOut := hostler(t, "", "get", "hooks", "web", "--normalized")
	require.Equal(t, exitOK, code, errOut)
	require.Contains(t, out, "url: https://audit.example/")
	code, _, errOut = hostler(t, "", "get", "hooks", "nothing")
	require.Equal(t, exitNotFound, code, errOut)
}

// Hooks of an image are known by their runs, and come before those of the file.
func TestConfiguredImageHooks(t *testing.T) {
	w, err := workload.Parse([]byte(hookedWeb), "web")
	require.NoError(t, err)
	run := func(name string, index int) client.Run {
		return client.Run{Point: "post_claim", Hook: "image:" + name, Index: index, State: client.RunSucceeded, Command: []string{"/etc/hostler/hooks/" + name}}
	}
	list := configuredHooks(w, []client.Run{run("b", 1), run("post_claim", 0), run("b", 1)})
	require.Len(t, list, 6)
	require.Equal(t, "image:post_claim", list[0].Hook)
	require.Equal(t, "image:b", list[1].Hook)
	require.Equal(t, 2, list[1].Attempts)
	require.Equal(t, "init", list[2].Hook)
}

// The figures are of attempts: skipped hooks do not count, those that run have no
// duration yet.
func TestConfiguredHooks(t *testing.T) {
	w, err := workload.Parse([]byte(hookedWeb), "web")
	require.NoError(t, err)
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	run := func(state client.RunState, ms float64, start int) client.Run {
		return client.Run{Point: "post_claim", Hook: "init", State: state, Duration: ms, StartedAt: at(start)}
	}
	runs := []client.Run{
		run(client.RunFailed, 30, 1), run(client.RunSkipped, 900, 9), run(client.RunRunning, 0, 4), run(client.RunSucceeded, 10, 3),
		{Event: "claim.failed", Hook: "audit", State: client.RunTimedOut, Duration: 7, StartedAt: at(2)},
	}
	list := configuredHooks(w, runs)
	require.Len(t, list, 4)
	last := at(4)
	require.Equal(t, configuredHook{
		At: "post_claim", Hook: "init", Action: "command", OnError: "fail", Timeout: float64(hooks.DefaultTimeout.Milliseconds()),
		Attempts: 3, Failures: 1, Average: 20, P95: 30, Max: 30, LastState: client.RunRunning, LastAt: &last,
	}, list[0])
	slow := newConfiguredHook("wait_start", hooks.Hook{Action: hooks.Command{}}, []client.Run{run(client.RunSucceeded, 3001, 1)})
	require.True(t, slow.Slow)
	require.Equal(t, "3001.0 (slow)", slow.row()[6])
	require.False(t, newConfiguredHook("wait_start", hooks.Hook{Action: hooks.Command{}}, []client.Run{run(client.RunSucceeded, 3000, 1)}).Slow)
	require.False(t, newConfiguredHook("post_claim", hooks.Hook{Action: hooks.Command{}}, []client.Run{run(client.RunSucceeded, 3001, 1)}).Slow)
	require.Equal(t, []float64{1, 1, 7}, []float64{float64(list[3].Attempts), float64(list[3].Failures), list[3].P95})
}
