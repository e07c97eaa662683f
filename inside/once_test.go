package inside

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
)

// A request that is sent again is not done again: it gets the first response, also
// while that is not there yet. What was interrupted is done again, and so is what
// another claim sends.
func TestOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o once
		done := 0
		do := func(claim, request string, p runtime.ProblemCode) runtime.Response {
			return o.do(t.Context(), Caller{Claim: claim, Request: request}, contentOf(runtime.Request{}), func() runtime.Response {
				done++
				<-time.After(time.Second)
				if p != "" {
					return problem(p, "")
				}
				return runtime.Response{Body: []byte{byte(done)}}
			})
		}
		go do("c1", "r1", "")
		synctest.Wait()
		require.Equal(t, []byte{1}, do("c1", "r1", "").Body)
		require.Equal(t, []byte{1}, do("c1", "r1", "").Body)
		require.Equal(t, []byte{2}, do("c2", "r1", "").Body)
		require.Equal(t, runtime.ProblemCode("memory_full"), do("c1", "r2", "memory_full").Problem.Code)
		require.NotNil(t, do("c1", "r2", "").Problem, "a problem is a response")
		do("c1", "r3", runtime.ProblemUnavailable)
		require.Equal(t, []byte{5}, do("c1", "r3", "").Body)

		ctx, cancel := context.WithCancel(t.Context())
		go do("c1", "r4", "")
		synctest.Wait()
		cancel()
		require.Equal(t, runtime.ProblemUnavailable, o.do(ctx, Caller{Claim: "c1", Request: "r4"}, contentOf(runtime.Request{}), nil).Problem.Code)
		<-time.After(2 * time.Second)

		for range 3 * maxOnce {
			do("c1", string(rune('a'+done)), "")
		}
		require.LessOrEqual(t, len(o.claims["c1"]), maxOnce)
		<-time.After(2 * onceTimeout)
		do("c1", "last", "")
		require.Len(t, o.claims["c1"], 1)
		o.forget("c1")
		require.NotContains(t, o.claims, "c1")
	})
}

// A handler of a request that must be done once is called once.
func TestServiceDoesOnce(t *testing.T) {
	s := newTestService(nil)
	calls := 0
	s.requests["count"] = Request{Name: "count", Once: true, Handle: Of(func(context.Context, Caller, struct{}) (int, error) {
		calls++
		return calls, nil
	})}
	for range 3 {
		require.Equal(t, "1", string(handle(t, s, "k1", runtime.Request{ID: "r", Name: "count", Body: []byte("{}"), Fence: 5}).Body))
	}
	require.Equal(t, "2", string(handle(t, s, "k1", runtime.Request{ID: "r2", Name: "count", Body: []byte("{}"), Fence: 5}).Body))
	s.Forget("c1")
	require.Equal(t, "3", string(handle(t, s, "k1", runtime.Request{ID: "r", Name: "count", Body: []byte("{}"), Fence: 5}).Body))
}

// A request that is repeated while the first one is in progress waits for its response,
// however many others are done in the meantime.
func TestRequestInProgressIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o once
		calls := 0
		do := func(request string, d time.Duration) runtime.Response {
			return o.do(t.Context(), Caller{Claim: "c1", Request: request}, contentOf(runtime.Request{}), func() runtime.Response {
				calls++
				<-time.After(d)
				return runtime.Response{Body: []byte(request)}
			})
		}
		do("before", 0)
		go do("first", time.Second)
		synctest.Wait()
		for n := range 3 * maxOnce {
			do(fmt.Sprint("other", n), 0)
			require.LessOrEqual(t, len(o.claims["c1"]), maxOnce)
		}
		before := calls
		require.Equal(t, "first", string(do("first", time.Second).Body))
		require.Equal(t, before, calls)
		do("before", 0)
		require.Equal(t, before+1, calls, "it is not kept any more")
	})
}

