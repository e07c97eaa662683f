package main

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// printLimitFacts changes both halves of each of its limits, one after the
// other, and prints which changes the facts contain. Not every user can undo a
// change of a limit, so this runs in a process of its own.
func printLimitFacts() int {
	for kind := range 16 {
		var was unix.Rlimit
		if err := unix.Prlimit(0, kind, nil, &was); err != nil {
			logError("read limit", err)
			return exitFailed
		}
		soft, hard := was, was
		soft.Cur, hard.Max = lowerLimit(min(was.Cur, was.Max)), lowerLimit(was.Max)
		hard.Cur = min(was.Cur, hard.Max)
		fmt.Printf("%d: %s %s\n", kind, limitDiffers(kind, soft), limitDiffers(kind, hard))
	}
	return 0
}

// lowerLimit returns a lower limit that is still enough for this process.
func lowerLimit(n uint64) uint64 {
	if n == unix.RLIM_INFINITY {
		return 1 << 40
	}
	return max(n, 1) - 1
}

// limitDiffers reports whether the facts contain a limit. It returns "none" if
// the limit cannot be lowered.
func limitDiffers(kind int, limit unix.Rlimit) string {
	before, after := make(facts), make(facts)
	var was unix.Rlimit
	if unix.Prlimit(0, kind, nil, &was) != nil || was == limit || limitFacts(before) != nil {
		return "none"
	}
	if unix.Prlimit(0, kind, &limit, nil) != nil || limitFacts(after) != nil {
		return "none"
	}
	return strconv.FormatBool(before.compare(after) != nil)
}

// Both halves of every limit are compared: a process may lower those of any
// other process with the same user.
func TestLimitFacts(t *testing.T) {
	t.Parallel()
	is := runChild(t, nil, "/proc/self/exe", "limits")
	require.Len(t, is, 16)
	for kind, found := range is {
		require.NotContains(t, found, "false", "limit %s", kind)
	}
	require.Contains(t, is[strconv.Itoa(unix.RLIMIT_NOFILE)], "true true")
	require.Contains(t, is["15"], "true", "the last limit: real-time CPU time")
}

// The priority of every thread is compared: any of them may start the next
// process, which inherits it.
func TestSchedulingFactsOfAllThreads(t *testing.T) {
	usual, err := unix.SchedGetAttr(0, 0)
	require.NoError(t, err)
	other := *usual
	other.Policy = unix.SCHED_BATCH
	if usual.Policy == unix.SCHED_BATCH {
		other.Policy = unix.SCHED_IDLE
	}
	ready, proceed := make(chan error), make(chan struct{})
	go onDisposableThread(func() {
		ready <- unix.SchedSetAttr(0, &other, 0)
		<-proceed
	})
	require.NoError(t, <-ready)
	f := make(facts)
	err = schedulingFacts(f)
	close(proceed)
	require.NoError(t, err)
	require.Contains(t, f["the scheduling of init"], fmt.Sprintf("policy %d ", usual.Policy))
	require.Contains(t, f["the scheduling of init"], fmt.Sprintf("policy %d ", other.Policy))
}
