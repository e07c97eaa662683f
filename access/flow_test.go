package access_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/access"
	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/internal/dispatch"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/store"
)

// known are the commands that a container reports.
type known []runtime.CommandStatus

func (k known) Commands(_ context.Context, _ string, fence int64) ([]runtime.CommandStatus, error) {
	if fence == 0 {
		return nil, runtime.ErrStaleFence
	}
	return k, nil
}

// runRecorder starts a Recorder of a server, which is to be stopped before its
// database is closed.
func runRecorder(t *testing.T, db *store.DB, commands access.Commands) (r *access.Recorder, stop func()) {
	t.Helper()
	r = access.NewRecorder(access.RecorderOptions{Store: db, Commands: commands, Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(t.Context())
	var g errgroup.Group
	g.Go(func() error { return r.Run(ctx) })
	g.Go(func() error { return r.RunSweep(ctx) })
	g.Go(func() error { return dispatch.New(db, slog.New(slog.DiscardHandler), r.EventHandlers()).Run(ctx) })
	return r, sync.OnceFunc(func() {
		cancel()
		require.NoError(t, g.Wait())
	})
}

// Each start of a command has one end: that which a server has seen, or which the
// container reports after the server was killed, or that of the claim.
func TestEachStartHasOneEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply("id: web\nimage: box\n")
		h.AwaitIdle("web", 1)
		c := h.Claim("web", "ann")
		c, err := h.DB.Claim(t.Context(), c.ID)
		require.NoError(t, err)
		g := access.Grant{Claim: c}
		r, stop := runRecorder(t, h.DB, known(nil))
		for i := range 4 {
			require.NoError(t, r.CommandStarting(t.Context(), g, access.CommandUse{ID: fmt.Sprint(i), Args: []string{"make"}}))
		}
		r.CommandEnded(g, "0", runtime.Result{}, nil)
		<-time.After(time.Second)
		r.CommandEnded(g, "1", runtime.Result{}, nil)
		r.CommandEnded(g, "0", runtime.Result{ExitCode: 1}, nil)
		stop()
		h.Restart() // of a server that was killed: 2 and 3 run, and none follows them

		ended := time.Now()
		r, stop = runRecorder(t, h.DB, known{
			{ID: "1", Ended: &ended, Result: &runtime.Result{ExitCode: 9}},
			{ID: "2", Ended: &ended, Result: &runtime.Result{ExitCode: 2, Duration: time.Second}},
			{ID: "3"},
		})
		defer stop()
		<-time.After(time.Minute)
		r.CommandEnded(g, "2", runtime.Result{}, nil)
		require.ErrorIs(t, r.CommandStarting(t.Context(), g, access.CommandUse{ID: "3"}), access.ErrCommandOpen)
		<-time.After(time.Second)
		h.Release(c)
		r.CommandEnded(g, "3", runtime.Result{}, nil)
		require.ErrorIs(t, r.CommandStarting(t.Context(), g, access.CommandUse{ID: "4"}), claim.ErrNotActive)
		<-time.After(10 * time.Minute)

		var got []string
		for _, e := range h.Events(activity.ExecSubject, activity.ClaimReleased) {
			var data activity.ExecEndedData
			require.NoError(t, json.Unmarshal(e.Data, &data))
			if e.Type == activity.ClaimReleased {
				data.Reason = ""
			}
			got = append(got, fmt.Sprintf("%s %s %s", e.Type, data.Command, data.Reason))
		}
		require.Equal(t, []string{
			"exec.started 0 ", "exec.started 1 ", "exec.started 2 ", "exec.started 3 ",
			"exec.completed 0 ", "exec.completed 1 ", "exec.failed 2 ",
			"claim.released  ", "exec.failed 3 the claim was released",
		}, got)
	})
}
