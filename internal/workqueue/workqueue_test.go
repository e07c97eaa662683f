package workqueue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	goruntime "runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/backoff"
	"github.com/hostler/hostler/internal/testenv"
)

// second is a backoff of 1 s, 2 s, 4 s, and so on up to a minute.
var second = backoff.Policy{Min: time.Second, Max: time.Minute}

// start runs the queue until the test, or the returned function, ends it.
func start[K comparable](t *testing.T, q *Queue[K], slots int, fn func(context.Context, *Task[K]) error) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { q.Run(ctx, slots, fn); close(done) }()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(stop)
	return stop
}

// requireEmpty fails if something is left of the keys.
func requireEmpty[K comparable](t *testing.T, q *Queue[K]) {
	t.Helper()
	q.mu.Lock()
	defer q.mu.Unlock()
	require.Empty(t, q.items)
	require.Empty(t, q.delayed)
	require.Empty(t, q.groups)
	require.Empty(t, q.turns)
	require.Zero(t, q.total)
}

// wait is an execution that takes that long.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// sleep lets fake time pass, and returns when nothing is left to do at its end.
func sleep(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// A key that is added while it is executed is executed once more, one execution
// at a time; one that waits is not added twice.
func TestOneExecutionPerKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options[string]{})
		var running, total atomic.Int64
		for range 3 {
			q.Add("a")
		}
		start(t, q, 8, func(ctx context.Context, _ *Task[string]) error {
			assert.Equal(t, int64(1), running.Add(1))
			defer running.Add(-1)
			total.Add(1)
			wait(ctx, time.Second)
			return nil
		})
		sleep(500 * time.Millisecond)
		require.Equal(t, int64(1), total.Load())
		for range 3 {
			q.Add("a")
		}
		sleep(time.Minute)
		require.Equal(t, int64(2), total.Load())
		requireEmpty(t, q)
	})
}

// The earliest of the times of a key counts.
func TestEarliestTimeCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options[string]{})
		begin := time.Now()
		var at []time.Duration
		start(t, q, 1, func(context.Context, *Task[string]) error {
			at = append(at, time.Since(begin))
			return nil
		})
		for _, d := range []time.Duration{time.Hour, time.Minute, 2 * time.Minute} {
			q.AddAfter("a", d)
		}
		sleep(90 * time.Second)
		require.Equal(t, []time.Duration{time.Minute}, at)
		q.AddAfter("a", time.Minute)
		q.Add("a")
		sleep(2 * time.Hour)
		require.Equal(t, []time.Duration{time.Minute, 90 * time.Second}, at)
		requireEmpty(t, q)
	})
}

// A key that always fails is retried with backoff, however often it is added,
// and does not delay others. Forget ends that, and a success resets the backoff.
func TestFailingKeyBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options[string]{Backoff: second})
		var tries, others atomic.Int64
		var result atomic.Value // a func() error
		broken := errors.New("broken")
		result.Store(func() error { return broken })
		start(t, q, 2, func(_ context.Context, task *Task[string]) error {
			if task.Key == "other" {
				others.Add(1)
				return nil
			}
			tries.Add(1)
			return result.Load().(func() error)() //nolint:forcetypeassert // see above
		})
		for range 600 {
			q.Add("a")
			q.Add("other")
			sleep(time.Second)
		}
		require.Equal(t, int64(600), others.Load())
		require.Equal(t, int64(15), tries.Load(), "after 0, 1, 3, 7, 15, 31, 63 s and then every minute")
		q.Forget("a")
		requireEmpty(t, q)

		q.Add("a")
		sleep(1500 * time.Millisecond)
		require.Equal(t, int64(17), tries.Load(), "the backoff begins again")
		result.Store(func() error { return RetryAfter(10*time.Second, broken) })
		sleep(10 * time.Second)
		require.Equal(t, int64(18), tries.Load())
		q.Add("a")
		sleep(time.Second)
		require.Equal(t, int64(18), tries.Load(), "it is not retried earlier")
		result.Store(func() error { return nil })
		sleep(time.Minute)
		require.Equal(t, int64(19), tries.Load())
		requireEmpty(t, q)
	})
}

// A success resets the backoff, also of a key that is executed once more.
func TestSuccessResetsBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options[string]{Backoff: second})
		begin := time.Now()
		var at []time.Duration
		start(t, q, 1, func(context.Context, *Task[string]) error {
			if at = append(at, time.Since(begin)/time.Second); len(at) == 3 {
				q.Add("a")
				return nil
			}
			return errors.New("broken")
		})
		q.Add("a")
		sleep(5 * time.Second)
		require.Equal(t, []time.Duration{0, 1, 3, 3, 4}, at)
	})
}

