package main

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
	"github.com/hostler/hostler/runtime/shim/proctree"
	"github.com/stretchr/testify/require"
)

// A key is run once, for as long as its outcome is kept; what is kept is
// bounded, in number and in bytes.
func TestRunsAreKept(t *testing.T) {
	t.Parallel()
	r := newRuns()
	output := strings.Repeat("x", 64<<10)
	for i := range keptRuns + 10 {
		one, fresh := r.find(fmt.Sprint(i), func() {})
		require.True(t, fresh)
		again, fresh := r.find(fmt.Sprint(i), func() {})
		require.False(t, fresh)
		require.Same(t, one, again)
		r.finish(one, shim.Answer{Result: &runtime.Result{ExitCode: i, Stdout: runtime.Output{Head: output, Total: 1}}})
	}
	require.Len(t, r.over, keptRuns)
	require.Len(t, r.byKey, keptRuns)
	total := 0
	for _, one := range r.over {
		total += outputSize(one.answer)
	}
	require.Equal(t, r.bytes, total)
	require.LessOrEqual(t, total, keptBytes)

	_, fresh := r.find("5", func() {})
	require.True(t, fresh, "the oldest are forgotten")
	old, fresh := r.find("20", func() {})
	require.False(t, fresh)
	result := r.outcome(old).Result
	require.Equal(t, 20, result.ExitCode)
	require.True(t, result.Stdout.Truncated, "its output is not kept, and that is said")
	require.Empty(t, result.Stdout.Head)
	last, _ := r.find(fmt.Sprint(keptRuns+9), func() {})
	require.Equal(t, output, r.outcome(last).Result.Stdout.Head)

	r.forget()
	_, fresh = r.find("20", func() {})
	require.True(t, fresh, "a wipe forgets another tenant's outcomes")
}

// Nobody is told that a command went well whose processes were killed.
func TestLostRuns(t *testing.T) {
	t.Parallel()
	r := newRuns()
	over, _ := r.find("over", func() {})
	r.finish(over, shim.Answer{Result: &runtime.Result{}})
	under, _ := r.find("under", func() {})
	require.Equal(t, []*run{under}, r.lose())
	r.finish(under, shim.Answer{Result: &runtime.Result{}})
	require.Equal(t, shim.CodeLost, r.outcome(under).Fault.Code)
	require.Nil(t, r.outcome(over).Fault)
}

// pass lets time go by in a synctest bubble.
func pass(d time.Duration) { <-time.After(d) }

// Commands that nobody can be waiting for are ended, but not at once: a server
// that starts again is there soon.
func TestLonely(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var alone atomic.Int64
		g := newGuests(time.Minute, func() { alone.Add(1) })
		a, b := &session{}, &session{}
		g.enter(a, proctree.ID{PID: 1})
		g.enter(b, proctree.ID{PID: 2})
		pass(time.Hour)
		g.leave(a)
		pass(time.Hour)
		require.Zero(t, alone.Load(), "one is there")
		g.leave(b)
		pass(59 * time.Second)
		g.enter(a, proctree.ID{PID: 1})
		pass(time.Hour)
		require.Zero(t, alone.Load(), "it was back in time")
		g.leave(a)
		pass(time.Minute + time.Second)
		require.Equal(t, int64(1), alone.Load())
	})
}
