package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
)

// lockedBuilder is a strings.Builder for several goroutines.
type lockedBuilder struct {
	mu sync.Mutex // guards b
	b  strings.Builder
}

func (l *lockedBuilder) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuilder) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// A failed Resync is repeated until it succeeds, however many events come
// in the meantime. They are handled at once.
func TestResyncIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var messages lockedBuilder
		log, r := newLog(), &recorder{resync: errors.New("unavailable")}
		defer run(log, slog.New(slog.NewTextHandler(&messages, nil)), r.subscription(activity.PoolScaled))()
		synctest.Wait()
		log.add(activity.PoolScaled)
		synctest.Wait()
		log.add(activity.PoolScaled)
		require.Equal(t, "resync 1 flush 2 flush", r.take())
		sleep(2*retryDelay + retryDelay/2)
		require.Equal(t, "resync resync", r.take())
		r.failResync(nil)
		sleep(retryDelay)
		require.Equal(t, "resync", r.take())
		sleep(time.Hour)
		require.Empty(t, r.take())
		require.Equal(t, 1, strings.Count(messages.String(), "handling events failed"))
		require.Equal(t, 1, strings.Count(messages.String(), "handling events continues"))
	})
}

// A Resync that panics does not keep events from the other subscriptions.
func TestResyncPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, bad, good := newLog(), &recorder{}, &recorder{}
		broken := bad.subscription(activity.PoolScaled)
		broken.Resync = func(context.Context) error { panic("a bug") }
		defer run(log, slog.New(slog.DiscardHandler), broken, good.subscription(activity.PoolScaled))()
		synctest.Wait()
		log.add(activity.PoolScaled)
		require.Equal(t, "resync 1 flush", good.take())
		require.Equal(t, "1 flush", bad.take())
	})
}

// A handler that panics while the records cannot be read delays no event of the
// other subscriptions.
func TestHandlerPanicsWhileResyncFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, bad, good := newLog(), &recorder{}, &recorder{}
		bad.onEvent = func(activity.Event) { panic("a bug") }
		defer run(log, slog.New(slog.DiscardHandler), bad.subscription(activity.PoolScaled), good.subscription(activity.ClaimFailed))()
		synctest.Wait()
		require.Equal(t, "resync", good.take())
		bad.failResync(errors.New("unavailable"))
		log.add(activity.PoolScaled)
		synctest.Wait()
		log.add(activity.ClaimFailed)
		require.Equal(t, "flush 2 flush", good.take())
		sleep(10 * time.Second)
		log.add(activity.ClaimFailed)
		require.Equal(t, "3 flush", good.take())
	})
}

// A handler that panics is not called again with that event, and stops and delays
// no other handler and no other event. Its subscription looks at everything again
// because of what it missed.
func TestHandlerPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var messages lockedBuilder
		log, bad, good := newLog(), &recorder{}, &recorder{}
		bad.onEvent = func(e activity.Event) {
			if e.Seq == 1 {
				panic("a bug")
			}
		}
		defer run(log, slog.New(slog.NewTextHandler(&messages, nil)), bad.subscription(activity.PoolScaled), good.subscription(activity.PoolScaled))()
		synctest.Wait()
		log.add(activity.PoolScaled, activity.PoolScaled)
		synctest.Wait()
		require.Equal(t, "resync 1 2 flush", bad.take())
		require.Equal(t, "resync 1 2 flush", good.take())
		require.Contains(t, messages.String(), "a bug")
		log.add(activity.PoolScaled)
		require.Equal(t, "3 flush", good.take())
		require.Equal(t, "3 flush", bad.take())
		sleep(2 * retryDelay)
		require.Equal(t, "resync", bad.take())
		require.Empty(t, good.take())
	})
}

// A handler that blocks is reported.
func TestHandlerBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var messages lockedBuilder
		log, r, blocked := newLog(), &recorder{}, make(chan struct{})
		r.onEvent = func(activity.Event) { <-blocked }
		stop := run(log, slog.New(slog.NewTextHandler(&messages, nil)), r.subscription(activity.PoolScaled))
		synctest.Wait()
		log.add(activity.PoolScaled)
		sleep(blockedAfter + time.Second)
		synctest.Wait()
		require.Contains(t, messages.String(), "event handlers are blocked")
		close(blocked)
		stop()
		require.Equal(t, "resync 1 flush", r.take())
	})
}