// Forget during an execution: the key stays busy, is not retried, and can be
// added again.
func TestForgetDuringExecution(t *testing.T) {
	for _, addAgain := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			q := New(Options[string]{Backoff: second})
			var total atomic.Int64
			start(t, q, 2, func(ctx context.Context, _ *Task[string]) error {
				first := total.Add(1) == 1
				wait(ctx, time.Second)
				if first {
					return errors.New("broken")
				}
				return nil
			})
			q.Add("a")
			synctest.Wait()
			q.Forget("a")
			if addAgain {
				q.Add("a")
				synctest.Wait()
				require.Equal(t, int64(1), total.Load())
			}
			sleep(time.Hour)
			require.Equal(t, map[bool]int64{false: 1, true: 2}[addAgain], total.Load())
			requireEmpty(t, q)
		})
	}
}

// Run waits for its executions, starts none after its context has ended, and
// continues with what is left when it is called again.
func TestRunStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options[int]{Backoff: second})
		for n := range 3 {
			q.Add(n)
		}
		var ended atomic.Int64
		stop := start(t, q, 1, func(ctx context.Context, _ *Task[int]) error {
			<-ctx.Done()
			<-time.After(time.Second) // it cleans up
			ended.Add(1)
			return context.Cause(ctx)
		})
		synctest.Wait()
		begin := time.Now()
		stop()
		require.Equal(t, time.Second, time.Since(begin))
		require.Equal(t, int64(1), ended.Load())
		start(t, q, 1, func(context.Context, *Task[int]) error { ended.Add(1); return nil })
		sleep(time.Minute)
		require.Equal(t, int64(4), ended.Load())
		requireEmpty(t, q)
	})
}

// An execution whose goroutine exits frees its slot and its key.
func TestGoexit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options[string]{Backoff: second})
		var total atomic.Int64
		start(t, q, 1, func(context.Context, *Task[string]) error {
			if total.Add(1) == 1 {
				goruntime.Goexit()
			}
			return nil
		})
		q.Add("a")
		sleep(time.Minute)
		require.Equal(t, int64(2), total.Load())
		requireEmpty(t, q)
	})
}

// A panic in the execution of one key is logged with its stack, is retried with
// backoff, and harms no other key, whether or not the execution had given up its
// key or its slot.
func TestPanicIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var messages bytes.Buffer
		q := New(Options[string]{Backoff: second, Log: slog.New(slog.NewTextHandler(&messages, nil))})
		executed := map[string]int{}
		start(t, q, 1, func(_ context.Context, task *Task[string]) error {
			executed[task.Key]++
			switch task.Key {
			case "bad":
				panic("a defect")
			case "detached":
				task.Detach()
				panic("a defect")
			case "parked":
				task.Park()
				panic("a defect")
			}
			return nil
		})
		for _, key := range []string{"bad", "detached", "parked", "good"} {
			q.Add(key)
		}
		sleep(3500 * time.Millisecond)
		require.Equal(t, map[string]int{"bad": 3, "detached": 1, "parked": 3, "good": 1}, executed)
		require.Equal(t, 7, strings.Count(messages.String(), "level=ERROR"))
		require.Contains(t, messages.String(), "key=bad")
		require.Contains(t, messages.String(), "a defect")
		require.Contains(t, messages.String(), "TestPanicIsRetried", "the stack")
	})
}

// Keys may be added and forgotten by many at once.
func TestConcurrentUse(t *testing.T) {
	q := grouped(Options[string]{PerGroup: 2, Reserved: 1, Backoff: backoff.Policy{Min: time.Microsecond, Max: time.Microsecond}})
	var total atomic.Int64
	stop := start(t, q, 4, func(_ context.Context, task *Task[string]) error {
		switch total.Add(1) % 5 {
		case 0:
			return errors.New("broken")
		case 1:
			task.Park()
		case 2:
			task.Detach()
		}
		return nil
	})
	var adders sync.WaitGroup
	for g := range 8 {
		adders.Go(func() {
			for n := range 500 {
				key := fmt.Sprint(string(rune('a'+g%3)), n%20)
				q.Add(key)
				q.AddAfter(key, time.Duration(n)*time.Microsecond)
				if n%7 == 0 {
					q.Forget(key)
				}
			}
		})
	}
	adders.Wait()
	testenv.AwaitTrue(t, "an empty queue", func() bool {
		q.mu.Lock()
		defer q.mu.Unlock()
		return len(q.items) == 0
	})
	stop()
	requireEmpty(t, q)
}
