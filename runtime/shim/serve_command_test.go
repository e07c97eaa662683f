package shim

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
)

// What a process of a command asks is for the handler of the command, until that is
// over: then no handler of it runs, and nothing more is handled.
func TestServeCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServed(t)
		require.NoError(t, s.Open(t.Context()))
		synctest.Wait()
		of := func(name string) func(context.Context, runtime.Request, func(runtime.Response)) {
			return func(ctx context.Context, r runtime.Request, respond func(runtime.Response)) {
				if r.Name == "slow" {
					<-ctx.Done()
				}
				respond(runtime.Response{Body: []byte(name)})
			}
		}
		end := s.serveCommand(t.Context(), "run", 7, of("command"))
		for _, tt := range []struct {
			ask  Ask
			want string
		}{
			{Ask{ID: "i", Name: "n", FromHook: true, RunID: "run"}, "command"},
			{Ask{ID: "i", Name: "n", RunID: "run"}, ""},
			{Ask{ID: "i", Name: "n", FromHook: true, RunID: "other"}, ""},
		} {
			answer, err := s.ask(&tt.ask)
			require.NoError(t, err)
			require.Equal(t, tt.want, string(answer.Body), "%+v", tt.ask)
			require.Equal(t, tt.want == "", answer.Problem != nil, "%+v", tt.ask)
		}
		slow := make(chan Answer, 1)
		go func() {
			answer, _ := s.ask(&Ask{ID: "i", Name: "slow", FromHook: true, RunID: "run"})
			slow <- answer
		}()
		synctest.Wait()
		end()
		<-slow
		require.Nil(t, s.servers.of("run"))
		require.NotContains(t, s.servers.byRun, "run")
		answer, err := s.ask(&Ask{ID: "i", Name: "n", FromHook: true, RunID: "run"})
		require.NoError(t, err)
		require.Equal(t, runtime.ProblemUnavailable, answer.Problem.Code)
		s.serveCommand(t.Context(), "run", 7, nil)()
		require.NoError(t, s.Close())
	})
}

// A request that was received before the end of what it is for is not handled after
// that: what a command asked is done while the command runs, or not at all.
func TestNoHandlerBeginsAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		a, end := newAskServer(t.Context(), 7, func(context.Context, runtime.Request, func(runtime.Response)) { calls++ })
		end()
		in := &Incoming{exchange: newExchange(&Conn{closed: make(chan struct{})}, 0, 0, Window), Request: Request{Ask: &Ask{ID: "i", Name: "n"}}}
		refused := a.start(in)
		synctest.Wait()
		require.Zero(t, calls)
		require.Equal(t, runtime.ProblemUnavailable, refused.Problem.Code, "the program may ask again")
	})
}

// A request for a command announces it to a container that sends requests, and to no
// other one. So does that for its outcome.
func TestCommandIsAnnounced(t *testing.T) {
	for version, announced := range map[int]bool{Version: true, RequestsVersion - 1: false} {
		got := make(chan Request, 10)
		s := scriptedSession(t, func(p *peer) {
			p.handshake("a")
			for r, ok := p.nextRequest(); ok; r, ok = p.nextRequest() {
				got <- r
				p.send(KindResponse, Response{ID: r.ID, Result: &runtime.Result{}})
			}
		})
		c, err := s.connect(t.Context())
		require.NoError(t, err)
		c.version = version
		cmd := runtime.Command{RunID: "run", Args: []string{"x"}, Fence: 7, Requests: echoBody}
		for _, call := range []func(context.Context, runtime.Command) (runtime.Result, error){s.Exec, s.WaitResult} {
			_, err = call(t.Context(), cmd)
			require.NoError(t, err)
			r := <-got
			require.Equal(t, announced, r.Requests, "version %d", version)
			require.EqualValues(t, 7, r.Fence)
		}
		cmd.Requests = nil
		_, err = s.Exec(t.Context(), cmd)
		require.NoError(t, err)
		require.False(t, (<-got).Requests)
	}
}

// Each claim has a rate of its own: what the tenant before has sent costs the next one
// no connection.
func TestServeRateOfClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServed(t)
		for fence := range int64(5) {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- s.ServeRequests(ctx, 7+fence, echoBody) }()
			synctest.Wait()
			for range int(ProgramRate.Burst) {
				_, err := s.ask(&Ask{ID: "i", Name: "n"})
				require.NoError(t, err)
			}
			require.Empty(t, ended)
			cancel()
			require.ErrorIs(t, <-ended, context.Canceled)
		}
		for fence := range int64(5) { // of flows before the claim is active
			end := s.serveCommand(t.Context(), "run", 100+fence, echoBody)
			for range int(ProgramRate.Burst) {
				_, err := s.ask(&Ask{ID: "i", Name: "n", FromHook: true, RunID: "run"})
				require.NoError(t, err)
			}
			end()
		}
	})
}

// A call of an earlier flow, one that has been cancelled, and one that ends, take
// nothing from what a later flow serves.
func TestServerOfLaterFlowIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServed(t)
		ctx, cancel := context.WithCancel(t.Context())
		ended := s.serve(ctx, echoBody) // its fence is 7
		requireServed := func(what string) {
			t.Helper()
			answer, err := s.ask(&Ask{ID: "i", Name: "n"})
			require.NoError(t, err)
			require.Nil(t, answer.Problem, what)
		}
		s.refuse = runtime.ErrStaleFence
		require.ErrorIs(t, s.ServeRequests(t.Context(), 3, echoBody), runtime.ErrStaleFence)
		s.refuse = nil
		requireServed("after one of an earlier flow")
		for _, fence := range []int64{3, 7} {
			gone, end := context.WithCancel(t.Context())
			end()
			require.Error(t, s.ServeRequests(gone, fence, echoBody))
			requireServed("after one that had ended")
		}
		later := s.serveCommand(t.Context(), "run", 9, echoBody)
		kept := s.servers.of("run")
		earlier := s.serveCommand(t.Context(), "run", 3, echoBody)
		require.Same(t, kept, s.servers.of("run"))
		earlier()
		require.Same(t, kept, s.servers.of("run"))
		later()
		require.Nil(t, s.servers.of("run"))
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		require.Nil(t, s.servers.of(ofContainer))
	})
}
