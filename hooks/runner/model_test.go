package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/variables"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/workload"
)

// receiver is an executor of requests that answers with results in order, and
// with the last one after that.
type receiver struct {
	results  []Result
	attempts []Attempt
}

func (x *receiver) Execute(_ context.Context, a Attempt) Result {
	x.attempts = append(x.attempts, a)
	return x.results[min(len(x.attempts), len(x.results))-1]
}

func (x *receiver) WaitResult(context.Context, Attempt) Result {
	return Result{State: hooks.Unknown, Gone: true}
}

func (x *receiver) Ending(hooks.Run) Ending { return Ending{MayRetry: true, MayContinue: true} }

// template returns a parsed template.
func template(t *testing.T, text string) variables.Template {
	t.Helper()
	parsed, err := variables.ParseTemplate(text)
	require.NoError(t, err)
	return parsed
}

func condition(t *testing.T, text string) variables.Condition {
	t.Helper()
	parsed, err := variables.ParseCondition(text)
	require.NoError(t, err)
	return parsed
}

// newRequest returns a hook that sends a request.
func newRequest(t *testing.T, name, body string) hooks.Hook {
	b := template(t, body)
	return hooks.Hook{Name: name, OnError: hooks.Fail, Action: hooks.Request{Method: "POST", Body: &b}}
}

// fire fires p with an executor of requests and one of commands that succeed.
func fire(t *testing.T, x *receiver, rec *fakeRecorder, p hooks.Point, s Subject, state runtime.State, hs ...hooks.Hook) (Outcome, error) {
	commands := &scriptedRuntime{results: map[string][]scriptedResult{"ok": {exit0}, "stop": {{res: runtime.Result{ExitCode: 75}}}}}
	r := New(&stubRuntime{status: runtime.Status{State: state}}, rec, Executors{
		hooks.KindHTTP: x, hooks.KindCommand: NewCommandExecutor(commands),
	}, nil)
	return r.Fire(t.Context(), p, &workload.Workload{
		Name: "Web", Image: "web:1", Environment: map[string]string{"REGION": "eu", "IMAGE": "mine"}, Hooks: map[hooks.Point][]hooks.Hook{p: hs},
	}, s)
}

// Where the container has exited, commands are skipped and requests are sent.
func TestRequestsOfStoppedContainer(t *testing.T) {
	x, rec := &receiver{results: []Result{{State: hooks.Succeeded}}}, &fakeRecorder{}
	out, err := fire(t, x, rec, hooks.PreDestroy, Subject{Container: "k", Protocol: 3}, runtime.Exited,
		newHook("ok", hooks.Fail, 0), newRequest(t, "deregister", "{}"))
	require.NoError(t, err)
	require.Equal(t, []string{"skip ok.1 skipped", "start deregister.1 running", "end deregister.1 succeeded"}, rec.trace)
	require.Equal(t, []string{"pre_destroy did not run: the container is not running"}, out.Warnings)
	require.Empty(t, out.Tainted)
}

// A point with requests only does not query the engine, and a request whose
// outcome is unknown leaves nothing in the container.
func TestRequestsNeedNoEngine(t *testing.T) {
	x, rec := &receiver{results: []Result{{State: hooks.Unknown}}}, &fakeRecorder{}
	r := New(nil, rec, Executors{hooks.KindHTTP: x}, nil)
	h := newRequest(t, "audit", "{}")
	h.OnError = hooks.Continue
	out, err := r.Fire(t.Context(), hooks.PreDestroy, &workload.Workload{Hooks: map[hooks.Point][]hooks.Hook{hooks.PreDestroy: {h}}}, Subject{Container: "k"})
	require.NoError(t, err)
	require.Empty(t, out.Tainted)
	require.Len(t, out.Warnings, 1)
}

