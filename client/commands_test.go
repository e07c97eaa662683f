package client_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/api/apitest"
	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/fake"
)

// brokenListener closes each connection after it has sent some bytes.
type brokenListener struct {
	net.Listener
	limit int
}

func (l brokenListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return &brokenConn{Conn: c, left: l.limit}, err
}

type brokenConn struct {
	net.Conn
	mu   sync.Mutex
	left int
}

func (c *brokenConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left < len(p) {
		_, _ = c.Conn.Write(p[:c.left])
		c.left = 0
		return 0, errors.Join(errors.New("the connection broke"), c.Close())
	}
	c.left -= len(p)
	return c.Conn.Write(p)
}

// commandClient returns a client of a server with a claim of a container. A limit
// breaks connections after as many bytes.
func commandClient(t *testing.T, limit int) (*flowtest.Harness, *client.Client, string) {
	t.Helper()
	h := flowtest.New(t)
	h.Apply("id: w\nimage: box\ncommand: [box, idle]\npool: { min_idle: 1, max_size: 2 }\n")
	o := apitest.New().Options()
	o.Access = h.Access(nil)
	a := api.New(o)
	server := httptest.NewUnstartedServer(a)
	if limit > 0 {
		server.Listener = brokenListener{server.Listener, limit}
	}
	server.Start()
	t.Cleanup(func() { a.Close(); server.Close() })
	c, err := client.New(server.URL, "")
	require.NoError(t, err)
	return h, c, h.Claim("w", "ada").ID
}

// Output and input arrive once each, in order, through any number of lost
// connections.
func TestCommandThroughLostConnections(t *testing.T) {
	h, c, claim := commandClient(t, 200<<10)
	h.RT.AddProgram("copy", func(_ context.Context, p *fake.Proc) int {
		n, _ := io.Copy(p.Stdout, p.Stdin) // the result is compared
		fmt.Fprintf(p.Stderr, "%d bytes", n)
		return 3
	})
	text := bytes.Repeat([]byte("0123456789abcde\n"), 3*runtime.CommandBuffer/16)
	cmd, err := c.StartCommand(t.Context(), claim, client.CommandRequest{Command: []string{"copy"}, Input: true})
	require.NoError(t, err)
	lost := 0
	cmd.OnLost = func(error) { lost++ }
	sent := make(chan error, 1)
	go func() { sent <- errors.Join(cmd.Send(t.Context(), text), cmd.CloseInput(t.Context())) }()
	var stderr strings.Builder
	stdout := sha256.New()
	result, err := cmd.Wait(t.Context(), stdout, &stderr)
	require.NoError(t, err)
	require.NoError(t, <-sent)
	require.Equal(t, 3, result.ExitCode)
	require.Equal(t, fmt.Sprintf("%d bytes", len(text)), stderr.String())
	want := sha256.Sum256(text)
	require.Equal(t, want[:], stdout.Sum(nil))
	require.Positive(t, lost)
}

// The end of the container ends what follows its command, with the reason.
func TestCommandOfContainerThatEnds(t *testing.T) {
	h, c, claim := commandClient(t, 0)
	cmd, err := c.StartCommand(t.Context(), claim, client.CommandRequest{Command: []string{"box", "hang"}, Input: true})
	require.NoError(t, err)
	h.RT.Kill(h.Claim("w", "ada").Container) // the claim that there is
	_, err = cmd.Wait(t.Context(), io.Discard, io.Discard)
	requireCode(t, client.CodeUnhealthy, err)
	requireCode(t, client.CodeUnhealthy, cmd.Send(t.Context(), []byte("x")))
	requireCode(t, client.CodeUnhealthy, cmd.CloseInput(t.Context()))
}

// Lost connections are made again for LostTimeout only.
func TestCommandThatIsLost(t *testing.T) {
	for _, answer := range []http.HandlerFunc{
		func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, `{"status": 503, "code": "engine_unavailable"}`)
		},
		func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		first := true
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !first {
				answer(w, r)
				return
			}
			first = false
			fmt.Fprint(w, `{"id": "k1"}`)
		}))
		t.Cleanup(server.Close)
		c, err := client.New(server.URL, "")
		require.NoError(t, err)
		cmd, err := c.StartCommand(t.Context(), "c1", client.CommandRequest{Command: []string{"x"}})
		require.NoError(t, err)
		lost := 0
		cmd.LostTimeout, cmd.OnLost = time.Millisecond, func(error) { lost++ }
		_, err = cmd.Wait(t.Context(), io.Discard, io.Discard)
		require.Error(t, err)
		require.Positive(t, lost)
		require.Error(t, cmd.Send(t.Context(), []byte("x")))
		require.Error(t, cmd.CloseInput(t.Context()))
	}
}

