package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/workload"
)

// recordingProgram stands for the program of a container: it writes each of its
// calls, with an argument a line and an empty line at the end.
const recordingProgram = `#!/bin/sh
printf '%s\n' "$@" '' >>"$CALLS"
[ "$2" != get ] || cat value.json
`

// exampleCalls runs a program or a script of the example of waits, and returns the
// arguments of the calls that it makes.
func exampleCalls(t *testing.T, dir string, environment []string, command ...string) (calls [][]string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "hostler"), []byte(recordingProgram), 0o755))
	log := filepath.Join(dir, "calls")
	c := exec.Command(command[0], command[1:]...)
	c.Dir, c.Env = dir, append(environment, "HOSTLER_BIN="+dir, "CALLS="+log, "PATH="+os.Getenv("PATH"))
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
	text, err := os.ReadFile(log)
	require.NoError(t, err)
	require.NoError(t, os.Remove(log))
	for call := range strings.SplitSeq(strings.TrimSuffix(string(text), "\n\n"), "\n\n") {
		calls = append(calls, strings.Split(call, "\n"))
	}
	return calls
}

// valueOf returns the value of --data of a call.
func valueOf(t *testing.T, call []string) (value any) {
	t.Helper()
	_, data, ok := strings.Cut(strings.Join(call, "\n"), "\n--data\n")
	require.True(t, ok, call)
	data, _, _ = strings.Cut(data, "\n--")
	require.NoError(t, json.Unmarshal([]byte(data), &value), data)
	return value
}

// Any text of a tenant is a string of JSON for the scripts of the example of waits, and
// none of it is run or becomes a field of its own.
func TestWaitingExampleKeepsText(t *testing.T) {
	for _, name := range []string{"bash", "jq"} {
		if _, err := exec.LookPath(name); err != nil {
			testenv.Skip(t, "shells", "no %s on this machine", name)
		}
	}
	examples, err := filepath.Abs("../../examples/waiting")
	require.NoError(t, err)
	source, err := os.ReadFile(filepath.Join(examples, "workload.yaml"))
	require.NoError(t, err)
	w, err := workload.Parse(source, "workload.yaml")
	require.NoError(t, err)
	script := func(p hooks.Point) string {
		text := w.Hooks[p][0].Action.(hooks.Script).Text
		return strings.NewReplacer("/sqlite-memory ", examples+"/sqlite-memory ", "/eventbus ", examples+"/eventbus ").Replace(text)
	}
	for _, hostile := range []string{
		"plain", "", "-h", "--data", `a "quoted" \ text`, "tab\tline\r\nbell\a\x1b[2J\x7f\u0085\u202e", "$(touch run) `touch run` ${HOME} ' ;", `0, "for": "other"`, `{"a": [1]}`,
	} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "position"), []byte(hostile), 0o600))
		given := []string{
			"AGENT_ID=c1", "SWARM_ID=w", "BLOCKING_TYPE=consensus", "TIMEOUT_THRESHOLD=60000", "TIMEOUT_DURATION=60001", "EXCEEDED_BY=1", "WAIT_DURATION=5",
			"TASK=" + hostile, "PHASE=" + hostile, "ITERATION=" + hostile, "SIGNAL_DATA=" + hostile,
		}
		calls := exampleCalls(t, dir, given, "bash", "-c", script(hooks.WaitStart))
		require.Len(t, calls, 3)
		require.Equal(t, hostile, valueOf(t, calls[0]))
		require.Equal(t, map[string]any{
			"for": "consensus", "at_most_ms": 60000.0, "group": "w", "task": hostile, "iteration": 0.0, "phase": hostile,
		}, valueOf(t, calls[1]))

		position, err := json.Marshal(hostile)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "value.json"), position, 0o600))
		require.Len(t, exampleCalls(t, dir, given, "bash", "-c", script(hooks.WaitSignal)), 2)
		for name, want := range map[string]string{"position": hostile + "\n", "answer.json": hostile + "\n"} {
			got, err := os.ReadFile(filepath.Join(dir, name))
			require.NoError(t, err)
			require.Equal(t, want, string(got))
		}

		calls = exampleCalls(t, dir, given, "bash", "-c", script(hooks.WaitTimeout))
		require.Equal(t, map[string]any{"waited_ms": 60001.0, "iteration": 0.0}, valueOf(t, calls[0]))
		require.NoFileExists(t, filepath.Join(dir, "run"))

		if hostile == "" || strings.Contains(hostile, "\n") {
			continue
		}
		for _, command := range []struct {
			args []string
			last []string
		}{
			{[]string{"sqlite-memory", "store", "--key", hostile, "--data", "1"}, []string{"--", hostile}},
			{[]string{"sqlite-memory", "retrieve", "--key", hostile}, []string{"--", hostile}},
			{[]string{"eventbus", "publish", "--type", hostile}, []string{"--", hostile}},
		} {
			command.args[0] = filepath.Join(examples, command.args[0])
			call := exampleCalls(t, dir, nil, command.args...)[0]
			require.Equal(t, command.last, call[len(call)-2:], "no part of a command is an option")
		}
	}
}

// The programs of the example permit the priorities that events have.
func TestWaitingExamplePriorities(t *testing.T) {
	program := filepath.Join("../../examples/waiting", "eventbus")
	usage, err := exec.Command("sh", program).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(usage), fmt.Sprintf("[--priority %d-%d]", activity.MinPriority, activity.MaxPriority))
	text, err := os.ReadFile(program)
	require.NoError(t, err)
	for _, priorities := range regexp.MustCompile(`\[--priority [^]]*\]`).FindAllString(string(text), -1) {
		require.Contains(t, string(usage), priorities)
	}
}
