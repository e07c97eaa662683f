//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/delivery"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/runtime"
)

// recording is a recorder whose RunEnded returns err.
type recording struct {
	hooks.Recorder
	err error
}

func (r recording) RunEnded(context.Context, hooks.Run) error { return r.err }

func (r recording) RunFollowed(_ context.Context, _, _ hooks.Run) error { return r.err }

// attemptStore is a store of deliveries whose UpdateDelivery returns err.
type attemptStore struct {
	delivery.Store
	err error
}

func (a attemptStore) UpdateDelivery(context.Context, delivery.Transition) (delivery.Permission, error) {
	return delivery.Permission{Fence: 3}, a.err
}

func (a attemptStore) StartTest(context.Context, hooks.Run) (delivery.Permission, error) {
	return delivery.Permission{}, a.err
}

func (a attemptStore) RunEnded(context.Context, hooks.Run) error { return a.err }

// Tests of hooks are neither counted nor logged: their failures alarm no one.
func TestTestsAreNotCounted(t *testing.T) {
	var out bytes.Buffer
	m := newMetrics()
	s := m.deliveries(attemptStore{}, slog.New(slog.NewJSONHandler(&out, nil)))
	run := hooks.Run{ID: "r", Attempt: 1, Point: hooks.PostClaim, Hook: "migrate", Kind: hooks.KindCommand, Workload: "web", State: hooks.Failed}.AsTest()
	_, err := s.StartTest(t.Context(), run)
	require.NoError(t, err)
	require.NoError(t, s.RunEnded(t.Context(), run))
	require.NotContains(t, scrape(t, m), "migrate")
	require.Empty(t, out.String())
}

// The attempts of event hooks are counted and logged as those of points are,
// with the type of their event.
func TestAttemptsOfDeliveriesAreCounted(t *testing.T) {
	var out bytes.Buffer
	m := newMetrics()
	log := slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s := m.deliveries(attemptStore{}, log)
	refusing := m.deliveries(attemptStore{err: delivery.ErrConflict}, log)
	run := hooks.Run{ID: "r", Attempt: 1, Event: "claim.failed", Hook: "notify", Kind: hooks.KindWebhook, Workload: "web"}
	update := func(state hooks.RunState) {
		run.State = state
		p, err := s.UpdateDelivery(t.Context(), delivery.Transition{Run: &run})
		require.NoError(t, err)
		require.EqualValues(t, 3, p.Fence)
		_, err = refusing.UpdateDelivery(t.Context(), delivery.Transition{Run: &run})
		require.ErrorIs(t, err, delivery.ErrConflict)
	}
	update(hooks.Running)
	require.Contains(t, scrape(t, m), `hostler_hook_inflight{point="claim.failed"} 1`)
	update(hooks.Failed)
	update(hooks.Running)
	update(hooks.Succeeded)
	update(hooks.Skipped)
	_, err := s.UpdateDelivery(t.Context(), delivery.Transition{})
	require.NoError(t, err, "one without a run")
	text := scrape(t, m)
	for _, state := range []string{"failed", "succeeded"} {
		require.Contains(t, text, `hostler_hook_runs_total{action="webhook",hook="notify",point="claim.failed",state="`+state+`",workload="web"} 1`)
	}
	require.NotContains(t, text, `state="skipped"`)
	require.Contains(t, text, `hook_failures_total{hook="notify",point="claim.failed",workload="web"} 1`)
	require.Contains(t, text, `hostler_hook_inflight{point="claim.failed"} 0`)
	require.Equal(t, 2, bytes.Count(out.Bytes(), []byte("\n")), out.String())
	require.Contains(t, out.String(), `"level":"ERROR","msg":"hook failed","hook":"notify","point":"claim.failed"`)
}

