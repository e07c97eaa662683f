package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
	"github.com/stretchr/testify/require"
)

// A run ID runs once as long as its outcome is kept. The kept outcomes are
// bounded in number and in bytes.
func TestFinishedRunsAreBounded(t *testing.T) {
	t.Parallel()
	r := newRuns()
	output := strings.Repeat("x", 64<<10)
	for i := range maxKeptRuns + 10 {
		one, created := r.getOrCreate(fmt.Sprint(i), func() {})
		require.True(t, created)
		again, created := r.getOrCreate(fmt.Sprint(i), func() {})
		require.False(t, created)
		require.Same(t, one, again)
		r.finish(one, shim.Response{Result: &runtime.Result{ExitCode: i, Stdout: runtime.Output{Head: output, Total: 1}}})
	}
	require.Len(t, r.finished, maxKeptRuns)
	require.Len(t, r.byID, maxKeptRuns)
	total := 0
	for _, one := range r.finished {
		total += outputSize(one.response)
	}
	require.Equal(t, r.bytes, total)
	require.LessOrEqual(t, total, maxKeptBytes)

	_, created := r.getOrCreate("5", func() {})
	require.True(t, created, "the oldest are dropped")
	old, created := r.getOrCreate("20", func() {})
	require.False(t, created)
	result := r.response(old).Result
	require.Equal(t, 20, result.ExitCode)
	require.True(t, result.Stdout.Truncated, "its output was dropped and is marked as truncated")
	require.Empty(t, result.Stdout.Head)
	last, _ := r.getOrCreate(fmt.Sprint(maxKeptRuns+9), func() {})
	require.Equal(t, output, r.response(last).Result.Stdout.Head)

	r.reset()
	_, created = r.getOrCreate("20", func() {})
	require.True(t, created, "a wipe drops another tenant's outcomes")
}

// A command whose processes were killed is never reported as successful.
func TestKilledRunsAreLost(t *testing.T) {
	t.Parallel()
	r := newRuns()
	ended, _ := r.getOrCreate("over", func() {})
	r.finish(ended, shim.Response{Result: &runtime.Result{}})
	unfinished, _ := r.getOrCreate("under", func() {})
	require.Equal(t, []*run{unfinished}, r.markLost())
	r.finish(unfinished, shim.Response{Result: &runtime.Result{}})
	require.Equal(t, shim.CodeContainerExited, r.response(unfinished).Error.Code)
	require.Nil(t, r.response(ended).Error)
}
