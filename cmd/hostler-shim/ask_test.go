package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
	"github.com/hostler/hostler/runtime/shim/proctree"
)

// newListener returns the socket of requests of a supervisor whose processes are
// those of this test, and the session that serves it.
func newListener(t *testing.T) (*supervisor, *askListener) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sock")
	t.Setenv(shim.AskSocketEnv, path)
	s := newSupervisor(shim.Config{HostProcess: true, AskSocket: path})
	require.NoError(t, s.listenAsks())
	t.Cleanup(func() { s.askListener.socket.Close() })
	program, _ := connPair(t)
	s.admitted.Store(5)
	s.asks.serve(program, 5)
	return s, s.askListener
}

// command runs the program and returns its exit code and what it prints.
func command(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = runAsk(args, &out, &errs)
	return code, out.String(), errs.String()
}

// The program sends a request and prints the response, and its exit code is that
// of the problem.
func TestAskProgram(t *testing.T) {
	s, _ := newListener(t)
	code, out, _ := command("claim", "-o", "json")
	require.Equal(t, 0, code)
	require.Equal(t, "claim\n", out)
	code, out, _ = command("release")
	require.Equal(t, 0, code)
	require.Equal(t, "releasing\n", out)
	for _, args := range [][]string{nil, {"publish"}, {"claim", "x"}, {"claim", "-o", "yaml"}, {"claim", "--no"}} {
		code, out, errs := command(args...)
		require.Equal(t, askUsage, code, args)
		require.Empty(t, out, args)
		require.NotEmpty(t, errs, args)
	}
	for _, args := range [][]string{{"--help"}, {"help"}, {"claim", "--help"}} {
		code, out, errs := command(args...)
		require.Equal(t, 0, code, args)
		require.NotEmpty(t, out, args)
		require.Empty(t, errs, args)
	}
	s.admitted.Store(6) // the claim has ended
	code, out, errs := command("release", "-o", "json")
	require.Equal(t, askUnavailable, code)
	require.JSONEq(t, `{"code":"no_claim","detail":"the container has no active claim"}`, out)
	require.Contains(t, errs, "no_claim")
}

// The commands that docs/inside.md has send their requests, which package inside has
// under the same names.
func TestAskNames(t *testing.T) {
	newListener(t)
	for request, args := range map[string][]string{
		"claim":         {"claim"},
		"event.publish": {"event", "publish", "agent.done"},
		"activity":      {"activity", "thinking"},
		"memory.put":    {"memory", "put", "k", "--data", "1"},
		"memory.get":    {"memory", "get", "k"},
		"memory.delete": {"memory", "delete", "k"},
		"memory.list":   {"memory", "list"},
		"wait":          {"wait", "--type", "review", "--timeout", "1s"},
		"release":       {"release"},
	} {
		_, out, errs := command(append(args, "-o", "json")...)
		require.Equal(t, request+"\n", out, "%s: %s", args, errs)
	}
}

// The exit code for a key without a value is that of memory get only.
func TestAskForNoValue(t *testing.T) {
	for name, want := range map[string]int{"memory get": askNotFound, "memory put": askFailed} {
		c, _ := findAskCommand(strings.Fields(name))
		var out, errs bytes.Buffer
		require.Equal(t, want, c.printProblem(runtime.Problem{Code: "memory_not_found"}, "", &out, &errs), name)
	}
}

