package e2e

import (
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/internal/flow"
	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/store"
)

// server is an installation of Hostler, whose server may be stopped and started
// again. While the server runs, it is also its client.
type server struct {
	*client.Client
	t        *testing.T
	rt       backend
	data     string
	instance string
	engine   runtime.Runtime // the server's runtime, for checks
	program  string          // path of the server program; empty for hostler
	args     []string        // additional arguments of serve
	env      []string

	base  string
	log   *serverLog
	cmd   *exec.Cmd
	ended chan struct{} // closed when the process has exited
}

// install creates an installation whose server does not run yet. The test
// chooses its identity, to recognize what it creates on the engine.
func install(t *testing.T, rt backend, args ...string) *server {
	t.Helper()
	leaveToSecondPass(t)
	// The path is short because the process runtime has sockets below it.
	data, err := os.MkdirTemp("", "e2e-")
	require.NoError(t, err)
	s := &server{t: t, rt: rt, data: data, args: args, instance: runID + "-" + uuid.NewString()[:8]}
	secret := []byte("a secret of these tests")
	db, err := store.Open(t.Context(), filepath.Join(data, "hostler.db"))
	require.NoError(t, err)
	require.NoError(t, db.SetMeta(t.Context(), "installation", s.instance))
	require.NoError(t, db.SetMeta(t.Context(), "secret", hex.EncodeToString(secret)))
	require.NoError(t, db.Close())
	s.engine = rt.open(t, s.instance, data, secret)
	t.Cleanup(s.remove)
	return s
}

// serve creates an installation and starts its server.
func serve(t *testing.T, rt backend, args ...string) *server {
	t.Helper()
	s := install(t, rt, args...)
	s.start()
	return s
}

// isServingLine reports whether a log line reports that the server serves.
func isServingLine(l logLine) bool { return l.hasMessage("serving") }

// start starts the server and waits until it serves.
func (s *server) start() {
	s.t.Helper()
	s.launch()
	s.use(s.log.await(s.t, "its address", isServingLine))
}

// startArmed starts a server that kills itself at a failpoint, and waits until it
// serves, or was killed before.
func (s *server) startArmed(failpoint string) {
	s.t.Helper()
	s.env = append(s.env, "HOSTLER_CRASH_AT="+failpoint)
	s.launch()
	var line logLine
	var ended bool
	s.eventually(func() bool {
		line, ended, _ = s.log.find(isServingLine)
		return line != nil || ended
	})
	if line == nil {
		require.True(s.t, ended, "the server did not log its address")
		<-s.ended
		require.Equal(s.t, -1, s.cmd.ProcessState.ExitCode(), "the server was killed")
		return
	}
	s.use(line)
}

// launch starts the server's process.
func (s *server) launch() {
	s.t.Helper()
	args := append([]string{"serve", "--listen", "127.0.0.1:0", "--data", s.data, "--runtime", s.rt.name()}, s.rt.args(s.t)...)
	args = append(args, s.args...)
	s.requireNoRace() // of the server before
	log, ended := newServerLog(), make(chan struct{})
	path := s.program
	if path == "" {
		var err error
		path, err = servingProgram()
		require.NoError(s.t, err)
	}
	cmd := exec.Command(path, args...)
	cmd.Env, cmd.Stderr = environment(s.env...), log
	require.NoError(s.t, cmd.Start())
	s.log, s.cmd, s.ended = log, cmd, ended
	go func() { // ends with the process, which remove kills
		cmd.Wait() //nolint:errcheck // callers check the process state
		log.finish()
		close(ended)
	}()
}

// use makes calls go to the server, which has logged its address.
func (s *server) use(line logLine) {
	s.t.Helper()
	s.base = line["address"].(string)
	var err error
	s.Client, err = client.New(s.base, "")
	require.NoError(s.t, err)
}

// stopWith sends the server a signal and returns its exit code.
func (s *server) stopWith(signal syscall.Signal) int {
	s.t.Helper()
	require.NoError(s.t, s.cmd.Process.Signal(signal))
	<-s.ended
	return s.cmd.ProcessState.ExitCode()
}

// kill ends the server with SIGKILL.
func (s *server) kill() {
	s.t.Helper()
	require.Equal(s.t, -1, s.stopWith(syscall.SIGKILL), "the server was killed")
}

// remove kills the server and removes what it created.
func (s *server) remove() {
	if s.cmd != nil {
		s.cmd.Process.Kill() //nolint:errcheck // it may have ended
		<-s.ended
		s.requireNoRace()
		if s.t.Failed() {
			s.t.Logf("the server's log:\n%s", s.log)
		}
	}
	ctx := testenv.Context(s.t)
	all, err := s.engine.List(ctx)
	require.NoError(s.t, err)
	var g errgroup.Group
	for _, c := range all {
		g.Go(func() error {
			err := s.engine.Destroy(ctx, c.ID)
			for errors.Is(err, runtime.ErrUnavailable) && flow.Sleep(ctx, time.Second) == nil {
				err = s.engine.Destroy(ctx, c.ID) // retried, as servers do
			}
			return err
		})
	}
	require.NoError(s.t, g.Wait())
	require.NoError(s.t, os.RemoveAll(s.data))
}

// cli runs a client command against the server.
func (s *server) cli(args ...string) commandResult {
	s.t.Helper()
	return hostler(s.t, []string{"HOSTLER_SERVER=" + s.base}, "", args...)
}

// mustCLI runs a client command that has to succeed and returns its output.
func (s *server) mustCLI(args ...string) string {
	s.t.Helper()
	got := s.cli(args...)
	require.Zero(s.t, got.code, "hostler %q: %s", args, got.err)
	return got.out
}