// A disabled hook leaves no record; one whose condition is false is skipped.
func TestEnabledAndCondition(t *testing.T) {
	x, rec := &receiver{results: []Result{{State: hooks.Succeeded}}}, &fakeRecorder{}
	off, never, always := newRequest(t, "off", ""), newRequest(t, "never", ""), newRequest(t, "always", "")
	off.Disabled = true
	never.Condition = condition(t, "CLAIM_SOURCE == recycled")
	always.Condition = condition(t, "CLAIM_SOURCE == fresh && POINT != pre_release")
	out, err := fire(t, x, rec, hooks.PostClaim, Subject{Container: "k", Source: "fresh", NoPriorRuns: true}, runtime.Running, off, never, always)
	require.NoError(t, err)
	require.Equal(t, []string{"skip never.1 skipped", "start always.1 running", "end always.1 succeeded"}, rec.trace)
	require.Equal(t, "its condition is false: CLAIM_SOURCE == recycled", out.Runs[0].Error)
	require.Empty(t, out.Warnings)
}

// A hook that stops the point ends it as a success: by its exit code or by its
// response. So it does when the point is resumed.
func TestStop(t *testing.T) {
	x, rec := &receiver{results: []Result{{State: hooks.Succeeded, Stop: true}}}, &fakeRecorder{}
	stop := newHook("stop", hooks.Fail, 0)
	stop.StopOn = []int{75}
	out, err := fire(t, x, rec, hooks.PostClaim, Subject{Container: "k", NoPriorRuns: true}, runtime.Running, stop, newHook("ok", hooks.Fail, 0))
	require.NoError(t, err)
	require.Equal(t, []string{"start stop.1 running", "end stop.1 succeeded", "skip ok.1 skipped"}, rec.trace)
	require.True(t, out.Runs[0].Stopped)
	require.Equal(t, 75, *out.Runs[0].ExitCode)
	require.Equal(t, `hook "stop" stopped the point`, out.Runs[1].Error)
	require.Empty(t, out.Warnings)

	prior := out.Runs[:1]
	again := &fakeRecorder{prior: prior}
	_, err = fire(t, x, again, hooks.PostClaim, Subject{Container: "k"}, runtime.Running, stop, newHook("ok", hooks.Fail, 0))
	require.NoError(t, err)
	require.Equal(t, []string{"skip ok.1 skipped"}, again.trace)

	byResponse := &fakeRecorder{}
	_, err = fire(t, x, byResponse, hooks.PostClaim, Subject{Container: "k", NoPriorRuns: true}, runtime.Running, newRequest(t, "ask", ""), newHook("ok", hooks.Fail, 0))
	require.NoError(t, err)
	require.Equal(t, []string{"start ask.1 running", "end ask.1 succeeded", "skip ok.1 skipped"}, byResponse.trace)

	// Another exit code, and a failed response, fail as ever.
	stop.StopOn = []int{76}
	_, err = fire(t, x, &fakeRecorder{}, hooks.PostClaim, Subject{Container: "k", NoPriorRuns: true}, runtime.Running, stop)
	require.Error(t, err)
	x.results = []Result{{State: hooks.Failed, Stop: true}}
	_, err = fire(t, x, &fakeRecorder{}, hooks.PostClaim, Subject{Container: "k", NoPriorRuns: true}, runtime.Running, newRequest(t, "ask", ""))
	require.Error(t, err)
}

