package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
)

// memoryLog is a log in memory that can be unavailable and lose old events.
type memoryLog struct {
	mu      sync.Mutex
	events  []activity.Event
	pruned  int64
	err     error
	changed chan struct{}
	reads   int
	rewinds int
}

func newLog() *memoryLog { return &memoryLog{changed: make(chan struct{})} }

func (l *memoryLog) add(types ...activity.Type) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range types {
		l.events = append(l.events, activity.Event{Seq: int64(len(l.events) + 1), Type: t})
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *memoryLog) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
}

// lose removes the newest events, whose numbers are given again.
func (l *memoryLog) lose(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = l.events[:len(l.events)-n]
	l.rewinds++
}

func (l *memoryLog) prune(seq int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pruned = seq
}

func (l *memoryLog) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

func (l *memoryLog) LastSeq(context.Context) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int64(len(l.events)), l.err
}

func (l *memoryLog) Events(_ context.Context, _ activity.Filter, after int64, limit int) (activity.Page, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reads++
	if l.err != nil {
		return activity.Page{}, l.err
	}
	after = min(after, int64(len(l.events)))
	p := activity.Page{Next: int64(len(l.events)), Rewinds: l.rewinds}
	if after < l.pruned {
		p.OldestSeq, after = l.pruned+1, l.pruned
	}
	p.Items = l.events[after:min(after+int64(limit), int64(len(l.events)))]
	if n := len(p.Items); n > 0 {
		p.Next = p.Items[n-1].Seq
	}
	return p, nil
}

// recorder is a subscription that records what is called.
type recorder struct {
	mu      sync.Mutex // guards trace and resync
	trace   []string
	resync  error
	onEvent func(activity.Event)
}

func (r *recorder) record(what string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trace = append(r.trace, what)
	return r.resync
}

func (r *recorder) failResync(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.resync = err
}

func (r *recorder) subscription(types ...activity.Type) Subscription {
	on := map[activity.Type]func(activity.Event){}
	for _, typ := range types {
		on[typ] = func(e activity.Event) {
			_ = r.record(fmt.Sprint(e.Seq)) // the error is of Resync
			if r.onEvent != nil {
				r.onEvent(e)
			}
		}
	}
	return Subscription{
		Name: "test", On: on,
		Flush:  func() { _ = r.record("flush") },
		Resync: func(context.Context) error { return r.record("resync") },
	}
}

// take returns what was called since the last take.
func (r *recorder) take() string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	s := strings.Join(r.trace, " ")
	r.trace = nil
	return s
}

// run runs a dispatcher until the returned function is called.
func run(log Log, logger *slog.Logger, s ...Subscription) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = New(log, logger, s...).Run(ctx) // it returns nil
	}()
	return func() { cancel(); <-done }
}

// Handlers get the events of their types in the order of the log, from its end
// on, after everything was looked at once.
func TestEventsReachTheirHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, r := newLog(), &recorder{}
		log.add(activity.PoolScaled, activity.PoolScaled)
		defer run(log, slog.New(slog.DiscardHandler), r.subscription(activity.PoolScaled, activity.ClaimFailed))()
		require.Equal(t, "resync", r.take())
		log.add(activity.PoolScaled, activity.PoolCreated, activity.ClaimFailed)
		require.Equal(t, "3 5 flush", r.take())
		log.add(activity.PoolCreated)
		require.Equal(t, "flush", r.take())
		sleep(time.Hour)
		require.Empty(t, r.take())
	})
}

// A burst is handled completely, with few reads.
func TestBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, handled := newLog(), 0
		s := Subscription{On: map[activity.Type]func(activity.Event){activity.PoolScaled: func(activity.Event) { handled++ }}}
		defer run(log, slog.New(slog.DiscardHandler), s)()
		synctest.Wait()
		log.reads = 0
		for range 100 {
			log.add(slices.Repeat([]activity.Type{activity.PoolScaled}, 99)...)
		}
		synctest.Wait()
		require.Equal(t, 9900, handled)
		require.LessOrEqual(t, log.reads, 100+9900/batchSize)
	})
}

