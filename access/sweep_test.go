package access

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/runtime"
)

// The end of a command that no server followed is the one that its container reports.
// While it runs nothing is recorded.
func TestSweepFindsEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.start(t, "1")
		r.start(t, "2")
		r.store.took()
		r.commands.report(nil, runtime.CommandStatus{ID: "1"}, runtime.CommandStatus{ID: "2"})
		require.Empty(t, r.pass(10*time.Minute))
		ended := time.Now()
		r.commands.report(nil, runtime.CommandStatus{ID: "1"},
			runtime.CommandStatus{ID: "2", Ended: &ended, Output: 4, Result: &runtime.Result{ExitCode: 1, Duration: time.Second}},
			runtime.CommandStatus{ID: "3", Ended: &ended, Result: &runtime.Result{}})
		all := r.pass(sweepInterval)
		require.Equal(t, []activity.Type{activity.ExecFailed}, typesOf(all))
		require.Equal(t, activity.ExecEndedData{Command: "2", DurationMS: 1000, ExitCode: new(1), Output: 4, Program: "make"},
			dataOf[activity.ExecEndedData](t, all[0]))
		require.Empty(t, r.pass(10*time.Minute))
		require.Equal(t, map[activity.Type]int{activity.ExecFailed: 1}, r.used)
		asks := r.commands.asks
		r.CommandEnded(granted, "1", runtime.Result{}, nil)
		require.Len(t, r.pass(time.Minute), 1)
		require.InDelta(t, asks, r.commands.asks, 1, "without open commands, no container is asked")
	})
}

// A command that its container does not know ends after a while, for a reason: it may
// still be starting, or a server may know its end.
func TestSweepEndsUnknown(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		reason string
	}{
		"forgotten":   {nil, "its outcome is unknown"},
		"released":    {runtime.ErrStaleFence, "the claim was released"},
		"gone":        {runtime.ErrNotFound, "the container exited"},
		"not running": {runtime.ErrNotRunning, "the container exited"},
		"unavailable": {runtime.ErrUnavailable, ""},
		"other":       {errors.New("broken"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				r.commands.report(c.err)
				r.start(t, "1")
				r.store.took()
				require.Empty(t, r.pass(unknownAfter-sweepInterval))
				all := r.pass(2 * sweepInterval)
				if c.reason == "" {
					require.Empty(t, all)
					require.Empty(t, r.pass(time.Hour))
					return
				}
				require.Equal(t, []activity.Type{activity.ExecFailed}, typesOf(all))
				require.Equal(t, c.reason, dataOf[activity.ExecEndedData](t, all[0]).Reason)
			})
		})
	}
}

// A container forgets a command when a server has read all of its output: that server
// records the end, and the sweep gives it time.
func TestSweepWaitsForServer(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.start(t, "1")
		r.store.took()
		r.commands.report(nil, runtime.CommandStatus{ID: "1"})
		require.Empty(t, r.pass(time.Hour))
		r.commands.report(nil)
		require.Empty(t, r.pass(unknownFor-time.Second))
		r.commands.report(nil, runtime.CommandStatus{ID: "1"})
		require.Empty(t, r.pass(sweepInterval), "it is known again")
		r.commands.report(nil)
		require.Empty(t, r.pass(unknownFor-time.Second))
		r.CommandEnded(granted, "1", runtime.Result{}, nil)
		require.Equal(t, []activity.Type{activity.ExecCompleted}, typesOf(r.pass(time.Minute)))
	})
}
