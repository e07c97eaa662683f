package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/testenv"
)

// trialFile is a workload for the process backend that shows each point.
const trialFile = `id: trial
image: none
command: ["sh", "-c", "echo main process; trap 'exit 0' TERM; while :; do sleep 0.1; done"]
healthcheck: { test: [CMD, "true"], interval: 1s }
parameters: { region: { default: eu }, token: { secret: true } }
pool: { min_idle: 2, max_size: 5 }
hooks:
  post_start: [{ name: begin, script: "echo begun" }]
  post_create: [{ name: warm, script: "echo warm" }]
  post_claim: [{ name: greet, script: "echo hello $HOSTLER_TENANT in $HOSTLER_PARAM_REGION" }]
  wait_start: [{ name: asks, script: "echo asks", timeout: 60s }]
  wait_signal: [{ name: gets, script: "echo gets", timeout: 60s }]
  wait_timeout: [{ name: expires, script: "echo expires", timeout: 60s }]
  pre_release: [{ name: flush, script: "echo flushed" }]
  pre_destroy: [{ name: leave, script: "echo left" }]
  events: [{ name: seen, on: [claim.activated], script: "echo an event" }]
`

// trials is where trials of a test run.
type trials struct {
	t    *testing.T
	file string
	data string
}

func newTrials(t *testing.T, source string) *trials {
	dir := t.TempDir()
	r := &trials{t: t, file: filepath.Join(dir, "workload.yaml"), data: filepath.Join(dir, "trials")}
	r.write(source)
	return r
}

func (r *trials) write(source string) {
	r.t.Helper()
	// It is renamed into place, as editors do, so that a part of it is never tried.
	whole := r.file + ".new"
	require.NoError(r.t, os.WriteFile(whole, []byte(source), 0o600))
	require.NoError(r.t, os.Rename(whole, r.file))
}

// run runs a trial to its end.
func (r *trials) run(args ...string) commandResult {
	r.t.Helper()
	args = append([]string{"try", "--runtime", "process", "--data", r.data}, args...)
	return hostler(r.t, environment(), "", args...)
}

// requireGone checks that nothing is left.
func (r *trials) requireGone() {
	r.t.Helper()
	left, err := filepath.Glob(r.data + "/*")
	require.NoError(r.t, err)
	require.Empty(r.t, left)
	require.Empty(r.t, processesOf(r.t, r.data))
}

// runningTrial is a trial that has not ended.
type runningTrial struct {
	t    *testing.T
	cmd  *exec.Cmd
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (r *trials) start(args ...string) *runningTrial {
	r.t.Helper()
	args = append([]string{"try", "--runtime", "process", "--data", r.data}, args...)
	running := &runningTrial{t: r.t, cmd: exec.CommandContext(r.t.Context(), program(r.t, "hostler"), args...)}
	running.cmd.Env, running.cmd.Stdout, running.cmd.Stderr = environment(), running, running
	require.NoError(r.t, running.cmd.Start())
	return running
}

func (r *runningTrial) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

func (r *runningTrial) output() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

// await waits until the output has a text n times.
func (r *runningTrial) await(text string, n int) {
	r.t.Helper()
	testenv.AwaitTrue(r.t, "the output "+text, func() bool { return strings.Count(r.output(), text) >= n })
}

// end sends a signal and returns the exit code; -1 of a command that was killed.
func (r *runningTrial) end(s os.Signal) int {
	r.t.Helper()
	require.NoError(r.t, r.cmd.Process.Signal(s))
	r.cmd.Wait() //nolint:errcheck // the exit code is what counts
	return r.cmd.ProcessState.ExitCode()
}

// A trial shows every point once, in order, with what was printed, and leaves
// nothing.
func TestTry(t *testing.T) {
	t.Parallel()
	r := newTrials(t, trialFile)
	got := r.run(r.file, "--param", "region=us", "--tenant", "ada", "--param-file", "token="+writeToken(t))
	require.Zero(t, got.code, "%s%s", got.out, got.err)
	rest := got.out
	for _, text := range []string{
		"begin | begun", "warm | warm", "container.created", "greet | hello ada in us", "claim.activated", "asks | asks", "gets | gets",
		"expires | expires", "flush | flushed", "claim.released", "leave | left", "container.destroyed", "workload.deleted",
		"STEP", "all of it succeeded, and everything is removed",
	} {
		_, after, ok := strings.Cut(rest, text)
		require.True(t, ok, "%q in its place in\n%s", text, got.out)
		rest = after
	}
	require.Contains(t, got.out, "main | main process")
	require.Contains(t, got.out, "seen | an event")
	require.Equal(t, 1, strings.Count(got.out, "container.creating"), "one container")
	require.NotContains(t, got.out, theToken)
	r.requireGone()
}

const theToken = "a-secret-of-the-tenant"

func writeToken(t *testing.T) string {
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte(theToken), 0o600))
	return file
}

