package pool

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
)

// If creation fails, it is retried with backoff, up to a minute; a changed spec
// is tried immediately.
func TestBreakerBackoff(t *testing.T) {
	b := Breaker{Workload: "w", Revision: "r1"}
	now, want := time.Now(), time.Second
	for i := range 12 {
		b.recordFailure(now, "r1", failure{reason: "no such image"}, false)
		require.Equal(t, i+1, b.Failures)
		require.InDelta(t, want.Seconds(), b.RetryAt.Sub(now).Seconds(), want.Seconds()*jitter+0.001)
		require.True(t, b.isOpen(now))
		want = min(2*want, maxBackoff)
		now = b.RetryAt
		require.False(t, b.isOpen(now))
	}
	s := b.of("r1").status(1, false)
	require.Equal(t, FillFailing, s.State)
	require.Equal(t, "no such image", s.LastError)
	require.NotNil(t, s.NextTry)

	require.Zero(t, b.of("r2").Failures)
	b = b.of("r2")
	require.True(t, b.recordFailure(now, "r2", failure{reason: "no such image"}, false))
	require.Equal(t, 1, b.Failures)
	require.Equal(t, BackingOff, b.of("r2").status(0, false).State)
	require.Equal(t, FillDraining, b.of("r2").status(0, true).State)
	require.Equal(t, FillIdle, b.of("r3").status(0, false).State)
	require.Equal(t, Filling, b.of("r3").status(2, false).State)
}

// The creation of a container of the former revision takes long and fails last.
// The failures of the current revision count on.
func TestBreakerIgnoresFormerRevision(t *testing.T) {
	b, now := Breaker{Workload: "w", Revision: "new"}, time.Now()
	for range 6 {
		require.True(t, b.recordFailure(now, "new", failure{reason: "no such image"}, false))
		now = b.RetryAt
	}
	before := b
	require.False(t, b.recordFailure(now.Add(-10*time.Second), "old", failure{reason: "it took longer than 15m"}, true))
	require.Equal(t, before, b)
}

// Containers that are started together and fail together are one failure: a
// burst must not open the breaker immediately.
func TestBreakerCountsABurstOnce(t *testing.T) {
	b := Breaker{Workload: "w", Revision: "r"}
	now := time.Now()
	for range 4 {
		b.recordFailure(now, "r", failure{reason: "no such image"}, false)
	}
	require.Equal(t, 1, b.Failures)
}

// A clock that was set back does not keep a pool empty until it has caught up.
func TestBreakerAfterClockWasSetBack(t *testing.T) {
	b := Breaker{Workload: "w", Revision: "r"}
	now := time.Now()
	b.recordFailure(now, "r", failure{reason: "no such image"}, false)
	require.True(t, b.isOpen(now))
	require.False(t, b.isOpen(now.Add(-time.Hour)))
}

// breakerStore has one breaker, which becomes that of another revision once it
// was read.
type breakerStore struct {
	Store
	breaker Breaker
	becomes *Breaker
}

func (s *breakerStore) Breaker(context.Context, string) (Breaker, error) {
	read := s.breaker
	if s.becomes != nil {
		s.breaker = *s.becomes
	}
	return read, nil
}

func (s *breakerStore) UpdateBreaker(_ context.Context, _ string, set func(*Breaker) []activity.Event) error {
	set(&s.breaker)
	return nil
}

// A container of the former revision becomes ready when the containers of the
// current one fail: these failures count on.
func TestLateSuccessOfFormerRevision(t *testing.T) {
	current := Breaker{Workload: "w", Revision: "new", Failures: 3}
	s := &breakerStore{breaker: current}
	f := &Filler{store: s, log: slog.New(slog.DiscardHandler)}
	f.recordSuccess(t.Context(), Container{Workload: "w", Revision: "old"})
	require.Equal(t, current, s.breaker)

	*s = breakerStore{breaker: Breaker{Workload: "w", Revision: "old", Failures: 2}, becomes: &current}
	f.recordSuccess(t.Context(), Container{Workload: "w", Revision: "old"})
	require.Equal(t, current, s.breaker, "the workload was changed in the meantime")

	*s = breakerStore{breaker: current}
	f.recordSuccess(t.Context(), Container{Workload: "w", Revision: "new"})
	require.Zero(t, s.breaker.Failures)
}