// What a hook captured is a variable of those after it, also when the point is
// resumed. It is untrusted, and never shadows a variable of Hostler.
func TestCaptured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		values := map[string]string{"REGISTRATION_ID": "r1", "TENANT_ID": "mallory"}
		x, rec := &receiver{results: []Result{{State: hooks.Succeeded, Captured: values}}}, &fakeRecorder{}
		register, use := newRequest(t, "register", ""), newRequest(t, "use", "${REGISTRATION_ID} ${TENANT_ID} ${REGION} ${IMAGE}")
		_, err := fire(t, x, rec, hooks.PostClaim, Subject{Container: "k", Claim: "c", Tenant: "ann", NoPriorRuns: true}, runtime.Running, register, use)
		require.NoError(t, err)
		check := func(a Attempt) {
			for name, want := range map[string]variables.Value{
				"REGISTRATION_ID": {Text: "r1", Class: variables.Untrusted},
				"TENANT_ID":       {Text: "ann", Class: variables.Trusted},
				"REGION":          {Text: "eu", Class: variables.Configured},
				"IMAGE":           {Text: "web:1", Class: variables.Trusted},
			} {
				got, ok := a.Lookup(name)
				require.True(t, ok, name)
				require.Equal(t, want, got, name)
			}
			_, ok := a.Lookup("NOTHING")
			require.False(t, ok)
		}
		check(x.attempts[1])

		// A later point of the claim finds them, one of another claim does not.
		rec.prior = []hooks.Run{{ID: "a", Claim: "c", Point: hooks.PostClaim, State: hooks.Succeeded, Values: values}}
		_, err = fire(t, x, rec, hooks.PreRelease, Subject{Container: "k", Claim: "c", Tenant: "ann", NoPriorRuns: true}, runtime.Running, use)
		require.NoError(t, err)
		check(x.attempts[2])
		_, err = fire(t, x, rec, hooks.PreRelease, Subject{Container: "k", Claim: "d", NoPriorRuns: true}, runtime.Running, use)
		require.NoError(t, err)
		_, ok := x.attempts[3].Lookup("REGISTRATION_ID")
		require.False(t, ok)
	})
}

// Of a container that has had many claims, the values of this one are read, and
// those of none.
func TestCapturedIsBounded(t *testing.T) {
	rec := &fakeRecorder{}
	for i := range 1000 {
		rec.prior = append(rec.prior, hooks.Run{ID: fmt.Sprint(i), Claim: fmt.Sprint("c", i), State: hooks.Succeeded, Values: map[string]string{"ID": fmt.Sprint(i)}})
	}
	rec.prior = append(rec.prior, hooks.Run{ID: "k", State: hooks.Succeeded, Values: map[string]string{"ID": "none", "KEY": "of the container"}})
	for claim, want := range map[string][]string{"": {"none", "of the container"}, "c7": {"7", "of the container"}, "d": {"none", "of the container"}} {
		rec.read = 0
		src, err := New(nil, rec, nil, nil).source(t.Context(), []hooks.Hook{newRequest(t, "use", "${ID} ${KEY}")}, Subject{Container: "k", Claim: claim})
		require.NoError(t, err)
		require.LessOrEqual(t, rec.read, 2, claim)
		for i, name := range []string{"ID", "KEY"} {
			v, ok := src.lookup(name)
			require.True(t, ok)
			require.Equal(t, variables.Value{Text: want[i], Class: variables.Untrusted}, v, claim)
		}
	}
}

// The attempts of a hook have the same envelope, timestamp and run id.
func TestEnvelopeIsConstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := &receiver{results: []Result{{State: hooks.Failed}, {State: hooks.Succeeded}}}
		h := newRequest(t, "register", "")
		h.OnError, h.Retries = hooks.Retry, 1
		out, err := fire(t, x, &fakeRecorder{}, hooks.PostClaim, Subject{
			Workload: "w", Container: "k", Claim: "c", Tenant: "t", Source: "fresh", NoPriorRuns: true,
		}, runtime.Running, h)
		require.NoError(t, err)
		require.Len(t, x.attempts, 2)
		require.Equal(t, string(x.attempts[0].Envelope), string(x.attempts[1].Envelope))
		first, _ := x.attempts[0].Lookup("TIMESTAMP")
		second, _ := x.attempts[1].Lookup("TIMESTAMP")
		require.Equal(t, first, second)
		n, _ := x.attempts[1].Lookup("ATTEMPT")
		require.Equal(t, "2", n.Text)
		var e Envelope
		require.NoError(t, json.Unmarshal(x.attempts[0].Envelope, &e))
		require.Equal(t, Envelope{
			Type: "post_claim", Timestamp: beginningOf(out.Runs[0]), RunID: out.Runs[0].ID, Hook: "register", Workload: "w",
			Container: "k", Claim: "c", Tenant: "t", Message: "post_claim hook",
			Data: json.RawMessage(`{"phase":"running","reason":"","source":"fresh"}`),
		}, e)
	})
}

