package workqueue

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// looks has when a loop has looked, in seconds since its start.
type looks struct {
	*Loop
	mu sync.Mutex // guards at
	at []int
}

// after returns when the loop has looked, d later.
func (l *looks) after(d time.Duration) []int {
	<-time.After(d)
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.at)
}

// startLoop runs a loop until the test ends.
func startLoop(t *testing.T, look Look) *looks {
	l, began := &looks{}, time.Now()
	l.Loop = NewLoop("looking", func(ctx context.Context) (time.Time, error) {
		l.mu.Lock()
		l.at = append(l.at, int(time.Since(began).Seconds()))
		l.mu.Unlock()
		return look(ctx)
	}, second, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- l.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	return l
}

// A loop looks when it starts, at the times that it is told, and never in between:
// the earliest of them counts.
func TestLoopLooksWhenSomethingIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := time.Now().Add(1000 * time.Second)
		l := startLoop(t, func(context.Context) (time.Time, error) {
			if time.Now().Before(first) {
				return first.Round(0), nil // as of a record
			}
			return time.Time{}, nil
		})
		require.Equal(t, []int{0}, l.after(100*time.Second))
		l.WakeAfter(3000 * time.Second) // there is an earlier time
		l.WakeAfter(200 * time.Second)
		l.WakeAfter(400 * time.Second)
		l.WakeAt(time.Time{})
		require.Equal(t, []int{0, 300, 1000}, l.after(10*time.Hour), "what is later than a look is found by the look")
		l.Wake()
		require.Equal(t, []int{0, 300, 1000, 36100}, l.after(0))
	})
}

// A change that is made while a loop looks is not missed.
func TestLoopIsWokenWhileItLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		l := startLoop(t, func(context.Context) (time.Time, error) { <-release; return time.Time{}, nil })
		<-time.After(time.Second)
		l.WakeAfter(5 * time.Second)
		l.Wake()
		close(release)
		require.Equal(t, []int{0, 1}, l.after(time.Minute))
	})
}

// A look that fails or panics is repeated with backoff, however often it is woken, and
// once it succeeds the time that it returns counts.
func TestLoopRetriesWithBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		l := startLoop(t, func(context.Context) (time.Time, error) {
			switch n++; {
			case n == 2:
				panic("no")
			case n <= 4:
				return time.Now(), errors.New("no")
			}
			return time.Now().Add(time.Hour), nil
		})
		for range 100 {
			<-time.After(100 * time.Millisecond)
			l.Wake()
		}
		require.Equal(t, []int{0, 1, 3, 7, 15}, l.after(time.Minute), "1, 2, 4 and 8 s later")
		require.Equal(t, []int{0, 1, 3, 7, 15, 3615}, l.after(time.Hour))
	})
}
