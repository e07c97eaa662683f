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

// newServer builds the programs and makes an installation whose identity is
// ours to choose, so that we can tell what it makes on the engine.
func newServer(t *testing.T, instance, engine string) *server {
	t.Helper()
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", dir+"/", "../../cmd/hostler", "../../cmd/hostler-shim")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	out, err := build.CombinedOutput()
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
			t.Logf("the server's log ends in:\n%s", v.log)
		}
	})
	return v
}

// open opens the database, of a server that does not run.
func (v *server) open(t *testing.T) *store.DB {
	t.Helper()
	db, err := store.Open(t.Context(), filepath.Join(v.data, "hostler.db"))
	require.NoError(t, err)
	return db
}

// start starts the server and returns when it serves.
func (v *server) start() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.log == nil {
		v.log = &serverLog{}
	}
	v.log.address = make(chan string, 1)
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

// kill ends the server without giving it time for anything.
func (v *server) kill() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.cmd != nil {
		_ = v.cmd.Process.Kill() // it may have ended
		_ = v.cmd.Wait()
	}
}

// stop ends the server as its operator does.
func (v *server) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, v.cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, v.cmd.Wait())
	v.cmd = nil
}

// api is the present server's.
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

// call makes a call, at whatever server there is, until one answers it.
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

// isUnavailable reports whether no server answers, or none that serves.
func isUnavailable(err error) bool {
	return errors.Is(err, client.ErrNoResponse) || codeOf(err) == client.CodeNotReady || codeOf(err) == client.CodeStorageUnavailable
}

// codeOf is what a server says that went wrong; empty for what none says.
func codeOf(err error) client.Code {
	if answer, ok := errors.AsType[*client.Error](err); ok {
		return answer.Code
	}
	return ""
}

// maxLog is how much of a server's log is kept for who has to find out.
const maxLog = 64 << 10

// serverLog keeps the end of what servers write, and finds their address.
type serverLog struct {
	address chan string

	mu   sync.Mutex // guards text
	text []byte
}

// Write takes whole lines, as the server writes them.
func (l *serverLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	l.text = l.text[max(0, len(l.text)-maxLog):]
	for line := range bytes.Lines(p) {
		var entry struct{ Msg, Address string }
		if json.Unmarshal(line, &entry) == nil && entry.Msg == "serving" {
			l.address <- entry.Address
		}
	}
	return len(p), nil
}

func (l *serverLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}