func scrape(t *testing.T, m *metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

// Each attempt that has ended is counted once, and logged: a failure as an error
// with the tail of its stderr, a success for debugging. One whose end is not on
// record is neither.
func TestRunsAreCountedAndLogged(t *testing.T) {
	var out bytes.Buffer
	log := newLogger(&out, serveConfig{logLevel: "debug", logFormat: "json"})
	m, code := newMetrics(), 3
	failed := hooks.Run{
		ID: "r", Attempt: 2, Point: hooks.PostClaim, Hook: "migrate", Kind: hooks.KindCommand, Workload: "web", Container: "k", Claim: "c",
		State: hooks.Failed, Duration: 12.5, Detail: hooks.Detail{ExitCode: &code}, Stderr: runtime.Output{Head: "no table", Total: 8},
	}
	done := failed
	done.State, done.Detail, done.Stderr, done.Stdout = hooks.Succeeded, hooks.Detail{}, runtime.Output{}, runtime.Output{Head: "ok", Total: 2}
	for _, r := range []hooks.Run{failed, done} {
		require.NoError(t, m.recorder(recording{}, log).RunEnded(t.Context(), r))
		require.Error(t, m.recorder(recording{err: errors.New("disk full")}, log).RunEnded(t.Context(), r))
	}
	require.Equal(t, 2, bytes.Count(out.Bytes(), []byte("\n")), out.String())
	require.Contains(t, out.String(), `"level":"ERROR","msg":"hook failed","hook":"migrate","point":"post_claim","action":"command","run":"r","attempt":2,`+
		`"workload":"web","container":"k","claim":"c","state":"failed","duration_ms":12.5,"exit_code":3,"stderr":"no table"}`)
	require.Contains(t, out.String(), `"level":"DEBUG","msg":"hook completed","hook":"migrate","point":"post_claim","action":"command","run":"r","attempt":2,`+
		`"workload":"web","container":"k","claim":"c","state":"succeeded","duration_ms":12.5,"output":"ok"}`)

	following := done
	following.ID, following.State = "s", hooks.Running
	require.NoError(t, m.recorder(recording{}, log).RunFollowed(t.Context(), done, following))
	require.Error(t, m.recorder(recording{err: errors.New("disk full")}, log).RunFollowed(t.Context(), done, following))
	require.Equal(t, 3, bytes.Count(out.Bytes(), []byte("\n")), out.String())

	published := done
	for _, published.Event = range []string{"custom.a", "custom.b", "agent.c"} { // a tenant chooses the types
		published.Point = ""
		require.NoError(t, m.recorder(recording{}, log).RunEnded(t.Context(), published))
	}
	m.countPublished(true)

	answer := httptest.NewRecorder()
	m.handler().ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	for _, line := range []string{
		`hostler_hook_runs_total{action="command",hook="migrate",point="custom",state="succeeded",workload="web"} 2`,
		`hostler_hook_runs_total{action="command",hook="migrate",point="agent",state="succeeded",workload="web"} 1`,
		`hostler_published_events_total{outcome="dropped"} 1`,
		`hostler_hook_runs_total{action="command",hook="migrate",point="post_claim",state="failed",workload="web"} 1`,
		`hostler_hook_runs_total{action="command",hook="migrate",point="post_claim",state="succeeded",workload="web"} 2`,
		`hostler_hook_inflight{point="post_claim"} 1`,
		`hostler_hook_failures_total{hook="migrate",point="post_claim",workload="web"} 1`,
		`hook_failures_total{hook="migrate",point="post_claim",workload="web"} 1`,
	} {
		require.Contains(t, answer.Body.String(), "\n"+line+"\n")
	}
}

// A hook that was killed at its timeout is an error with its cause. What succeeded is
// logged for debugging only.
func TestRunsAreLogged(t *testing.T) {
	r := hooks.Run{
		Point: hooks.WaitSignal, Hook: "resume", State: hooks.TimedOut, Duration: 12.5,
		Error: "the hook ran longer than its timeout: signal: killed", Stderr: runtime.Output{Head: "slow", Total: 4},
	}
	for level, want := range map[string]int{"debug": 2, "info": 1} {
		var out bytes.Buffer
		m := newMetrics()
		rec := m.recorder(recording{}, newLogger(&out, serveConfig{logLevel: level, logFormat: "json"}))
		require.NoError(t, rec.RunEnded(t.Context(), r))
		require.Contains(t, out.String(), `"level":"ERROR","msg":"hook failed","hook":"resume","point":"wait_signal"`)
		require.Contains(t, out.String(), `"state":"timed_out","duration_ms":12.5,"error":"the hook ran longer than its timeout: signal: killed","stderr":"slow"}`)
		done := r
		done.State, done.Error = hooks.Succeeded, ""
		require.NoError(t, rec.RunEnded(t.Context(), done))
		require.Equal(t, want, bytes.Count(out.Bytes(), []byte("\n")), level)

		answer := httptest.NewRecorder()
		m.handler().ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
		require.Contains(t, answer.Body.String(), "\n"+`hook_failures_total{hook="resume",point="wait_signal",workload=""} 1`+"\n")
	}
}
