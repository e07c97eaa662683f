package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/internal/testenv"
)

// waitingDir has the example of docs/waiting.md: scripts in CFN's form, and the
// programs that they call.
const waitingDir = "../examples/waiting"

// waitingPrograms are these programs.
var waitingPrograms = []string{"sqlite-memory", "eventbus"}

// inWaitingImage returns a file in CFN's form for a backend: with the image of the
// examples or, on the process runtime, with programs of this machine.
func inWaitingImage(t *testing.T, rt backend, text string) string {
	t.Helper()
	for _, name := range []string{"bash", "jq"} {
		if _, err := exec.LookPath(name); err != nil {
			testenv.Skip(t, "shells", "no %s on this machine", name)
		}
	}
	text = strings.Replace(text, "image: example/waiting:1.0\n", "image: "+exampleImage(t, rt)+"\ncommand: [\""+rt.program(t, "box")+"\", idle]\n", 1)
	if rt.name() != "process" {
		return text
	}
	dir, err := filepath.Abs(waitingDir)
	require.NoError(t, err)
	for _, name := range waitingPrograms {
		text = strings.ReplaceAll(text, "/"+name+" ", filepath.Join(dir, name)+" ")
	}
	return strings.Replace(text, "user: \"1000:1000\"\n", "", 1)
}

// waitInBackground waits as the command line does, until the returned function is
// called, which returns what it prints.
func (g tenantSession) waitInBackground(args ...string) (end func() commandResult) {
	var group errgroup.Group
	var result commandResult
	group.Go(func() error {
		result = g.s.cli(append([]string{"wait", g.ID}, args...)...)
		return nil
	})
	return func() commandResult {
		require.NoError(g.s.t, group.Wait())
		return result
	}
}

// workspace returns where a command finds a file of the workspace.
func (g tenantSession) workspace(name string) string {
	g.s.t.Helper()
	return strings.TrimSpace(g.box("env", "HOSTLER_ROOT").Stdout.String()) + "/workspace/" + name
}

// published returns the data of the only event of a type.
func (g tenantSession) published(typ client.EventType) (data map[string]any) {
	g.s.t.Helper()
	e := g.s.awaitEvent(client.EventFilter{Claim: g.ID, Types: []client.EventType{typ}}, 1)
	require.NoError(g.s.t, json.Unmarshal(e.Data, &data))
	return data
}

// runAt returns the last run at a point of a wait.
func (g tenantSession) runAt(p client.Point) client.Run {
	g.s.t.Helper()
	runs := g.s.runsOf(client.RunFilter{Claim: g.ID, Point: p})
	require.NotEmpty(g.s.t, runs, p)
	return runs[len(runs)-1]
}

// The scripts of the example in CFN's form run on each backend, with the programs of
// its image: the context of a wait is kept in the memory and restored from it, events
// are published, and a script decides what becomes of a wait without a signal.
func TestWaitingExample(t *testing.T) {
	t.Parallel()
	forAnyBackend(t, func(t *testing.T, rt backend) {
		source, err := os.ReadFile(filepath.Join(waitingDir, "workload.yaml"))
		require.NoError(t, err)
		text := inWaitingImage(t, rt, string(source))
		s := serve(t, rt)
		_, err = s.Apply(t.Context(), "waiting", []byte(text))
		require.NoError(t, err)
		g := s.claimAs("waiting", "ada")

		require.True(t, g.box("write", g.workspace("position"), "main.go:12").OK())
		end := g.waitInBackground("--type", "consensus", "--timeout", "60s", "--context", `{"task": "Add a \"login\" page", "iteration": 2, "phase": "auth"}`)
		s.awaitWait(g.ID, "", client.WaitWaiting)
		require.Equal(t, client.RunSucceeded, g.runAt(client.WaitStart).State, "%+v", g.runAt(client.WaitStart))
		kept, err := s.GetMemory(t.Context(), g.ID, client.MemoryOfClaim, "agent:"+g.ID+":position")
		require.NoError(t, err)
		require.JSONEq(t, `"main.go:12"`, string(kept.Value))
		kept, err = s.GetMemory(t.Context(), g.ID, client.MemoryOfTenant, "agent:"+g.ID+":waiting")
		require.NoError(t, err)
		require.JSONEq(t, `{"for": "consensus", "at_most_ms": 60000, "group": "waiting", "task": "Add a \"login\" page", "iteration": 2, "phase": "auth"}`, string(kept.Value))
		require.Equal(t, map[string]any{"agent": g.ID, "for": "consensus"}, g.published("agent.blocking.start"))

		require.True(t, g.box("write", g.workspace("position"), "elsewhere").OK())
		s.mustCLI("signal", g.ID, "--data", `{"action": "approved", "by": "it's me; $(exit 3)"}`)
		require.Equal(t, 0, end().code)
		require.Equal(t, client.RunSucceeded, g.runAt(client.WaitSignal).State, "%+v", g.runAt(client.WaitSignal))
		require.Equal(t, "main.go:12\n", g.box("read", g.workspace("position")).Stdout.String())
		require.JSONEq(t, `{"action": "approved", "by": "it's me; $(exit 3)"}`, g.box("read", g.workspace("answer.json")).Stdout.String())
		require.Greater(t, g.published("agent.blocking.resume")["waited_ms"], 0.0)

		late := s.cli("wait", g.ID, "--type", "validation", "--timeout", "1s")
		require.Equal(t, 9, late.code, "aborted: %s", late.err)
		require.GreaterOrEqual(t, g.published("agent.timeout")["exceeded_ms"], 0.0)
		kept, err = s.GetMemory(t.Context(), g.ID, client.MemoryOfTenant, "agent:"+g.ID+":late")
		require.NoError(t, err)
		require.Contains(t, string(kept.Value), `"iteration":0`)
		late = s.cli("wait", g.ID, "--type", "dependency", "--timeout", "1s")
		require.Equal(t, 8, late.code, "extended, and then timed out: %s", late.err)
		for _, r := range s.runsOf(client.RunFilter{Claim: g.ID}) {
			require.Equal(t, client.RunSucceeded, r.State, "%+v", r)
		}
		require.Len(t, s.runsOf(client.RunFilter{Claim: g.ID, Point: client.WaitTimeout}), 3)
		_, err = s.Release(t.Context(), g.ID, false)
		require.NoError(t, err)
		s.deleteWorkload("waiting")
		s.requireEnds()
	})
}

