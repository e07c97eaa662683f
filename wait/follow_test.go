package wait_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/wait"
)

// hungStore is a store that answers a number of times, and then no more.
type hungStore struct {
	wait.Store
	answers int
}

func (s *hungStore) Wait(ctx context.Context, id string) (wait.Wait, time.Duration, error) {
	if s.answers--; s.answers >= 0 {
		return wait.Wait{ID: id, State: wait.Waiting}, time.Minute, nil
	}
	<-ctx.Done()
	return wait.Wait{}, 0, ctx.Err()
}

// A caller whose time has ended gets the record as it is then, for which it waits no
// more than some seconds if the database does not answer: then it gets the one that
// it has read before. While it has time, it waits.
func TestFollowIsBounded(t *testing.T) {
	const callerTime = 10 * time.Second
	for answers, want := range []struct {
		after time.Duration
		state wait.State
	}{
		{callerTime + 5*time.Second, ""}, {callerTime + 5*time.Second, wait.Waiting}, {callerTime, wait.Waiting},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := wait.New(&hungStore{answers: answers}, wait.Options{})
			ctx, cancel := context.WithTimeout(t.Context(), callerTime)
			defer cancel()
			begin := time.Now()
			w, err := s.Follow(ctx, "w")
			require.Equal(t, want.state == "", err != nil, "%d answers: %v", answers, err)
			require.Equal(t, want.state, w.State, "%d answers", answers)
			require.Equal(t, want.after, time.Since(begin), "%d answers", answers)
		})
	}
}