// What fails is named, with the output of what failed and a code, and nothing is
// left of it either.
func TestTryFailures(t *testing.T) {
	t.Parallel()
	const head = "id: trial\nimage: none\n"
	const idle = head + "command: [sleep, infinity]\nhooks: { "
	for name, tt := range map[string]struct {
		source string
		code   int
		shown  []string
	}{
		"main":    {head + `command: ["sh", "-c", "echo no config found; exit 3"]`, 1, []string{"main | no config found", "failed: its main process exited with code 3"}},
		"program": {head + "command: [no-such-program]\nhooks: { pre_destroy: [{ name: leave, command: [no-such-hook] }] }", 1, []string{"failed: ", "no-such-program"}},
		"create":  {idle + `post_create: [{ name: warm, script: "echo cold >&2; exit 7" }] }`, 5, []string{"warm | cold", "exited with code 7"}},
		"claim":   {idle + `post_claim: [{ name: greet, script: "echo refused; exit 7" }] }`, 5, []string{"greet | refused", "exited with code 7"}},
		"release": {idle + `pre_release: [{ name: flush, script: "exit 7" }] }`, 5, []string{`failed: the pre_release hook "flush": failed`}},
		"allowed": {idle + `pre_release: [{ name: flush, script: "exit 7", on_error: continue }] }`, 0, []string{"all of it succeeded"}},
		"file":    {head + "comand: [sleep]\n", 1, []string{"workload.yaml:3:1: comand: is an unknown key"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newTrials(t, tt.source)
			got := r.run(r.file)
			require.Equal(t, tt.code, got.code, "%s%s", got.out, got.err)
			for _, text := range tt.shown {
				require.Contains(t, got.out+got.err, text)
			}
			r.requireGone()
		})
	}
}

// An interrupted trial releases and destroys its container as any other. One that is
// killed is removed by the next, which leaves alone one that still runs.
func TestTryInterrupted(t *testing.T) {
	t.Parallel()
	r := newTrials(t, trialFile)
	args := []string{r.file, "--hold", "5m", "--param-file", "token=" + writeToken(t)}
	first := r.start(args...)
	first.await("is yours for 5m", 1)
	killed := r.start(args...)
	killed.await("is yours for 5m", 1)
	require.Equal(t, -1, killed.end(syscall.SIGKILL))
	require.NotEmpty(t, processesOf(t, r.data))

	got := r.run("--clean")
	require.Zero(t, got.code, "%s%s", got.out, got.err)
	require.Equal(t, 1, strings.Count(got.out, "removing what an interrupted trial has left"), got.out)
	running, err := filepath.Glob(r.data + "/*")
	require.NoError(t, err)
	require.Len(t, running, 1, "that of the first trial")

	require.Equal(t, 130, first.end(syscall.SIGINT), first.output())
	for _, text := range []string{"flush | flushed", "leave | left", "interrupted"} {
		require.Contains(t, first.output(), text)
	}
	r.requireGone()
}

// A changed file is tried again. A broken one shows its faults, and the next change
// follows.
func TestTryWatch(t *testing.T) {
	t.Parallel()
	source := func(word string) string {
		return "id: trial\nimage: none\ncommand: [sleep, infinity]\nhooks: { post_create: [{ name: warm, script: 'echo " + word + "' }] }\n"
	}
	r := newTrials(t, source("one"))
	watching := r.start(r.file, "--watch")
	watching.await("exit status 0; waiting for a change", 1)
	r.write(source("two") + "comand: x\n")
	watching.await("exit status 1; waiting for a change", 1)
	require.Contains(t, watching.output(), "is an unknown key")
	r.write(source("three"))
	watching.await("exit status 0; waiting for a change", 2)
	require.Contains(t, watching.output(), "warm | three")
	require.NotContains(t, watching.output(), "warm | two")
	require.Equal(t, 130, watching.end(syscall.SIGINT))
	r.requireGone()
}
