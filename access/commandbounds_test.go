package access_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/access"
	"github.com/hostler/hostler/runtime"
)

// The requests for commands of a claim are bounded, attachments included, and one
// that has ended or failed makes room.
func TestCommandCallBounds(t *testing.T) {
	const bound = 128
	inStartBubble(t, nil, func(t *testing.T, r startRig) {
		ctx, id := t.Context(), r.claim.ID
		first, err := r.access.Start(ctx, id, access.CommandRequest{ID: "x", Args: []string{"hang"}})
		require.NoError(t, err)
		open := []*access.Command{first}
		for range bound + 1 { // what fails holds nothing
			_, err := r.access.Attach(ctx, id, "none", 0)
			require.ErrorIs(t, err, runtime.ErrUnknownRun)
			_, err = r.access.Start(ctx, id, access.CommandRequest{ID: "y", Args: []string{"missing"}})
			require.Error(t, err)
			require.NotErrorIs(t, err, access.ErrTooManyCalls)
		}
		for len(open) < bound {
			c, err := r.access.Attach(ctx, id, "x", runtime.ControlOnly)
			require.NoError(t, err)
			open = append(open, c)
		}
		for name, call := range map[string]func(ctx context.Context) error{
			"attach": func(ctx context.Context) error { _, err := r.access.Attach(ctx, id, "x", 0); return err },
			"start": func(ctx context.Context) error {
				_, err := r.access.Start(ctx, id, access.CommandRequest{ID: "z", Args: []string{"hang"}})
				return err
			},
			"list": func(ctx context.Context) error { _, err := r.access.Commands(ctx, id); return err },
			"end":  func(ctx context.Context) error { return r.access.EndCommand(ctx, id, "x") },
		} {
			require.ErrorIs(t, call(ctx), access.ErrTooManyCalls, name)
		}
		require.NoError(t, open[1].Close())
		require.NoError(t, open[1].Close(), "twice")
		_, err = r.access.Commands(ctx, id)
		require.NoError(t, err)
		again, err := r.access.Attach(ctx, id, "x", runtime.ControlOnly)
		require.NoError(t, err)
		for _, c := range append(open, again) {
			require.NoError(t, c.Close())
		}
		require.NoError(t, r.access.EndCommand(ctx, id, "x"))
	})
}
