package wait

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// halfAdopted is a store in which this server can adopt one wait only.
type halfAdopted struct {
	Store
	lists *int
}

func (halfAdopted) AdoptWait(_ context.Context, id string) error {
	if id == "second" {
		return errors.New("database unavailable")
	}
	return nil
}

func (s halfAdopted) OpenWaits(context.Context) ([]Open, error) {
	*s.lists++
	return nil, nil
}

// The waits that were taken over before an error are worked on: they are not taken over
// again.
func TestTakeOverAfterError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lists := 0
		s := New(halfAdopted{lists: &lists}, Options{Log: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		synctest.Wait()
		require.Equal(t, 1, lists)
		require.Error(t, s.TakeOver(ctx, []string{"first", "second"}))
		synctest.Wait()
		require.Equal(t, 2, lists)
		cancel()
		require.NoError(t, <-done)
	})
}
