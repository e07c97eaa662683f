package testenv

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// deadlineTB is a testing.TB with a deadline that records why it failed.
type deadlineTB struct {
	testing.TB
	deadline time.Time
	failure  string
}

func (tb *deadlineTB) Helper() {}

func (tb *deadlineTB) Context() context.Context { return context.Background() }

func (tb *deadlineTB) Cleanup(func()) {}

func (tb *deadlineTB) Deadline() (time.Time, bool) { return tb.deadline, !tb.deadline.IsZero() }

func (tb *deadlineTB) Fatalf(format string, args ...any) {
	tb.failure = fmt.Sprintf(format, args...)
	panic(tb.failure)
}

// A wait ends with the value or the end of the channel, however long that takes.
func TestAwaitReturnsValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ch := make(chan int)
		go func() {
			<-time.After(time.Hour)
			ch <- 7
			close(ch)
		}()
		require.Equal(t, 7, Await(t, ch, "a number"))
		require.Zero(t, Await(t, ch, "the end"))
	})
}

// A condition is called until it is true, however long that takes.
func TestAwaitTrue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		AwaitTrue(t, "an hour", func() bool { return time.Since(start) >= time.Hour })
		require.Less(t, time.Since(start), time.Hour+2*maxPoll)
	})
}

// A wait that does not end fails with what it waited for, and before the test
// binary's deadline, after which nothing would be reported.
func TestAwaitFailsBeforeDeadline(t *testing.T) {
	for name, wait := range map[string]func(testing.TB){
		"channel": func(tb testing.TB) { Await(tb, make(chan int), "rain") },
		"context": func(tb testing.TB) {
			ctx := Context(tb)
			<-ctx.Done()
			require.ErrorContains(t, context.Cause(ctx), "the test's deadline")
			tb.Fatalf("%s: not before the test's deadline", "rain")
		},
		"condition": func(tb testing.TB) { AwaitTrue(tb, "rain", func() bool { return false }) },
	} {
		for _, left := range []time.Duration{-time.Second, 0, time.Second, time.Hour} {
			t.Run(name+" "+left.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					tb := &deadlineTB{deadline: time.Now().Add(left)}
					require.Panics(t, func() { wait(tb) })
					require.Equal(t, "rain: not before the test's deadline", tb.failure)
					if left > 0 {
						require.Less(t, time.Now(), tb.deadline)
					}
				})
			})
		}
	}
}

// What is ready is returned also after the deadline: a cleanup may wait for it.
func TestAwaitReadyAfterDeadline(t *testing.T) {
	ch := make(chan int, 1)
	tb := &deadlineTB{deadline: time.Now().Add(-time.Second)}
	for range 100 {
		ch <- 7
		require.Equal(t, 7, Await(tb, ch, "a number"))
	}
	AwaitTrue(tb, "nothing", func() bool { return true })
}

// A benchmark and a bubble have no deadline, and a test outside one has.
func TestDeadlineOf(t *testing.T) {
	_, ok := deadlineOf(&testing.B{})
	require.False(t, ok)
	_, ok = deadlineOf(&deadlineTB{})
	require.False(t, ok)
	synctest.Test(t, func(t *testing.T) {
		_, ok := deadlineOf(t)
		require.False(t, ok)
	})
	want, has := t.Deadline()
	got, ok := deadlineOf(t)
	require.Equal(t, has, ok)
	require.Equal(t, want, got)
}
