package main

import (
	"encoding/json"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

// connPair returns both ends of a session. The server answers requests with their
// name, and leaves those named "silent" unanswered.
func connPair(t *testing.T) (program, server *shim.Conn) {
	t.Helper()
	ours, theirs := net.Pipe()
	key := []byte("key")
	type end struct {
		channel *shim.Channel
		err     error
	}
	done := make(chan end, 1)
	go func() { // ends with the handshake
		c, err := shim.ProgramHandshake(theirs, key, shim.HandshakeReply{BootID: "a"})
		done <- end{c, err}
	}()
	s, _, err := shim.ServerHandshake(ours, key, shim.Version)
	require.NoError(t, err)
	p := <-done
	require.NoError(t, p.err)
	program = shim.NewConn(theirs, p.channel, nil, nil)
	server = shim.NewConn(ours, s, func(in *shim.Incoming) error {
		if in.Request.Ask.Name != "silent" {
			go func() { _ = in.Respond(shim.Response{Answer: &shim.Answer{Body: []byte(in.Request.Ask.Name)}}) }()
		}
		return nil
	}, nil)
	go program.Run() // both end with the connection
	go server.Run()
	t.Cleanup(func() { program.Close() })
	return program, server
}

func newTestAsks(fence int64) (*asks, *atomic.Int64) {
	admitted := new(atomic.Int64)
	admitted.Store(fence)
	return newAsks(admitted), admitted
}

// tryAsk sends a request as the listener does.
func tryAsk(a *asks, name string) shim.Answer {
	ask := &shim.Ask{ID: "i", Name: name}
	b, refused := a.begin(ask)
	if refused != nil {
		return *refused
	}
	defer b.end()
	return a.send(ask, b)
}

// A request has the fence of the claim that its container has when the request
// is received. Without a claim, and after a call of a later flow, it is refused.
func TestAskHasFenceOfClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, admitted := newTestAsks(5)
		require.Equal(t, runtime.ProblemNoClaim, tryAsk(a, "x").Problem.Code)
		program, _ := connPair(t)
		a.serve(program, 5)
		require.Equal(t, "x", string(tryAsk(a, "x").Body))
		b, refused := a.begin(&shim.Ask{ID: "i", Name: "late"})
		require.Nil(t, refused)
		require.EqualValues(t, 5, b.fence)
		admitted.Store(6)
		require.Equal(t, runtime.ProblemNoClaim, tryAsk(a, "x").Problem.Code)
		a.serve(program, 6)
		require.Equal(t, "x", string(tryAsk(a, "x").Body))
		require.Equal(t, runtime.ProblemUnavailable, a.send(&shim.Ask{ID: "i", Name: "late"}, b).Problem.Code, "on no session of the next claim")
		b.end()
		require.Zero(t, *a.open)
	})
}

// While the claim is not active, only the processes of a command that a server serves
// may ask, with the fence of its flow. Nothing is sent for it when it is over, or
// when a later flow has begun.
func TestAskOfCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, admitted := newTestAsks(5)
		first, _ := connPair(t)
		a.serveCommand(&run{id: "r1"}, first, 5)
		ofHook := func(id string) *shim.Ask { return &shim.Ask{ID: "i", Name: "x", FromHook: true, RunID: id} }
		for _, other := range []*shim.Ask{ofHook("r2"), ofHook(""), {ID: "i", Name: "x"}, {ID: "i", Name: "x", RunID: "r1"}} {
			_, refused := a.begin(other)
			require.Equal(t, runtime.ProblemNoClaim, refused.Problem.Code, "%+v", other)
		}
		b, refused := a.begin(ofHook("r1"))
		require.Nil(t, refused)
		require.Equal(t, "x", string(a.send(ofHook("r1"), b).Body))

		// Another server resumes the flow.
		admitted.Store(6)
		_, refused = a.begin(ofHook("r1"))
		require.Equal(t, runtime.ProblemNoClaim, refused.Problem.Code)
		r := &run{id: "r1"}
		second, _ := connPair(t)
		a.serveCommand(r, second, 6)
		require.Equal(t, runtime.ProblemUnavailable, a.send(ofHook("r1"), b).Problem.Code, "it has the fence of the earlier flow")
		b, refused = a.begin(ofHook("r1"))
		require.Nil(t, refused)

		second.Close()
		time.AfterFunc(serverWait/2, func() { a.endCommand(r) })
		start := time.Now()
		require.Equal(t, runtime.ProblemUnavailable, a.send(ofHook("r1"), b).Problem.Code)
		require.Equal(t, serverWait/2, time.Since(start), "nothing is sent for a command that is over")
		a.serve(first, 6)
		require.Equal(t, runtime.ProblemUnavailable, a.send(ofHook("r1"), b).Problem.Code, "nor later, when the claim is active")
		a.serveCommand(r, first, 6)
		require.Empty(t, a.commands)
	})
}

