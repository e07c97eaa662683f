package inside

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/release"
	"github.com/hostler/hostler/runtime"
)

// claims are records by container.
type claims map[string]claim.Claim

func (c claims) Claims(_ context.Context, f claim.Filter) ([]claim.Claim, error) {
	if f.Container == "broken" {
		return nil, errors.New("the database's address is 10.0.0.1")
	}
	found, ok := c[f.Container]
	if !ok || !slices.Contains(f.States, found.State) {
		return nil, nil
	}
	return []claim.Claim{found}, nil
}

var ada = claim.Claim{ID: "c1", Workload: "w", Tenant: "ada", Container: "k1", State: claim.Active, ContainerFence: 5}

// newTestService returns a service with the requests echo and release.
func newTestService(releases Releaser) *Service {
	type body struct{ Text string }
	echo := func(_ context.Context, c Caller, b body) (map[string]string, error) {
		switch b.Text {
		case "pending":
			return nil, ErrPending
		case "fail":
			return nil, errors.New("secret")
		case "panic":
			panic("secret")
		}
		return map[string]string{"text": b.Text, "claim": c.Claim, "request": c.Request}, nil
	}
	describe := func(context.Context, error) runtime.Problem { return runtime.Problem{Code: runtime.ProblemFailed} }
	return NewService(claims{"k1": ada, "k2": {ID: "c2", Container: "k2", State: claim.Releasing, ContainerFence: 5},
		"k4": {ID: "c4", Container: "k4", State: claim.Pending, ContainerFence: 5}},
		[]Request{{Name: "echo", Handle: Of(echo), HooksMay: true}, ReleaseRequest(releases)}, describe, slog.New(slog.DiscardHandler))
}

// handle returns the only response to a request.
func handle(t *testing.T, s *Service, container string, r runtime.Request) runtime.Response {
	t.Helper()
	var all []runtime.Response
	s.Handle(t.Context(), container, r, func(r runtime.Response) { all = append(all, r) })
	require.Len(t, all, 1)
	return all[0]
}

// A request acts for the active claim of its container, if its container had the
// claim's fence when it received the request, and is refused otherwise.
func TestRequestActsForItsClaim(t *testing.T) {
	s := newTestService(nil)
	for name, tt := range map[string]struct {
		container string
		request   runtime.Request
		body      string
		problem   runtime.ProblemCode
	}{
		"claim":             {container: "k1", request: runtime.Request{Name: "claim", Body: []byte("{}"), Fence: 5}, body: `{"claim":"c1","workload":"w","container":"k1","tenant":"ada"}`},
		"claim of a hook":   {container: "k1", request: runtime.Request{Name: "claim", Body: []byte("{}"), Fence: 5, FromHook: true}, body: `{"claim":"c1","workload":"w","container":"k1","tenant":"ada"}`},
		"echo":              {container: "k1", request: runtime.Request{ID: "r", Name: "echo", Body: []byte(`{"text":"<&>"}`), Fence: 5}, body: `{"claim":"c1","request":"r","text":"<&>"}`},
		"an earlier claim":  {container: "k1", request: runtime.Request{Name: "claim", Body: []byte("{}"), Fence: 4}, problem: runtime.ProblemNoClaim},
		"a later claim":     {container: "k1", request: runtime.Request{Name: "claim", Body: []byte("{}"), Fence: 6}, problem: runtime.ProblemNoClaim},
		"no fence":          {container: "k1", request: runtime.Request{Name: "claim", Body: []byte("{}")}, problem: runtime.ProblemNoClaim},
		"a claim that ends": {container: "k2", request: runtime.Request{Name: "claim", Body: []byte("{}"), Fence: 5}, problem: runtime.ProblemNoClaim},
		"no claim":          {container: "k3", request: runtime.Request{Name: "claim", Body: []byte("{}"), Fence: 5}, problem: runtime.ProblemNoClaim},
		"unknown":           {container: "k1", request: runtime.Request{Name: "shutdown", Fence: 5}, problem: runtime.ProblemUnsupported},
		"release of a hook": {container: "k1", request: runtime.Request{Name: "release", Body: []byte("{}"), Fence: 5, FromHook: true}, problem: runtime.ProblemDenied},
		"no body":           {container: "k1", request: runtime.Request{Name: "claim", Fence: 5}, problem: runtime.ProblemInvalid},
		"an unknown field":  {container: "k1", request: runtime.Request{Name: "claim", Body: []byte(`{"tenant":"bob"}`), Fence: 5}, problem: runtime.ProblemInvalid},
		"more than a body":  {container: "k1", request: runtime.Request{Name: "claim", Body: []byte(`{}{}`), Fence: 5}, problem: runtime.ProblemInvalid},
		"no JSON":           {container: "k1", request: runtime.Request{Name: "release", Body: []byte("\x00"), Fence: 5}, problem: runtime.ProblemInvalid},
		"in progress":       {container: "k1", request: runtime.Request{Name: "echo", Body: []byte(`{"text":"pending"}`), Fence: 5}, problem: runtime.ProblemPending},
		"an error":          {container: "k1", request: runtime.Request{Name: "echo", Body: []byte(`{"text":"fail"}`), Fence: 5}, problem: runtime.ProblemFailed},
		"a panic":           {container: "k1", request: runtime.Request{Name: "echo", Body: []byte(`{"text":"panic"}`), Fence: 5}, problem: runtime.ProblemFailed},
		"a broken database": {container: "broken", request: runtime.Request{Name: "claim", Body: []byte("{}"), Fence: 5}, problem: runtime.ProblemFailed},
	} {
		got := handle(t, s, tt.container, tt.request)
		if tt.problem != "" {
			require.NotNil(t, got.Problem, name)
			require.Equal(t, tt.problem, got.Problem.Code, name)
			require.NotContains(t, got.Problem.Detail, "10.0.0.1", name)
			require.NotContains(t, got.Problem.Detail, "secret", name)
			continue
		}
		require.Nil(t, got.Problem, name)
		require.Equal(t, tt.body, string(got.Body), name)
	}
}

