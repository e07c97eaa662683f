package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
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