// A request of a hook is done once, too, also while the first one is in progress. One
// of another hook is another one.
func TestRequestOfHookIsDoneOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestService(nil)
		var calls atomic.Int64
		s.requests["count"] = Request{Name: "count", Once: true, HooksMay: true, Handle: Of(func(context.Context, Caller, struct{}) (int64, error) {
			<-time.After(time.Second)
			return calls.Add(1), nil
		})}
		hook, other := s.OfHook("c2", "k2"), s.OfHook("c2", "k2")
		ask := func(hook runtime.RequestHandler) (body string) {
			hook(t.Context(), runtime.Request{ID: "r", Name: "count", Body: []byte("{}"), Fence: 5}, func(r runtime.Response) { body = string(r.Body) })
			return body
		}
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() { assert.Equal(t, "1", ask(hook)) })
		}
		all.Wait()
		require.Equal(t, "1", ask(hook))
		require.Equal(t, "2", ask(other))
		require.Empty(t, s.once.claims, "nothing is kept of a claim without a session")
	})
}

// A request with the ID of another one is refused: it is not done, and the response of
// the other one is not its own.
func TestIDOfAnotherRequest(t *testing.T) {
	s := newTestService(nil)
	calls := 0
	add := Of(func(_ context.Context, _ Caller, n int) (int, error) { calls += n; return calls, nil })
	s.requests["add"] = Request{Name: "add", Once: true, Handle: add}
	s.requests["add2"] = Request{Name: "add2", Once: true, Handle: add}
	ask := func(name, body string) runtime.Response {
		return handle(t, s, "k1", runtime.Request{ID: "r", Name: name, Body: []byte(body), Fence: 5})
	}
	require.Equal(t, "1", string(ask("add", "1").Body))
	for _, other := range []runtime.Response{ask("add", "2"), ask("add2", "1"), ask("add", "")} {
		require.Empty(t, other.Body)
		require.Equal(t, runtime.ProblemInvalid, other.Problem.Code)
	}
	require.Equal(t, "1", string(ask("add", "1").Body))
	require.Equal(t, 1, calls)
}

// What is kept of a claim's requests is little, whatever their bodies are: a
// problem may quote them.
func TestKeptResponsesAreShort(t *testing.T) {
	put := func(context.Context, Caller, struct{}) (string, error) { return "", nil }
	fail := func(context.Context, Caller, string) (string, error) { return "", errors.New("failed") }
	long := strings.Repeat("\u00e9", runtime.MaxRequestBody/3)
	describe := func(context.Context, error) runtime.Problem {
		return runtime.Problem{Code: "memory_full", Detail: long}
	}
	s := NewService(claims{"k1": ada}, []Request{
		{Name: "put", Handle: Of(put), Once: true}, {Name: "fail", Handle: Of(fail), Once: true},
	}, describe, slog.New(slog.DiscardHandler))
	for name, body := range map[string]string{"put": `{"` + long + `":1}`, "fail": `"x"`} {
		got := handle(t, s, "k1", runtime.Request{ID: name, Name: name, Body: []byte(body), Fence: 5})
		require.LessOrEqual(t, len(got.Problem.Detail), maxDetail, name)
		require.True(t, utf8.ValidString(got.Problem.Detail), name)
	}
	for _, a := range s.once.claims["c1"] {
		require.LessOrEqual(t, len(a.response.Problem.Detail), maxDetail, a.request)
	}
}

// A request is the same however its body is formatted, and what is no JSON is
// compared as it is.
func TestRepeatedRequestIsFormattedOtherwise(t *testing.T) {
	content := func(body string) [sha256.Size]byte {
		return contentOf(runtime.Request{Name: "memory.put", Body: []byte(body)})
	}
	require.Equal(t, content(`{"key":"a","value":1}`), content("{ \"key\": \"a\",\n\"value\": 1 }"))
	require.NotEqual(t, content(`{"key":"a","value":1}`), content(`{"key":"a","value":10}`))
	require.NotEqual(t, content(`{"key":"a b"}`), content(`{"key":"ab"}`))
	require.NotEqual(t, content(`{`), content(`{ `))
}
