package hooks

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/flow"
	"github.com/hostler/hostler/runtime"
)

// An engine that is away for a moment fails no hook. What it lost sight of is
// asked for and never begun again; what never reached the container is begun
// once it can be, under the same key; and one that stays away holds the flow up
// for no longer than the hook could have taken.
func TestEngineAway(t *testing.T) {
	var none = end{err: runtime.ErrNoRun}
	slow := end{err: runtime.ErrUnavailable, begin: func() { _ = flow.Pause(context.Background(), 4*time.Second) }}
	tests := []struct {
		name   string
		ends   []end // of what is begun
		fates  []end // of what is asked for
		state  RunState
		begun  int
		waited time.Duration
	}{
		{"it never began", []end{away, ok}, []end{none}, Succeeded, 2, 0},
		{"it never began, and fails then", []end{away, exit3}, []end{none}, Failed, 2, 0},
		{"it never began, which is known late", []end{away, ok}, []end{away, away, none}, Unknown, 1, 3 * time.Second},
		{"it never began, which is known soon", []end{away, ok}, []end{away, none}, Succeeded, 2, time.Second},
		{"it cannot be begun for a while", []end{away, away, ok}, []end{none, none}, Succeeded, 3, time.Second},
		{"it cannot be begun", []end{away}, []end{none, none, none}, Unknown, 3, 3 * time.Second},
		{"it is over", []end{away}, []end{ok}, Succeeded, 1, 0},
		{"it is over, which is known late", []end{away}, []end{away, away, exit3}, Failed, 1, 3 * time.Second},
		{"its container has ended", []end{away}, []end{away, lost}, Lost, 1, time.Second},
		{"it is out of control", []end{away}, []end{doomed}, Unknown, 1, 0},
		{"it could not be started", []end{away}, []end{noBinary}, NotBegun, 1, 0},
		{"nobody can say", []end{away}, nil, Unknown, 1, 3 * time.Second},
		{"it was lost sight of too long", []end{slow, ok}, []end{none}, Unknown, 1, 4 * time.Second},
		{"it was lost sight of and is over", []end{slow, ok}, []end{ok}, Succeeded, 1, 4 * time.Second},
		{"doomed and away is doomed", []end{{err: errors.Join(runtime.ErrDoomed, runtime.ErrUnavailable)}}, nil, Unknown, 1, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{ends: map[string][]end{"a": tt.ends}, fates: tt.fates}
				b := &book{}
				begin := time.Now()
				runs, err := NewRunner(s, b).Run(t.Context(), PreRelease, []Hook{hook("a", Fail, 0)}, Subject{})
				require.Equal(t, tt.state == Succeeded, err == nil, "%v", err)
				require.Equal(t, tt.waited, time.Since(begin))
				require.Len(t, runs, 1, "it is one attempt")
				require.Equal(t, []string{"start a.1 running", "end a.1 " + string(tt.state)}, b.trace)
				require.Len(t, s.calls, tt.begun)
				require.Empty(t, s.fates, "asked until there is an answer")
				for _, c := range append(s.calls, s.asked...) {
					require.Equal(t, s.calls[0].Key, c.Key)
				}
			})
		})
	}
}

// A flow that is stopped waits for no engine.
func TestEngineAwayAndStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := errors.New("the server stops")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Millisecond, func() { cancel(stop) })
		begin := time.Now()
		runs, err := NewRunner(&script{ends: map[string][]end{"a": {away}}}, &book{}).Run(
			ctx, PostClaim, []Hook{hook("a", Fail, 0)}, Subject{})
		require.ErrorIs(t, err, stop)
		require.Equal(t, time.Millisecond, time.Since(begin))
		require.Equal(t, Cancelled, runs[0].State)
	})
}