// A command that prints nothing is followed as long as its connections have heartbeats,
// however often they are lost.
func TestSilentCommandIsFollowed(t *testing.T) {
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		switch requests++; requests {
		case 1:
			fmt.Fprint(w, `{"id": "k1"}`)
		case 2, 3, 4:
			fmt.Fprintln(w)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		default:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"status": 404, "code": "command_not_found"}`)
		}
	}))
	t.Cleanup(server.Close)
	c, err := client.New(server.URL, "")
	require.NoError(t, err)
	cmd, err := c.StartCommand(t.Context(), "c1", client.CommandRequest{Command: []string{"x"}})
	require.NoError(t, err)
	cmd.LostTimeout = time.Millisecond // a second failure without a heartbeat is final
	_, err = cmd.Wait(t.Context(), io.Discard, io.Discard)
	require.Error(t, err)
	require.Equal(t, 5, requests)
}

// A command is attached to again where the last reader stopped, and a reader that is
// replaced learns it.
func TestAttachCommand(t *testing.T) {
	h, c, claim := commandClient(t, 0)
	next := make(chan string)
	h.RT.AddProgram("speak", func(_ context.Context, p *fake.Proc) int {
		for text := range next {
			fmt.Fprint(p.Stdout, text)
		}
		return 0
	})
	cmd, err := c.StartCommand(t.Context(), claim, client.CommandRequest{Command: []string{"speak"}})
	require.NoError(t, err)
	first := make(chan error, 1)
	read, w := io.Pipe()
	go func() {
		_, err := cmd.Wait(t.Context(), w, io.Discard)
		first <- err
	}()
	next <- "one,"
	b := make([]byte, 4)
	_, err = io.ReadFull(read, b)
	require.NoError(t, err)

	again, err := c.AttachCommand(t.Context(), claim, cmd.ID, 4)
	require.NoError(t, err)
	var out strings.Builder
	second := make(chan error, 1)
	go func() {
		_, err := again.Wait(t.Context(), &out, io.Discard)
		second <- err
	}()
	e, ok := errors.AsType[*client.Error](<-first)
	require.True(t, ok)
	require.Equal(t, client.CodeAttachedElsewhere, e.Code)
	next <- "two"
	close(next)
	require.NoError(t, <-second)
	require.Equal(t, "two", out.String())
}

// Exec returns how a command ended, and what the server refuses is an *Error.
func TestExec(t *testing.T) {
	_, c, claim := commandClient(t, 0)
	got, err := c.Exec(t.Context(), claim, client.CommandRequest{Command: []string{"box", "echo", "hi"}, Timeout: time.Minute})
	require.NoError(t, err)
	require.Equal(t, "hi\n", got.Stdout.Head)
	_, err = c.Exec(t.Context(), claim, client.CommandRequest{Command: []string{"nope"}})
	e, ok := errors.AsType[*client.Error](err)
	require.True(t, ok)
	require.Equal(t, client.CodeCommandNotStarted, e.Code)
	require.Equal(t, http.StatusUnprocessableEntity, e.Status)
}

// A command is listed, receives signals, is ended, and receives no input then.
func TestEndCommand(t *testing.T) {
	_, c, claim := commandClient(t, 0)
	cmd, err := c.StartCommand(t.Context(), claim, client.CommandRequest{Command: []string{"box", "hang"}, Input: true})
	require.NoError(t, err)
	list, err := c.Commands(t.Context(), claim)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, cmd.ID, list[0].ID)
	require.NoError(t, cmd.Signal(t.Context(), "SIGWINCH"))
	require.NoError(t, cmd.Resize(t.Context(), client.TerminalSize{Rows: 2, Columns: 2}))
	got, err := c.EndCommand(t.Context(), claim, cmd.ID)
	require.NoError(t, err)
	require.Equal(t, "SIGTERM", got.Result.Signal)
	require.ErrorIs(t, cmd.Send(t.Context(), []byte("x")), client.ErrInputClosed)
	result, err := cmd.Wait(t.Context(), io.Discard, io.Discard)
	require.NoError(t, err)
	require.Equal(t, 143, result.ExitCode)
}
