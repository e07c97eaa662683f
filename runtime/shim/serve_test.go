package shim

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
)

// served is a session whose other end is a program that the test plays.
type served struct {
	*Session
	t       *testing.T
	version int
	refuse  error // of OpServe
	mute    bool  // OpServe is not answered
	dialed  atomic.Int64
	program atomic.Pointer[Conn]
	fences  chan int64 // of OpServe
}

func newServed(t *testing.T) *served {
	t.Helper()
	s := &served{t: t, version: Version, fences: make(chan int64, 100)}
	s.Session = newSession("c", Options{Secret: secret, CheckRunning: alwaysRunning, Dial: s.connectProgram})
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func (s *served) connectProgram(context.Context, string) (io.ReadWriteCloser, int, error) {
	s.dialed.Add(1)
	ours, theirs := net.Pipe()
	go func() { // ends with the connection
		channel, err := ProgramHandshake(theirs, DeriveKey(secret, "c"), HandshakeReply{BootID: "a", Main: MainRunning})
		if err != nil {
			return
		}
		conn := NewConn(theirs, channel, s.handle, nil)
		s.program.Store(conn)
		conn.Run()
	}()
	return ours, s.version, nil
}

func (s *served) handle(in *Incoming) error {
	s.fences <- in.Request.Fence
	if s.mute {
		return nil
	}
	var response Response
	if s.refuse != nil {
		response.Error = NewWireError(s.refuse)
	}
	go func() { _ = in.Respond(response) }()
	return nil
}

// serve calls ServeRequests, and returns its error when it returns.
func (s *served) serve(ctx context.Context, handle runtime.RequestHandler) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- s.ServeRequests(ctx, 7, handle) }()
	synctest.Wait()
	return ended
}

// ask sends a request and returns the answer.
func (s *served) ask(ask *Ask) (Answer, error) {
	out, err := s.program.Load().Call(Request{Op: OpAsk, Ask: ask, Fence: 7})
	if err != nil {
		return Answer{}, err
	}
	return out.Answer(AskTimeout)
}

func echoBody(_ context.Context, r runtime.Request, respond func(runtime.Response)) {
	respond(runtime.Response{Body: r.Body})
}

// A container of an older protocol is not asked to send requests.
func TestServeNeedsVersion(t *testing.T) {
	s := newServed(t)
	s.Session = newSession("c", Options{Secret: secret, CheckRunning: alwaysRunning, Dial: func(context.Context, string) (io.ReadWriteCloser, int, error) {
		return nil, 0, runtime.ErrTooOld
	}})
	require.ErrorIs(t, s.ServeRequests(t.Context(), 7, echoBody), runtime.ErrTooOld)
	c := &sessionConn{Conn: &Conn{closed: make(chan struct{})}, version: RequestsVersion - 1}
	s.Session.conn = c
	require.ErrorIs(t, s.ServeRequests(t.Context(), 7, echoBody), runtime.ErrUnsupported)
	s.Session.conn = nil
}

// A request is handled as it was sent, and the server confirms repeatedly that it
// serves the container.
func TestServeRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServed(t)
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan runtime.Request, 1)
		ended := s.serve(ctx, func(_ context.Context, r runtime.Request, respond func(runtime.Response)) {
			got <- r
			respond(runtime.Response{Body: []byte("yes")})
			respond(runtime.Response{Body: []byte("only the first counts")})
		})
		require.EqualValues(t, 7, <-s.fences)
		answer, err := s.ask(&Ask{ID: "i", Name: "n", Body: []byte("b"), FromHook: true})
		require.NoError(t, err)
		require.Equal(t, Answer{Body: []byte("yes")}, answer)
		require.Equal(t, runtime.Request{ID: "i", Name: "n", Body: []byte("b"), Fence: 7, FromHook: true}, <-got)
		<-time.After(3*serveInterval + time.Second)
		require.Len(t, s.fences, 3)
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		answer, err = s.ask(&Ask{ID: "i", Name: "n"})
		require.NoError(t, err)
		require.Equal(t, runtime.ProblemUnavailable, answer.Problem.Code, "no one serves it")
	})
}

// The call ends when the connection is lost, when the container has another
// claim, and when it does not answer: then the connection is closed. None of it
// counts against the container.
func TestServeEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServed(t)
		ended := s.serve(t.Context(), echoBody)
		s.program.Load().Close()
		require.ErrorIs(t, <-ended, runtime.ErrUnavailable)

		s.refuse = runtime.ErrStaleFence
		require.ErrorIs(t, <-s.serve(t.Context(), echoBody), runtime.ErrStaleFence)
		require.Nil(t, s.servers.of(ofContainer))

		s.refuse, s.mute = nil, true
		for range 2 * int(DefaultUnresponsiveTimeout/serveTimeout) {
			ended = s.serve(t.Context(), echoBody)
			require.ErrorIs(t, <-ended, runtime.ErrUnavailable)
		}
		require.NoError(t, s.responsiveness.check())
		require.Greater(t, s.dialed.Load(), int64(2), "a silent connection is replaced")
	})
}