// Without a session a request waits for one. A lost one is replaced by another
// that serves the same claim.
func TestAskWaitsForServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := newTestAsks(5)
		first, _ := connPair(t)
		second, _ := connPair(t)
		a.serve(first, 5)
		a.serve(second, 5)
		second.Close()
		require.Equal(t, "x", string(tryAsk(a, "x").Body), "the earlier session still serves")
		first.Close()
		start := time.Now()
		require.Equal(t, runtime.ProblemUnavailable, tryAsk(a, "x").Problem.Code)
		require.Equal(t, serverWait, time.Since(start))
		third, _ := connPair(t)
		time.AfterFunc(serverWait/2, func() { a.serve(third, 5) })
		require.Equal(t, "x", string(tryAsk(a, "x").Body))
		for range 3 * maxServers {
			c, _ := connPair(t)
			a.serve(c, 5)
		}
		require.Len(t, a.claim.servers, maxServers)
	})
}

// A session on which nothing is answered is closed. A request that is lost with
// its session is one that the process sends again.
func TestAskWithoutAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := newTestAsks(5)
		program, _ := connPair(t)
		a.serve(program, 5)
		start := time.Now()
		require.Equal(t, runtime.ProblemUnavailable, tryAsk(a, "silent").Problem.Code)
		require.Equal(t, shim.AskTimeout, time.Since(start))
		require.Error(t, program.Err())
		program, _ = connPair(t)
		a.serve(program, 5)
		time.AfterFunc(time.Second, func() { program.Close() })
		start = time.Now()
		require.Equal(t, runtime.ProblemUnavailable, tryAsk(a, "silent").Problem.Code)
		require.Equal(t, time.Second, time.Since(start))
	})
}

// Requests are bounded, those that may take long apart from the others, and so is
// their rate. Only the rate counts those of processes that have ended as well: a
// tenant whose main process is restarted again and again sends no more than another.
func TestAskLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := newTestAsks(5)
		program, _ := connPair(t)
		a.serve(program, 5)
		begin := func(name string, n int) {
			for range n {
				_, refused := a.begin(&shim.Ask{ID: "i", Name: name})
				require.Nil(t, refused, name)
			}
			_, refused := a.begin(&shim.Ask{ID: "i", Name: name})
			require.Equal(t, runtime.ProblemBusy, refused.Problem.Code, name)
		}
		begin("wait", maxOpenWaits)
		begin("x", maxOpenOthers)
		<-time.After(time.Minute)
		a.reset()
		begin("wait", maxOpenWaits)
		<-time.After(time.Minute)
		busy := 0
		for range 1000 {
			a.reset()
			if answer := tryAsk(a, "x"); answer.Problem != nil {
				require.Equal(t, runtime.ProblemBusy, answer.Problem.Code)
				busy++
			}
		}
		require.Equal(t, 1000-int(shim.ProgramRate.Burst), busy)
		a.serve(program, 5)
		require.NotNil(t, tryAsk(a, "x").Problem, "it is the same claim")
		a.admitted.Store(6)
		a.serve(program, 6)
		require.Nil(t, tryAsk(a, "x").Problem, "nothing of that counts for the next claim")
		for tryAsk(a, "x").Problem == nil {
		}
		<-time.After(time.Second)
		require.Nil(t, tryAsk(a, "x").Problem)
	})
}

// While only a hook may ask, all of the claim's requests are the hook's: what others
// ask for is refused, however often, and none of it counts.
func TestRefusedAsksDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, admitted := newTestAsks(5)
		program, _ := connPair(t)
		a.serve(program, 5)
		for tryAsk(a, "x").Problem == nil { // the claim is active
			a.reset()
		}
		r := &run{id: "hook"}
		admitted.Store(6) // it is released
		a.serveCommand(r, program, 6)
		defer a.endCommand(r)
		sent := 0
		for range 1000 {
			require.Equal(t, runtime.ProblemNoClaim, tryAsk(a, "x").Problem.Code)
			b, refused := a.begin(&shim.Ask{ID: "i", Name: "x", FromHook: true, RunID: r.id})
			if refused == nil {
				b.end()
				sent++
				continue
			}
			require.Equal(t, runtime.ProblemBusy, refused.Problem.Code)
		}
		require.EqualValues(t, shim.ProgramRate.Burst, sent)
	})
}

// What may take long in the program is what the server's table has as such.
func TestAskCommands(t *testing.T) {
	names := map[string]bool{}
	for _, c := range askCommands() {
		require.False(t, names[c.name], "twice: %s", c.name)
		names[c.name] = true
		require.Equal(t, longAsks[c.request], c.long, c.name)
		require.Empty(t, (&shim.Ask{ID: "i", Name: c.request}).Invalid(), c.name)
		require.Contains(t, askHelp(), c.usage())
	}
	require.True(t, json.Valid([]byte(`{}`)))
}