// In a container that sends no requests, each command ends at once with that reason.
func TestAskInOlderContainer(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "sock")
	fd, err := listen(socket)
	require.NoError(t, err)
	unix.Close(fd) // the file stays
	other := filepath.Join(t.TempDir(), "other")
	l, err := net.Listen("unix", other)
	require.NoError(t, err)
	defer l.Close()
	go func() { // ends with the listener
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			_ = shim.WriteFrame(c, shim.KindRequest, shim.Request{})
		}
	}()
	for _, path := range []string{filepath.Join(t.TempDir(), "none"), socket, other, "@hostler-test-none"} {
		t.Setenv(shim.AskSocketEnv, path)
		for _, args := range [][]string{
			{"claim"}, {"release"}, {"wait", "--type", "consensus", "--timeout", "1m"}, {"event", "publish", "agent.x"}, {"activity", "idle"},
			{"memory", "get", "k"}, {"memory", "put", "k", "--data", "1"}, {"memory", "delete", "k"}, {"memory", "list"},
		} {
			type result struct {
				code         int
				stdout, errs string
			}
			ended := make(chan result, 1)
			go func() { // ends at once
				code, out, errs := command(append(args, "-o", "json")...)
				ended <- result{code, out, errs}
			}()
			r := testenv.Await(t, ended, fmt.Sprintf("the end of %q", args))
			require.Equal(t, askUnavailable, r.code, args)
			require.Contains(t, r.stdout, `"code":"unsupported"`, args)
			require.Contains(t, r.errs, "an older server has created it", args)
		}
	}
}

// Control characters of a problem do not reach a terminal.
func TestAskPrintsNoControlCharacters(t *testing.T) {
	require.Equal(t, "a\n\tb�[31m��é", printable("a\n\tb\x1b[31m\u009b\x7fé"))
}

// A request of a claim that has just begun is sent again until the claim is
// announced. A release is not: it could be for another claim.
func TestAskRightAfterActivation(t *testing.T) {
	s, _ := newListener(t)
	s.admitted.Store(6)
	var out, errs bytes.Buffer
	release := releaseCommand
	release.claimWait = time.Hour // the test would not end if it asked again
	require.Equal(t, askUnavailable, release.run(nil, &out, &errs))
	program, _ := connPair(t)
	time.AfterFunc(300*time.Millisecond, func() { s.asks.serve(program, 6) })
	c := claimCommand
	c.claimWait = time.Hour // a slow machine announces it later
	require.Equal(t, 0, c.run(nil, &out, &errs), errs.String())
}

// dialInit opens a connection of this process.
func dialInit(t *testing.T) *os.File {
	t.Helper()
	fd, err := dial(os.Getenv(shim.AskSocketEnv))
	require.NoError(t, err)
	socket := os.NewFile(uintptr(fd), "init")
	t.Cleanup(func() { socket.Close() })
	return socket
}

func requireClosed(t *testing.T, socket *os.File) {
	t.Helper()
	_, err := socket.Read(make([]byte, 1)) // ends with the connection
	require.Error(t, err)
}

// Connections that send nothing give way to others, and end by themselves.
func TestSlowConnectionsGiveWay(t *testing.T) {
	_, l := newListener(t)
	slow := make([]*os.File, 3*maxAskConns)
	for i := range slow {
		slow[i] = dialInit(t)
	}
	for range 3 {
		require.Nil(t, askOnce(&shim.Ask{ID: "i", Name: "x"}).Problem, "at once")
	}
	requireClosed(t, slow[0])
	l.mu.Lock()
	n := len(l.conns)
	l.mu.Unlock()
	require.LessOrEqual(t, n, maxAskConns)
	requireClosed(t, slow[len(slow)-1])
}

// Garbage is answered by nothing.
func TestGarbageIsClosed(t *testing.T) {
	newListener(t)
	for _, garbage := range []string{"\xff\xff\xff\xffQ", "\x00\x00\x00\x02Q{}", "\x00\x00\x00\x02A{}", "\x00\x00\x00\x01Q[", "GET / HTTP/1.1\r\n\r\n"} {
		socket := dialInit(t)
		_, err := socket.WriteString(garbage)
		require.NoError(t, err)
		requireClosed(t, socket)
	}
	code, _, errs := command("claim")
	require.Equal(t, 0, code, errs)
}

