package soak

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/internal/flow"
	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/store"
)

// unresponsive is serve's --unresponsive-timeout.
const unresponsive = 15 * time.Second

// server is the program under test, which is killed and started again.
type server struct {
	program, data string
	env           []string

	mu     sync.RWMutex // guards what follows
	client *client.Client
	base   string // its address
	cmd    *exec.Cmd
	log    *serverLog
}

// secret is the installation's.
var secret = []byte("a secret of the soak")

// newServer builds the programs and creates an installation. The test chooses its
// identity, to recognize what it creates on the engine.
func newServer(t *testing.T, instance, engine string) *server {
	t.Helper()
	dir := t.TempDir()
	out, err := testenv.GoBuild("-o", dir+"/", "../../cmd/hostler", "../../cmd/hostler-shim").CombinedOutput()
	require.NoError(t, err, "%s", out)
	v := &server{program: filepath.Join(dir, "hostler"), data: t.TempDir()}
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "HOSTLER_") && !strings.HasPrefix(variable, "DOCKER_") {
			v.env = append(v.env, variable)
		}
	}
	v.env = append(v.env, "DOCKER_HOST="+engine)
	db := v.open(t)
	require.NoError(t, db.SetMeta(t.Context(), "installation", instance))
	require.NoError(t, db.SetMeta(t.Context(), "secret", hex.EncodeToString(secret)))
	require.NoError(t, db.Close())
	t.Cleanup(func() {
		v.kill()
		if t.Failed() {
			t.Logf("the end of the server's log:\n%s", v.log)
		}
	})
	return v
}

// open opens the database while the server does not run.
func (v *server) open(t *testing.T) *store.DB {
	t.Helper()
	db, err := store.Open(t.Context(), filepath.Join(v.data, "hostler.db"))
	require.NoError(t, err)
	return db
}

// start starts the server and waits until it serves.
func (v *server) start() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.log == nil {
		v.log = &serverLog{warnings: map[string]int{}}
	}
	v.log.begin()
	v.cmd = exec.Command(v.program, "serve", "--listen", "127.0.0.1:0", "--data", v.data, "--runtime", "docker",
		"--log-format", "json", "--unresponsive-timeout", unresponsive.String())
	v.cmd.Env, v.cmd.Stderr = v.env, v.log
	if err := v.cmd.Start(); err != nil {
		return err
	}
	select {
	case address := <-v.log.address:
		var err error
		v.base = address
		v.client, err = client.New(address, "")
		return err
	case <-time.After(serverTimeout):
		return errors.New("the server does not serve")
	}
}

// kill ends the server with SIGKILL.
func (v *server) kill() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.cmd != nil {
		_ = v.cmd.Process.Kill() // it may have ended
		_ = v.cmd.Wait()
	}
}

// stop ends the server with SIGTERM.
func (v *server) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, v.cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, v.cmd.Wait())
	v.cmd = nil
}

// api returns the client of the current server.
func (v *server) api() *client.Client {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.client
}

func (v *server) address() string {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.base
}

// call calls the current server, and retries while it is unavailable.
func call[T any](ctx context.Context, v *server, do func(*client.Client) (T, error)) (T, error) {
	begun := time.Now()
	for {
		answer, err := do(v.api())
		if err == nil || ctx.Err() != nil || !isUnavailable(err) || time.Since(begun) > serverTimeout {
			return answer, err
		}
		if flow.Sleep(ctx, 100*time.Millisecond) != nil {
			return answer, err
		}
	}
}

// isUnavailable reports whether the server does not answer, or is not ready.
func isUnavailable(err error) bool {
	return errors.Is(err, client.ErrNoResponse) || codeOf(err) == client.CodeNotReady || codeOf(err) == client.CodeStorageUnavailable
}

// codeOf returns the code of a server's error; empty for other errors.
func codeOf(err error) client.Code {
	if answer, ok := errors.AsType[*client.Error](err); ok {
		return answer.Code
	}
	return ""
}

// maxLog is how many bytes of a server's log are kept.
const maxLog = 64 << 10

// serverLog keeps the end of the servers' log, and finds their addresses.
type serverLog struct {
	address chan string

	mu       sync.Mutex // guards what follows
	text     []byte
	line     []byte         // what has arrived of the last line
	warnings map[string]int // lines that are warnings and errors, by level and message
}

// begin prepares the log for another server.
func (l *serverLog) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.address, l.line = make(chan string, 1), nil
}

// Write appends to the log, and reads the lines that are complete.
func (l *serverLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	l.text = l.text[max(0, len(l.text)-maxLog):]
	for line := range bytes.Lines(p) {
		if l.line = append(l.line, line...); bytes.HasSuffix(line, []byte("\n")) {
			l.read(l.line)
			l.line = nil
		}
	}
	return len(p), nil
}

// read reads a line. The caller holds mu.
func (l *serverLog) read(line []byte) {
	var entry struct{ Level, Msg, Address string }
	if json.Unmarshal(line, &entry) != nil {
		entry.Level, entry.Msg = "NO LEVEL", string(line[:min(len(line), 100)])
	}
	switch {
	case entry.Msg == "serving":
		l.address <- entry.Address
	case entry.Level != "INFO":
		l.warnings[entry.Level+": "+entry.Msg]++
	}
}

// requireNoPanic checks that the servers have logged neither a panic nor what is no
// entry of the log, and counts their warnings and errors.
func (s *soak) requireNoPanic(t *testing.T) {
	t.Helper()
	l := s.server.log
	l.mu.Lock()
	defer l.mu.Unlock()
	for what, n := range l.warnings {
		s.counters.addN(n, "server's log: "+what)
		require.NotContains(t, what, "panic")
		require.NotContains(t, what, "NO LEVEL")
	}
}

func (l *serverLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}
