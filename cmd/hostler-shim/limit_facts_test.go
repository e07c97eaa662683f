package main

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// printLimitFacts changes both halves of each of its limits, one after the other,
// and prints which changes are among the facts. Others cannot be undone by
// everybody, so that a process of its own does it.
func printLimitFacts() int {
	for kind := range 16 {
		var was unix.Rlimit
		if err := unix.Prlimit(0, kind, nil, &was); err != nil {
			logError("read a limit", err)
			return exitFailed
		}
		soft, hard := was, was
		soft.Cur, hard.Max = lowerLimit(min(was.Cur, was.Max)), lowerLimit(was.Max)
		hard.Cur = min(was.Cur, hard.Max)
		fmt.Printf("%d: %s %s\n", kind, limitDiffers(kind, soft), limitDiffers(kind, hard))
	}
	return 0
}

// lowerLimit is a limit that is less, and still enough for this process.
func lowerLimit(n uint64) uint64 {
	if n == unix.RLIM_INFINITY {
		return 1 << 40
	}
	return max(n, 1) - 1
}

// limitDiffers reports whether a limit is among the facts; "none" if it cannot be
// less.
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
// other that has its user.
func TestLimitFacts(t *testing.T) {
	t.Parallel()
	is := runChild(t, nil, "/proc/self/exe", "limits")
	require.Len(t, is, 16)
	for kind, found := range is {
		require.NotContains(t, found, "false", "limit %s", kind)
	}
	require.Contains(t, is[strconv.Itoa(unix.RLIMIT_NOFILE)], "true true")
	require.Contains(t, is["15"], "true", "the last one: how long a process may compute in real time")
}

// The priority of every thread is compared: whichever of them starts the next
// process hands its own on.
func TestSchedulingFactsOfAllThreads(t *testing.T) {
	ready, proceed := make(chan error), make(chan struct{})
	go onDisposableThread(func() {
		ready <- unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), 7)
		<-proceed
	})
	require.NoError(t, <-ready)
	f := make(facts)
	err := schedulingFacts(f)
	close(proceed)
	require.NoError(t, err)
	require.Contains(t, f["the scheduling of init"], "nice 0")
	require.Contains(t, f["the scheduling of init"], "nice 7")
}