// limitedScripts are scripts in CFN's form that reach their limits.
const limitedScripts = `
id: limited
image: example/waiting:1.0
volumes: { state: { target: /workspace } }
pool: { min_idle: 0, max_size: 1 }
environment: { OWN: "of the container" }
hooks:
  on_blocking_start: |
    cat >/dev/null
    pwd | sed 's,.*/workspace,/workspace,'
    echo "$OWN" "$BASH_VERSION" | sed 's/ [1-9].*/ in bash/'
    for name in AGENT_ID TASK SWARM_ID ITERATION PHASE BLOCKING_TYPE TIMEOUT_THRESHOLD; do echo "$name=${!name}"; done
    echo "${SIGNAL_DATA-none} ${WAIT_DURATION-none} ${TIMEOUT_DURATION-none} ${EXCEEDED_BY-none}"
    ulimit -t; ulimit -f
    echo problem >&2
    exit 7
  on_signal_received: |
    trap '' TERM
    echo "$SIGNAL_DATA"
    echo "$WAIT_DURATION" | sed 's/[0-9]/n/g'
    sleep 1000 & disown
    sleep 1000
  on_blocking_timeout: |
    echo "$TIMEOUT_DURATION $EXCEEDED_BY" | sed 's/[0-9][0-9]*/n/g'
    truncate -s 104857601 large
    echo '{"decision": "abort"}'
`

// Scripts in CFN's form have the variables of their point, start in the workspace with
// the environment of the container, in bash, and with the limits of the form. What
// fails or is killed after 5 s holds back no wait.
func TestTextFormAtWaits(t *testing.T) {
	t.Parallel()
	forAnyBackend(t, func(t *testing.T, rt backend) {
		s := serve(t, rt)
		_, err := s.Apply(t.Context(), "limited", []byte(inWaitingImage(t, rt, limitedScripts)))
		require.NoError(t, err)
		g := s.claimAs("limited", "ada")
		end := g.waitInBackground("--type", "validation", "--timeout", "60s", "--context", `{"task": "do it; $(id)", "iteration": 3, "phase": "auth"}`)
		s.awaitWait(g.ID, "", client.WaitWaiting)
		start := g.runAt(client.WaitStart)
		require.Equal(t, []any{client.RunFailed, 7}, []any{start.State, *start.ExitCode}, "%+v", start)
		require.Equal(t, []string{
			"/workspace", "of the container in bash",
			"AGENT_ID=" + g.ID, "TASK=do it; $(id)", "SWARM_ID=limited", "ITERATION=3", "PHASE=auth", "BLOCKING_TYPE=validation", "TIMEOUT_THRESHOLD=60000",
			"none none none none", "5", "102400",
		}, strings.Split(strings.TrimSpace(start.Stdout.String()), "\n"))
		require.Equal(t, "problem\n", start.Stderr.String())

		s.mustCLI("signal", g.ID, "--data", `{"a": [1]}`)
		require.Equal(t, commandResult{out: `{"a":[1]}` + "\n"}, end(), "the wait has its signal")
		signalled := g.runAt(client.WaitSignal)
		require.Equal(t, []any{client.RunTimedOut, "SIGKILL"}, []any{signalled.State, signalled.Signal}, "%+v", signalled)
		require.Regexp(t, `^\{"a":\[1\]\}\nn+\n$`, signalled.Stdout.String())

		late := s.cli("wait", g.ID, "--type", "validation", "--timeout", "1s")
		require.Equal(t, 9, late.code, late.err)
		timedOut := g.runAt(client.WaitTimeout)
		require.Regexp(t, `^n n\n\{"decision": "abort"\}\n$`, timedOut.Stdout.String())
		require.Contains(t, timedOut.Stderr.String(), "File size limit exceeded", "%+v", timedOut)
		_, err = s.Release(t.Context(), g.ID, false)
		require.NoError(t, err)
		s.deleteWorkload("limited")
		s.requireEnds()
	})
}