// A session that cannot be opened for requests does not taint the container: no
// flow needs it now, and it may hold the last copy of a state.
func TestServeTaintsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSession("c", Options{Secret: secret, CheckRunning: alwaysRunning, Dial: func(context.Context, string) (io.ReadWriteCloser, int, error) {
			return nil, 0, runtime.ErrUnresponsive
		}})
		for range 10 {
			require.ErrorIs(t, s.ServeRequests(t.Context(), 7, echoBody), runtime.ErrUnresponsive)
			<-time.After(DefaultUnresponsiveTimeout)
		}
		require.NoError(t, s.responsiveness.taintedErr())
	})
}

// What an intact program does not send ends the connection, before a handler is
// called.
func TestServeRefusesRogueProgram(t *testing.T) {
	valid := &Ask{ID: "i", Name: "n"}
	for name, r := range map[string]Request{
		"one-way":           {Op: OpAsk, Ask: valid},
		"another operation": {ID: 2, Op: OpRun, Ask: valid},
		"streams":           {ID: 2, Op: OpAsk, Ask: valid, Streams: 1},
		"a command":         {ID: 2, Op: OpAsk, Ask: valid, Run: &Run{}},
		"an environment":    {ID: 2, Op: OpAsk, Ask: valid, Environment: map[string]string{"a": ""}},
		"paths":             {ID: 2, Op: OpAsk, Ask: valid, Paths: []string{""}},
		"of a command":      {ID: 2, Op: OpAsk, Ask: valid, Command: &CommandRequest{}},
		"no request":        {ID: 2, Op: OpAsk},
		"no ID":             {ID: 2, Op: OpAsk, Ask: &Ask{Name: "n"}},
		"control character": {ID: 2, Op: OpAsk, Ask: &Ask{ID: "i", Name: "n\n"}},
		"a long name":       {ID: 2, Op: OpAsk, Ask: &Ask{ID: "i", Name: strings.Repeat("n", runtime.MaxRequestName+1)}},
		"a large body":      {ID: 2, Op: OpAsk, Ask: &Ask{ID: "i", Name: "n", Body: make([]byte, runtime.MaxRequestBody+1)}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServed(t)
				ended := s.serve(t.Context(), func(context.Context, runtime.Request, func(runtime.Response)) {
					t.Error("a handler was called")
				})
				program := s.program.Load()
				program.writeMu.Lock()
				_ = program.write(KindRequest, r)
				program.writeMu.Unlock()
				require.ErrorIs(t, <-ended, runtime.ErrUnavailable)
			})
		})
	}
}

// The largest request fits.
func TestLargestRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServed(t)
		ended := s.serve(t.Context(), echoBody)
		body := make([]byte, runtime.MaxRequestBody)
		answer, err := s.ask(&Ask{ID: strings.Repeat("i", runtime.MaxRequestID), Name: strings.Repeat("n", runtime.MaxRequestName), Body: body, FromHook: true})
		require.NoError(t, err)
		require.Equal(t, body, answer.Body)
		require.Empty(t, ended)
	})
}

// A program that sends more than an intact one loses the connection, and gains
// nothing by another one. One at the program's own rate never does.
func TestServeRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServed(t)
		ended := s.serve(t.Context(), echoBody)
		intact := NewBucket(ProgramRate)
		for range 2000 {
			if !intact.Take(time.Now()) {
				<-time.After(10 * time.Millisecond)
				continue
			}
			_, err := s.ask(&Ask{ID: "i", Name: "n"})
			require.NoError(t, err)
		}
		require.Empty(t, ended)
		sent := 0
		for range 2 {
			for err := error(nil); err == nil; {
				if _, err = s.ask(&Ask{ID: "i", Name: "n"}); err == nil {
					sent++
				}
			}
			require.ErrorIs(t, <-ended, runtime.ErrUnavailable)
			ended = s.serve(t.Context(), echoBody)
		}
		require.LessOrEqual(t, sent, int(serverRate.Burst))
		<-time.After(time.Second)
		_, err := s.ask(&Ask{ID: "i", Name: "n"})
		require.NoError(t, err, "it is served again")
	})
}

// Handlers are as many as a container may have, and end with the connection. The
// call returns after them.
func TestServeBoundsHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServed(t)
		var running atomic.Int64
		release := make(chan struct{})
		ended := s.serve(t.Context(), func(ctx context.Context, _ runtime.Request, respond func(runtime.Response)) {
			running.Add(1)
			defer running.Add(-1)
			respond(runtime.Response{}) // and continues
			<-ctx.Done()
			<-release
		})
		for range runtime.MaxRequests {
			answer, err := s.ask(&Ask{ID: "i", Name: "n"})
			require.NoError(t, err)
			require.Nil(t, answer.Problem)
		}
		answer, err := s.ask(&Ask{ID: "i", Name: "n"})
		require.NoError(t, err)
		require.Equal(t, runtime.ProblemBusy, answer.Problem.Code)
		require.EqualValues(t, runtime.MaxRequests, running.Load())
		s.program.Load().Close()
		synctest.Wait()
		require.Empty(t, ended, "handlers are running")
		close(release)
		require.ErrorIs(t, <-ended, runtime.ErrUnavailable)
		require.Zero(t, running.Load())
	})
}

