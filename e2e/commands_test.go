package e2e

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
)

// usedWorkload has a hook that lists the processes of a tenant's command, by the
// marker in their arguments.
const usedWorkload = `
pool: { min_idle: 1, max_size: 3 }
hooks:
  pre_release: [{ name: look, command: [BOX, ps, MARKER] }]
`

// boxArgs is box as a command of the container.
func (g tenantSession) boxArgs(args ...string) []string {
	return append([]string{g.s.rt.program(g.s.t, "box")}, args...)
}

// A tenant runs commands in its container: with their exit codes, their input and
// their output, also after the server was killed in between. They are ended before
// the hooks of the release.
func TestCommands(t *testing.T) {
	t.Parallel()
	forEachBackend(t, func(t *testing.T, rt backend) {
		// It has the same address when it is started again.
		s := serve(t, rt, "--listen", fmt.Sprintf("127.0.0.1:%d", freePort(t)))
		// Processes of other backends' containers are processes of this machine, too.
		marker := "marker-" + uuid.NewString()
		_, err := s.Apply(t.Context(), "used", []byte(strings.ReplaceAll(workload(t, rt, "used", usedWorkload), "MARKER", marker)))
		require.NoError(t, err)
		g := s.claimAs("used", "ada")

		got, err := s.Exec(t.Context(), g.ID, client.CommandRequest{Command: g.boxArgs("cat"), Stdin: "hello"})
		require.NoError(t, err)
		require.Equal(t, "hello", got.Stdout.Head)
		got, err = s.Exec(t.Context(), g.ID, client.CommandRequest{Command: g.boxArgs("exit", "3")})
		require.NoError(t, err)
		require.Equal(t, 3, got.ExitCode)
		_, err = s.Exec(t.Context(), g.ID, client.CommandRequest{Command: []string{"/no-such-program"}})
		e, ok := errors.AsType[*client.Error](err)
		require.True(t, ok)
		require.Equal(t, client.CodeCommandNotStarted, e.Code, e.Detail)

		got2 := hostler(t, []string{"HOSTLER_SERVER=" + s.base}, "from the shell", append([]string{"exec", g.ID, "--"}, g.boxArgs("cat")...)...)
		require.Equal(t, commandResult{0, "from the shell", ""}, got2)

		g.requireStreamsThroughKill()

		hang, err := s.StartCommand(t.Context(), g.ID, client.CommandRequest{Command: g.boxArgs("hang", marker), ID: "one"})
		require.NoError(t, err)
		require.Contains(t, s.mustCLI("get", "commands", g.ID), "one")
		require.Contains(t, s.mustCLI("kill", g.ID, hang.ID), "SIGTERM")

		_, err = s.StartCommand(t.Context(), g.ID, client.CommandRequest{Command: g.boxArgs("ignore-term", marker), ID: "two"})
		require.NoError(t, err)
		_, err = s.Release(t.Context(), g.ID, false)
		require.NoError(t, err)
		runs, err := s.Runs(t.Context(), client.RunFilter{Claim: g.ID, Point: client.PreRelease})
		require.NoError(t, err)
		require.Len(t, runs, 1)
		require.Empty(t, runs[0].Stdout.Head, "the command had ended")
		_, err = s.Exec(t.Context(), g.ID, client.CommandRequest{Command: g.boxArgs("cat")})
		e, ok = errors.AsType[*client.Error](err)
		require.True(t, ok)
		require.Equal(t, client.CodeClaimNotActive, e.Code)
		s.deleteWorkload("used")
		s.requireNothingLeft()
	})
}

// atWriter calls a function once, when some bytes were written.
type atWriter struct {
	io.Writer
	left int
	call func()
}

func (w *atWriter) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left <= 0 && w.call != nil {
		w.call()
		w.call = nil
	}
	return w.Writer.Write(p)
}

// requireStreamsThroughKill asserts that a command has each byte of its input once,
// and a client each byte of its output, although the server is killed in between.
func (g tenantSession) requireStreamsThroughKill() {
	t, s := g.s.t, g.s
	t.Helper()
	text := make([]byte, 5<<20)
	_, err := rand.Read(text)
	require.NoError(t, err)
	cmd, err := s.StartCommand(t.Context(), g.ID, client.CommandRequest{Command: g.boxArgs("cat"), Input: true})
	require.NoError(t, err)
	lost := 0
	cmd.OnLost = func(error) { lost++ }
	sent := make(chan error, 1)
	go func() { sent <- errors.Join(cmd.Send(t.Context(), text), cmd.CloseInput(t.Context())) }()
	hash := sha256.New()
	out := &atWriter{Writer: hash, left: 2 << 20, call: func() { s.kill(); s.start() }}
	result, err := cmd.Wait(t.Context(), out, io.Discard)
	require.NoError(t, err)
	require.NoError(t, <-sent)
	require.Zero(t, result.ExitCode)
	want := sha256.Sum256(text)
	require.Equal(t, want[:], hash.Sum(nil))
	require.Positive(t, lost)
}

// The command line gives a command a terminal, with the size of its own.
func TestCommandTerminal(t *testing.T) {
	t.Parallel()
	forEachBackend(t, func(t *testing.T, rt backend) {
		s := serve(t, rt)
		_, err := s.Apply(t.Context(), "shown", []byte(workload(t, rt, "shown", "pool: { min_idle: 1, max_size: 2 }\n")))
		require.NoError(t, err)
		g := s.claimAs("shown", "ada")
		p := openPTY(t, 30, 100)
		c := exec.Command(program(t, "hostler"), append([]string{"exec", g.ID, "-it", "--"}, g.boxArgs("terminal")...)...)
		c.Env = environment("HOSTLER_SERVER=" + s.base)
		c.Stdin, c.Stdout, c.Stderr = p.terminal, p.terminal, p.terminal
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		require.NoError(t, c.Start())
		p.await("30")
		p.await("100")
		p.resize(40, 120)
		p.await("120")
		p.awaitRaw()
		_, err = p.keys.Write([]byte{4}) // the end of the input
		require.NoError(t, err)
		require.NoError(t, c.Wait())

		c = exec.Command(program(t, "hostler"), append([]string{"exec", g.ID, "-it", "--"}, g.boxArgs("hang", "kept")...)...)
		c.Env = environment("HOSTLER_SERVER=" + s.base)
		c.Stdin, c.Stdout, c.Stderr = p.terminal, p.terminal, p.terminal
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		require.NoError(t, c.Start())
		s.eventually(func() bool { return strings.Contains(s.mustCLI("get", "commands", g.ID), "kept") })
		p.awaitRaw()
		_, err = p.keys.Write([]byte{0x10, 0x11})
		require.NoError(t, err)
		p.await("the command continues")
		require.NoError(t, c.Wait())
		require.Contains(t, s.mustCLI("get", "commands", g.ID), "running")
		_, err = s.Release(t.Context(), g.ID, false)
		require.NoError(t, err)
	})
}