// A hook may ask for its own claim, while that is pending or releasing, with its
// fence, and only for what hooks may. Its other processes may not.
func TestHookAsksForItsClaim(t *testing.T) {
	s := newTestService(nil)
	for name, tt := range map[string]struct {
		claim, container, request string
		fence                     int64
		problem                   runtime.ProblemCode
	}{
		"releasing":       {claim: "c2", container: "k2", request: "claim", fence: 5},
		"pending":         {claim: "c4", container: "k4", request: "claim", fence: 5},
		"active":          {claim: "c1", container: "k1", request: "claim", fence: 5, problem: runtime.ProblemNoClaim},
		"another claim":   {claim: "c1", container: "k2", request: "claim", fence: 5, problem: runtime.ProblemNoClaim},
		"an earlier flow": {claim: "c2", container: "k2", request: "claim", fence: 4, problem: runtime.ProblemNoClaim},
		"release":         {claim: "c2", container: "k2", request: "release", fence: 5, problem: runtime.ProblemDenied},
	} {
		var got []runtime.Response
		s.OfHook(tt.claim, tt.container)(t.Context(), runtime.Request{ID: "r", Name: tt.request, Body: []byte("{}"), Fence: tt.fence},
			func(r runtime.Response) { got = append(got, r) })
		require.Len(t, got, 1, name)
		if tt.problem != "" {
			require.Equal(t, tt.problem, got[0].Problem.Code, name)
			continue
		}
		require.Nil(t, got[0].Problem, name)
		require.Contains(t, string(got[0].Body), `"claim":"`+tt.claim+`"`, name)
	}
}

// A request that is interrupted is one that the program sends again.
func TestInterruptedRequestIsSentAgain(t *testing.T) {
	s := newTestService(nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var got runtime.Response
	s.Handle(ctx, "k1", runtime.Request{Name: "echo", Body: []byte(`{"text":"fail"}`), Fence: 5}, func(r runtime.Response) { got = r })
	require.Equal(t, runtime.ProblemUnavailable, got.Problem.Code)
}

// releaser is a release service.
type releaser struct {
	err      error
	joined   bool // another call has started the release
	answered func() bool
	t        *testing.T
}

func (r *releaser) Release(_ context.Context, id string, q release.Request) (claim.Claim, error) {
	require.Equal(r.t, "c1", id)
	if r.err != nil && !r.joined {
		return claim.Claim{}, r.err
	}
	if !r.joined {
		q.Releasing()
		require.True(r.t, r.answered(), "the container may end from here on")
	}
	return claim.Claim{}, r.err
}

// A release is answered once it is on record, once, and before the container ends.
func TestReleaseAnswersBeforeItEnds(t *testing.T) {
	for name, r := range map[string]*releaser{
		"released": {}, "another call": {joined: true}, "not recorded": {err: errors.New("the database is full")},
		"fails later": {joined: true, err: errors.New("the bucket is full")},
	} {
		var all []runtime.Response
		r.t, r.answered = t, func() bool { return len(all) > 0 }
		newTestService(r).Handle(t.Context(), "k1", runtime.Request{Name: "release", Body: []byte("{}"), Fence: 5},
			func(got runtime.Response) { all = append(all, got) })
		require.Len(t, all, 1, name)
		require.Equal(t, r.err != nil, all[0].Problem != nil, name)
	}
}