// A handler that does not respond in time is interrupted, and the program gets an
// answer. A response that is too large is a problem.
func TestServeHandlerTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServed(t)
		s.serve(t.Context(), func(ctx context.Context, r runtime.Request, respond func(runtime.Response)) {
			if r.Name == "large" {
				respond(runtime.Response{Body: make([]byte, runtime.MaxRequestBody+1)})
				return
			}
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
				t.Error(context.Cause(ctx))
			}
		})
		start := time.Now()
		answer, err := s.ask(&Ask{ID: "i", Name: "n"})
		require.NoError(t, err)
		require.Equal(t, runtime.ProblemFailed, answer.Problem.Code)
		require.Equal(t, handlerTimeout, time.Since(start))
		answer, err = s.ask(&Ask{ID: "i", Name: "large"})
		require.NoError(t, err)
		require.Equal(t, runtime.ProblemFailed, answer.Problem.Code)
		require.Empty(t, answer.Body)
	})
}

// A header alone allocates little, whatever length it has.
func TestBodyIsHeldAsItArrives(t *testing.T) {
	for _, size := range []int{0, 1, bodyChunk, bodyChunk + 1, 5 * bodyChunk, MaxFrame} {
		body, err := readBody(strings.NewReader(strings.Repeat("x", size)), size)
		require.NoError(t, err)
		require.Len(t, body, size)
		require.Equal(t, strings.Repeat("x", size), string(body))
	}
	_, err := readBody(strings.NewReader("x"), MaxFrame)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	allocated := testing.AllocsPerRun(10, func() { _, _ = readBody(strings.NewReader("x"), MaxFrame) })
	require.Less(t, allocated, float64(5))
	reader := &countingReader{}
	_, _ = readBody(reader, MaxFrame)
	require.LessOrEqual(t, reader.largest, bodyChunk, "before any byte has arrived")
}

// countingReader records the largest read before it ends.
type countingReader struct{ largest int }

func (r *countingReader) Read(p []byte) (int, error) {
	r.largest = max(r.largest, len(p))
	return 0, io.EOF
}

// Whatever frames come from a container, a handler gets only requests within the
// limits, at most as many at once as a container may have, and the server leaks no
// goroutine.
func FuzzServe(f *testing.F) {
	f.Add([]byte("\x00\x35{\"id\":2,\"op\":\"ask\",\"ask\":{\"key\":\"i\",\"name\":\"n\"}}"))
	f.Add([]byte("\x00\x44{\"id\":2,\"op\":\"ask\",\"fence\":7,\"ask\":{\"key\":\"i\",\"name\":\"n\",\"body\":\"e30=\"}}\x02\x08{\"id\":2}"))
	f.Add([]byte("\x00\x10{\"op\":\"outcome\"}\x01\x08{\"id\":3}\x02\x22{\"id\":3,\"answer\":{\"problem\":null}}"))
	f.Add([]byte("\x00\x3b{\"id\":4,\"op\":\"ask\",\"streams\":1,\"ask\":{\"key\":\"i\",\"name\":\"n\"}}"))
	f.Fuzz(func(t *testing.T, script []byte) {
		synctest.Test(t, func(t *testing.T) { playToServer(t, script) })
	})
}

// playToServer sends a script, as playScript does, to a server that serves requests.
func playToServer(t *testing.T, script []byte) {
	s := newServed(t)
	var running atomic.Int64
	ended := s.serve(t.Context(), func(ctx context.Context, r runtime.Request, respond func(runtime.Response)) {
		if running.Add(1) > runtime.MaxRequests {
			t.Error("too many handlers")
		}
		defer running.Add(-1)
		if (&Ask{ID: r.ID, Name: r.Name, Body: r.Body, RunID: r.RunID}).Invalid() != "" {
			t.Errorf("a handler got %+v", r)
		}
		if len(r.Body)%2 == 0 {
			respond(runtime.Response{Body: r.Body})
		}
		<-ctx.Done()
	})
	program := s.program.Load()
	for len(script) > 2 {
		kind, size := Kind(fuzzKinds[int(script[0])%len(fuzzKinds)]), min(int(script[1]), len(script)-2)
		body := script[2 : 2+size]
		script = script[2+size:]
		program.writeMu.Lock()
		if streamKinds[kind] && len(body) >= streamHeaderSize {
			_ = program.channel.writeRaw(kind, 1, body[8], body[streamHeaderSize:])
		} else {
			_ = program.channel.Write(kind, jsonBody(body)) // a body that is not JSON is not sent
		}
		program.writeMu.Unlock()
	}
	program.Close()
	require.Error(t, <-ended)
	if running.Load() != 0 {
		t.Error("handlers are running")
	}
}