// What processes have sent before they were ended is no request afterwards: on
// connections that are accepted, and on those that wait for that.
func TestConnectionsEndWithTheirProcesses(t *testing.T) {
	s, l := newListener(t)
	send := func(socket *os.File) {
		require.NoError(t, shim.WriteFrame(socket, shim.KindRequest, shim.Request{Op: shim.OpAsk, Ask: &shim.Ask{ID: "i", Name: "late"}}))
	}
	accepted := dialInit(t)
	testenv.AwaitTrue(t, "the connection to be accepted", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.conns) == 1
	})
	l.mu.Lock()
	waiting := dialInit(t)
	send(accepted)
	send(waiting)
	l.dropConns()
	l.mu.Unlock()
	program, _ := connPair(t)
	s.asks.serve(program, 5) // the next claim begins
	for _, socket := range []*os.File{accepted, waiting} {
		f, err := shim.ReadFrame(socket, shim.MaxAskSize)
		require.Error(t, err, "it is answered: %s", f.Body)
	}
	code, _, errs := command("claim")
	require.Equal(t, 0, code, errs)
}

// A process is that of a command if it descends from a worker, whatever it does.
// One that is not below init is not of this container.
func TestProcessOrigin(t *testing.T) {
	s := newSupervisor(shim.Config{HostProcess: true})
	_, err := s.processOrigin(1)
	require.ErrorIs(t, err, errNotInContainer)
	_, err = s.processOrigin(0)
	require.ErrorIs(t, err, errNotInContainer)
	_, err = s.processOrigin(1 << 30)
	require.Error(t, err)
	from, err := s.processOrigin(os.Getpid())
	require.NoError(t, err)
	require.Equal(t, origin{}, from)

	worker := exec.Command("sleep", "60")
	require.NoError(t, worker.Start())
	t.Cleanup(func() { _ = worker.Process.Kill(); _ = worker.Wait() })
	from, err = s.processOrigin(worker.Process.Pid)
	require.NoError(t, err)
	require.Equal(t, origin{}, from, "it descends from init")
	p, err := proctree.Read(worker.Process.Pid)
	require.NoError(t, err)
	s.workers.alive = map[proctree.ID]bool{p.ID: true}
	s.workers.setCommand(&workerProcess{id: p.ID}, "run-1")
	from, err = s.processOrigin(worker.Process.Pid)
	require.NoError(t, err)
	require.Equal(t, origin{isCommand: true, runID: "run-1"}, from, "it descends from a worker")
	s.workers.setCommand(&workerProcess{id: p.ID}, "")
	require.Empty(t, s.workers.commands)
}

// The socket refuses a request while its container is closed to it, and the
// listener keeps no connection.
func TestListenerKeepsNothing(t *testing.T) {
	_, l := newListener(t)
	var failed atomic.Int64
	var all sync.WaitGroup
	for range 64 {
		all.Add(1)
		go func() { // ends with its request
			defer all.Done()
			answer := askOnce(&shim.Ask{ID: "i", Name: "x"})
			if answer.Problem != nil && answer.Problem.Code != runtime.ProblemBusy && answer.Problem.Code != runtime.ProblemUnavailable {
				failed.Add(1)
			}
		}()
	}
	all.Wait()
	require.Zero(t, failed.Load())
	testenv.AwaitTrue(t, "the end of all connections", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.asks.mu.Lock()
		defer l.asks.mu.Unlock()
		return len(l.conns) == 0 && *l.asks.open == openAsks{}
	})
}

// Whatever a process sends, init reads at most one request of limited size from
// it, and passes none on that the server would refuse.
func FuzzReadAsk(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x2eQ{\"op\":\"ask\",\"ask\":{\"key\":\"i\",\"name\":\"claim\"}}"))
	f.Add([]byte("\xff\xff\xff\xffQ"))
	f.Add([]byte("\x00\x00\x00\x02Q{}"))
	f.Add([]byte("\x00\x00\x00\x03Qnul"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		ask, err := readAsk(bytes.NewReader(sent))
		if err != nil {
			return
		}
		a, _ := newTestAsks(5)
		a.claim.fence = 5
		if _, refused := a.begin(ask); refused == nil && ask.Invalid() != "" {
			t.Errorf("%+v was accepted", ask)
		}
	})
}