// files is a Files with one file.
type files map[string]*workload.Workload

// Node returns the node of a container "recorded".
func (files) Node(_ context.Context, container string) (string, error) {
	return map[string]string{"recorded": "node-1"}[container], nil
}

// ImageHooks returns those of a container "k".
func (files) ImageHooks(_ context.Context, container string) ([]runtime.ImageHook, error) {
	if container != "k" {
		return nil, errors.New("no such container")
	}
	return []runtime.ImageHook{
		{Point: "post_claim", Path: "/etc/hostler/hooks/post_claim", Digest: "d1"},
		{Point: "pre_release", Path: "/etc/hostler/hooks/pre_release", Digest: "d2"},
		{Point: "post_claim", Path: "/etc/hostler/hooks/post_claim.d/10-a", Digest: "d3"},
	}, nil
}

func (f files) File(_ context.Context, _, file string) (*workload.Workload, error) {
	if w, ok := f[file]; ok {
		return w, nil
	}
	return nil, errors.New("no such file")
}

// A point that is resumed continues with the hooks of the file with which it
// began: a file that was applied since may have others, in another order.
func TestResumeWithFile(t *testing.T) {
	audit, register := newRequest(t, "audit", ""), newRequest(t, "register", "")
	old := &workload.Workload{File: "old", Hooks: map[hooks.Point][]hooks.Hook{hooks.PostClaim: {register, audit}}}
	current := &workload.Workload{File: "new", Hooks: map[hooks.Point][]hooks.Hook{hooks.PostClaim: {newRequest(t, "other", "")}}}
	begun := hooks.Run{ID: "r", Hook: "register", Point: hooks.PostClaim, Index: 0, Attempt: 1, State: hooks.Succeeded, Kind: hooks.KindHTTP, File: "old"}
	x, rec := &receiver{results: []Result{{State: hooks.Succeeded}}}, &fakeRecorder{prior: []hooks.Run{begun}}
	out, err := New(nil, rec, Executors{hooks.KindHTTP: x}, files{"old": old}).Fire(t.Context(), hooks.PostClaim, current, Subject{Container: "k"})
	require.NoError(t, err)
	require.Equal(t, []string{"start audit.1 running", "end audit.1 succeeded"}, rec.trace)
	require.Equal(t, "old", out.Runs[1].File)

	// Also if there are none at that point any more.
	rec.trace, x.results = nil, []Result{{State: hooks.Succeeded}}
	_, err = New(nil, rec, Executors{hooks.KindHTTP: x}, files{"old": old}).Fire(t.Context(), hooks.PostClaim, &workload.Workload{File: "new"}, Subject{Container: "k"})
	require.NoError(t, err)
	require.Equal(t, []string{"start audit.1 running", "end audit.1 succeeded"}, rec.trace)

	// A file that cannot be read fails the flow, which is retried.
	_, err = New(nil, rec, Executors{hooks.KindHTTP: x}, files{}).Fire(t.Context(), hooks.PostClaim, current, Subject{Container: "k"})
	require.ErrorContains(t, err, "read the file that post_claim began with: no such file")
	require.Len(t, rec.trace, 2)
}

// The condition of a hook is checked once: if the hook has begun and failed, a
// condition that is false since then does not make the point a success.
func TestConditionOfBegunHook(t *testing.T) {
	h := newRequest(t, "a", "")
	h.Condition = condition(t, "KEY != done")
	failed := hooks.Run{ID: "r", Hook: "a", Point: hooks.PostClaim, Attempt: 1, State: hooks.Failed, Kind: hooks.KindHTTP}
	// Another hook has captured the name since.
	other := hooks.Run{ID: "s", Hook: "e", Index: 9, Attempt: 1, State: hooks.Succeeded, Kind: hooks.KindHTTP, Values: map[string]string{"KEY": "done"}}
	_, err := fire(t, &receiver{}, &fakeRecorder{prior: []hooks.Run{failed, other}}, hooks.PostClaim, Subject{Container: "k"}, runtime.Running, h)
	require.ErrorContains(t, err, "failed")
}