// While the log cannot be read nothing is lost: the events come afterwards, and
// before them everything is looked at.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, r := newLog(), &recorder{}
		log.fail(errors.New("unavailable"))
		defer run(log, slog.New(slog.DiscardHandler), r.subscription(activity.PoolScaled))()
		log.add(activity.PoolScaled)
		sleep(time.Minute)
		require.Empty(t, r.take(), "the start is unknown")
		log.fail(nil)
		sleep(2 * retryDelay)
		require.Equal(t, "resync", r.take())
		log.fail(errors.New("unavailable"))
		log.add(activity.PoolScaled)
		sleep(time.Minute)
		require.Empty(t, r.take())
		log.fail(nil)
		sleep(2 * retryDelay)
		require.Equal(t, "resync 2 flush", r.take())
	})
}

// Where retention was faster, everything is looked at once.
func TestMissedEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, r, unblock := newLog(), &recorder{}, make(chan struct{})
		r.onEvent = func(e activity.Event) {
			if e.Seq == 1 {
				<-unblock
			}
		}
		defer run(log, slog.New(slog.DiscardHandler), r.subscription(activity.PoolScaled))()
		synctest.Wait()
		log.add(activity.PoolScaled)
		synctest.Wait()
		log.add(activity.PoolScaled, activity.PoolScaled, activity.PoolScaled)
		log.prune(3)
		close(unblock)
		require.Equal(t, "resync 1 flush resync 4 flush", r.take())
	})
}

// Where the database lost events in a failover and their numbers are given to
// others, everything is looked at, and the next events are handled.
func TestLostEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, r := newLog(), &recorder{}
		defer run(log, slog.New(slog.DiscardHandler), r.subscription(activity.PoolScaled))()
		synctest.Wait()
		log.add(activity.PoolScaled, activity.PoolScaled, activity.PoolScaled)
		require.Equal(t, "resync 1 2 3 flush", r.take())
		log.lose(2)
		log.add(activity.PoolScaled, activity.PoolScaled, activity.PoolScaled)
		require.Equal(t, "resync", r.take())
		log.add(activity.PoolScaled)
		require.Equal(t, "5 flush", r.take())
	})
}

// A subscription that only has Flush learns of missed events by it.
func TestLostEventsFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, r := newLog(), &recorder{}
		s := r.subscription()
		s.Resync = nil
		defer run(log, slog.New(slog.DiscardHandler), s)()
		synctest.Wait()
		log.add(activity.PoolScaled)
		require.Equal(t, "flush flush", r.take())
		log.lose(1)
		log.add(activity.PoolScaled)
		require.Equal(t, "flush", r.take())
	})
}

// Run returns when the handlers have: nothing is called after it.
func TestStopWaitsForHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, r, blocked := newLog(), &recorder{}, make(chan struct{})
		r.onEvent = func(activity.Event) { <-blocked }
		stop := run(log, slog.New(slog.DiscardHandler), r.subscription(activity.PoolScaled))
		synctest.Wait()
		log.add(activity.PoolScaled)
		synctest.Wait()
		stopped := make(chan struct{})
		go func() { stop(); close(stopped) }()
		synctest.Wait()
		select {
		case <-stopped:
			t.Fatal("stopped while a handler was running")
		default:
		}
		close(blocked)
		<-stopped
		log.add(activity.PoolScaled)
		require.Equal(t, "resync 1 flush", r.take())
	})
}

// An event that is recorded while others are read is not missed.
func TestEventDuringRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, r := newLog(), &recorder{}
		defer run(log, slog.New(slog.DiscardHandler), r.subscription(activity.PoolScaled))()
		synctest.Wait()
		r.onEvent = func(e activity.Event) {
			if e.Seq == 1 {
				log.add(activity.PoolScaled)
			}
		}
		log.add(activity.PoolScaled)
		require.Equal(t, "resync 1 flush 2 flush", r.take())
	})
}

func sleep(d time.Duration) { <-time.After(d) }
