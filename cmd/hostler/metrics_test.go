//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/delivery"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
)

// emptyStore has no containers and no deliveries.
type emptyStore struct{}

func (emptyStore) CountContainers(context.Context) (map[string]map[pool.State]int, error) {
	return nil, nil
}
func (emptyStore) DeliveryStatus(context.Context) (delivery.Status, error) {
	return delivery.Status{}, nil
}

// recording is a recorder whose RunEnded returns err.
type recording struct {
	hooks.Recorder
	err error
}

func (r recording) RunEnded(context.Context, hooks.Run) error { return r.err }

// Each attempt that has ended is counted once, and logged: a failure as an error
// with the tail of its stderr, a success for debugging. One whose end is not on
// record is neither.
func TestRunsAreCountedAndLogged(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	m, code := newMetrics(emptyStore{}), 3
	failed := hooks.Run{
		ID: "r", Attempt: 2, Point: hooks.PostClaim, Hook: "migrate", Kind: hooks.KindCommand, Workload: "web", Container: "k", Claim: "c",
		State: hooks.Failed, Detail: hooks.Detail{ExitCode: &code}, Stderr: runtime.Output{Head: "no table", Total: 8},
	}
	done := failed
	done.State, done.Detail, done.Stderr, done.Stdout = hooks.Succeeded, hooks.Detail{}, runtime.Output{}, runtime.Output{Head: "ok", Total: 2}
	for _, r := range []hooks.Run{failed, done} {
		require.NoError(t, m.recorder(recording{}, log).RunEnded(t.Context(), r))
		require.Error(t, m.recorder(recording{err: errors.New("disk full")}, log).RunEnded(t.Context(), r))
	}
	require.Equal(t, 2, bytes.Count(out.Bytes(), []byte("\n")), out.String())
	require.Contains(t, out.String(), `"level":"ERROR","msg":"hook failed","hook":"migrate","point":"post_claim","action":"command","run":"r","attempt":2,`+
		`"workload":"web","container":"k","claim":"c","state":"failed","duration_ms":0,"exit_code":3,"stderr":"no table"}`)
	require.Contains(t, out.String(), `"level":"DEBUG","msg":"hook completed"`)

	answer := httptest.NewRecorder()
	m.handler().ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	for _, line := range []string{
		`hostler_hook_runs_total{action="command",hook="migrate",point="post_claim",state="failed",workload="web"} 1`,
		`hostler_hook_runs_total{action="command",hook="migrate",point="post_claim",state="succeeded",workload="web"} 1`,
		`hostler_hook_failures_total{hook="migrate",point="post_claim",workload="web"} 1`,
		`hook_failures_total{hook="migrate",point="post_claim",workload="web"} 1`,
	} {
		require.Contains(t, answer.Body.String(), "\n"+line+"\n")
	}
}
