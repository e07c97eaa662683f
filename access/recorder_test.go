package access

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/runtime"
)

// A start is recorded before CommandStarting returns, and has one end.
func TestCommandHasOneEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.start(t, "1")
		started := r.store.took()
		require.Equal(t, []activity.Type{activity.ExecStarted}, typesOf(started))
		require.Equal(t, activity.ExecStartedData{Command: "1", Program: "make"}, dataOf[activity.ExecStartedData](t, started[0]))
		require.NotContains(t, string(started[0].Data)+started[0].Message, "secret")
		r.CommandEnded(granted, "1", runtime.Result{Duration: time.Second, Stdout: runtime.Output{Head: "secret", Total: 6}}, nil)
		r.CommandEnded(granted, "1", runtime.Result{ExitCode: 1}, nil)
		r.CommandEnded(granted, "2", runtime.Result{}, nil)
		ended := r.pass(time.Second)
		require.Equal(t, []activity.Type{activity.ExecCompleted}, typesOf(ended))
		require.Equal(t, activity.ExecEndedData{Command: "1", DurationMS: 1000, ExitCode: new(0), Output: 6, Program: "make"},
			dataOf[activity.ExecEndedData](t, ended[0]))
		require.Equal(t, "c k ann web", strings.Join([]string{ended[0].Claim, ended[0].Container, ended[0].Tenant, ended[0].Workload}, " "))
		require.Empty(t, r.pass(10*time.Minute))
		require.Equal(t, map[activity.Type]int{activity.ExecCompleted: 1}, r.used)
	})
}

// Each way in which a command ends has its event. Errors after which it may still run
// have none.
func TestEndsOfCommands(t *testing.T) {
	for name, c := range map[string]struct {
		result runtime.Result
		err    error
		want   activity.Type
		reason string
	}{
		"exit code":   {runtime.Result{ExitCode: 3}, nil, activity.ExecFailed, ""},
		"signal":      {runtime.Result{ExitCode: 137, Signal: "SIGKILL"}, nil, activity.ExecFailed, ""},
		"timeout":     {runtime.Result{TimedOut: true}, nil, activity.ExecFailed, ""},
		"limit":       {runtime.Result{Exceeded: runtime.LimitOutput}, nil, activity.ExecFailed, ""},
		"success":     {runtime.Result{}, nil, activity.ExecCompleted, ""},
		"no start":    {runtime.Result{}, &runtime.StartError{Reason: runtime.StartBinaryNotFound, Detail: "secret"}, activity.ExecFailed, "it could not be started: binary_not_found"},
		"too many":    {runtime.Result{}, runtime.ErrTooManyCommands, activity.ExecFailed, "it could not be started: too many commands are running"},
		"old":         {runtime.Result{}, runtime.ErrUnsupported, activity.ExecFailed, "it could not be started: an older server created the container"},
		"exited":      {runtime.Result{}, runtime.ErrContainerExited, activity.ExecFailed, "the container exited"},
		"released":    {runtime.Result{}, runtime.ErrStaleFence, activity.ExecFailed, "the claim was released"},
		"unavailable": {runtime.Result{}, runtime.ErrUnavailable, "", ""},
		"cancelled":   {runtime.Result{}, context.Canceled, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				r.commands.report(nil, runtime.CommandStatus{ID: "1"})
				r.start(t, "1")
				r.store.took()
				r.CommandEnded(granted, "1", c.result, c.err)
				all := r.pass(time.Second)
				if c.want == "" {
					require.Empty(t, all)
					require.Empty(t, r.pass(5*time.Minute), "it runs")
					return
				}
				require.Equal(t, []activity.Type{c.want}, typesOf(all))
				data := dataOf[activity.ExecEndedData](t, all[0])
				require.Equal(t, c.reason, data.Reason)
				require.Equal(t, c.reason == "", data.ExitCode != nil)
				require.NotContains(t, string(all[0].Data)+all[0].Message, "secret")
			})
		})
	}
}

// What is beyond the limits costs nothing, is counted, and the next event of the kind
// has the number.
func TestUsesAreLimited(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		read := func(g Grant, n int) {
			for range n {
				r.FileUsed(g, FileUse{Action: FileRead, Path: "/a"}, 1)
			}
		}
		other := granted
		other.Claim.ID = "other"
		read(granted, useBurst+7)
		read(other, 1)
		r.RequestCompleted(granted, PortUse{Port: 80}, RequestDone{})
		r.FileUsed(granted, FileUse{Action: FileStat, Path: "/a"}, 1)
		require.Len(t, r.pass(100*time.Millisecond), useBurst+2, "another claim and another kind have their own limits")
		require.Equal(t, map[string]int{"file": 7}, r.omitted)
		require.Equal(t, useBurst+8, r.used[activity.FileRead])
		<-time.After(2 * useInterval)
		read(granted, 3)
		all := r.pass(100 * time.Millisecond)
		require.Len(t, all, 2)
		require.EqualValues(t, 7, dataOf[activity.FileUsedData](t, all[0]).Omitted)
		require.Zero(t, dataOf[activity.FileUsedData](t, all[1]).Omitted)
		require.Empty(t, r.pass(forgetAfter*2))
		read(granted, useBurst+1)
		all = r.pass(100 * time.Millisecond)
		require.Len(t, all, useBurst)
		require.EqualValues(t, 1, dataOf[activity.FileUsedData](t, all[0]).Omitted, "a number is kept while nothing happens")
		require.Empty(t, r.pass(forgetLostAfter*2))
		require.Empty(t, r.limits.uses, "a claim that does nothing is forgotten")
	})
}

// A command that is left out has neither a start nor an end, and its end costs nothing.
func TestOmittedCommandHasNoEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		for i := range useBurst {
			r.start(t, string(rune('A'+i)))
			r.CommandEnded(granted, string(rune('A'+i)), runtime.Result{}, nil)
		}
		synctest.Wait()
		r.pass(100 * time.Millisecond)
		r.start(t, "left out")
		before := len(r.store.batches)
		r.CommandEnded(granted, "left out", runtime.Result{}, nil)
		require.Empty(t, r.pass(100*time.Millisecond))
		require.Len(t, r.store.batches, before)
		require.Equal(t, useBurst+1, r.used[activity.ExecCompleted])
		require.Empty(t, r.limits.commands)
		<-time.After(useInterval)
		r.start(t, "next")
		require.EqualValues(t, 1, dataOf[activity.ExecStartedData](t, r.store.took()[0]).Omitted)
	})
}

// While as many commands are open as may, others are left out, and run.
func TestOpenCommandsAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.commands.report(runtime.ErrUnavailable)
		for i := range MaxOpenCommands {
			<-time.After(useInterval)
			r.start(t, string(rune('A'+i)))
		}
		r.store.took()
		<-time.After(time.Minute)
		r.start(t, "one more")
		require.Empty(t, r.store.took())
		require.Equal(t, map[string]int{"exec": 1}, r.omitted)
	})
}

// An error of the store is one of CommandStarting: the command must not start.
func TestStartThatIsNotRecorded(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.store.failing = claim.ErrNotActive
		err := r.CommandStarting(t.Context(), granted, CommandUse{ID: "1"})
		require.ErrorIs(t, err, claim.ErrNotActive)
	})
}

// Uses are recorded together, in order, and again if that fails. What cannot be
// recorded is counted; an end is then found in the container.
func TestUsesAreBatched(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		use := func() {
			r.FileUsed(granted, FileUse{Action: FileRead, Path: "/a"}, 1)
			r.FileUsed(granted, FileUse{Action: FileWrite, Path: "/a"}, 1)
			r.CommandEnded(granted, "1", runtime.Result{}, nil)
			r.FileUsed(granted, FileUse{Action: FileRemove, Path: "/a"}, 1)
		}
		r.start(t, "1")
		r.store.took()
		r.store.fails = recordTries - 1
		use()
		want := []activity.Type{activity.FileRead, activity.FileWritten, activity.ExecCompleted, activity.FileRemoved}
		require.Equal(t, want, typesOf(r.pass(recordTries*recordRetry)))
		require.Equal(t, slices.Repeat([]int{4}, recordTries), r.store.batches)

		r.start(t, "1")
		r.store.took()
		r.store.fails = recordTries
		use()
		require.Empty(t, r.pass(recordTries*recordRetry))
		ended := time.Now()
		r.commands.report(nil, runtime.CommandStatus{ID: "1", Ended: &ended, Output: 3, Result: &runtime.Result{ExitCode: 2}})
		all := r.pass(sweepAfter + sweepInterval)
		require.Equal(t, []activity.Type{activity.ExecFailed}, typesOf(all))
		require.EqualValues(t, 3, dataOf[activity.ExecEndedData](t, all[0]).Output)
		use()
		require.EqualValues(t, 3, dataOf[activity.FileUsedData](t, r.pass(time.Second)[0]).Omitted)
	})
}

// The queue has a bound, and a use never waits for it.
func TestQueueIsBounded(t *testing.T) {
	r := NewRecorder(RecorderOptions{Store: &useStore{}, Log: slog.New(slog.DiscardHandler)})
	for i := range queuedUses + 10 {
		g := granted
		g.Claim.ID = string(rune(i))
		r.RequestCompleted(g, PortUse{}, RequestDone{})
		r.CommandEnded(g, "1", runtime.Result{}, nil)
	}
	require.Len(t, r.queue, queuedUses)
	require.EqualValues(t, 1, r.limits.of(string(rune(queuedUses)), "request").omitted)
}

// A server that stops records what is queued.
func TestStopRecordsTheQueue(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		for range useBurst {
			r.FileUsed(granted, FileUse{Action: FileRead, Path: "/a"}, 1)
			r.RequestCompleted(granted, PortUse{Port: 80}, RequestDone{})
		}
		r.stop()
		require.Len(t, r.store.took(), 2*useBurst)
	})
}

// A name of the tenant is recorded without what could do harm, and not in full.
func TestNamesAreCleaned(t *testing.T) {
	for given, want := range map[string]string{
		"make": "make", "/usr/bin/make": "make", "./a/b/": "b", "": "", "/": "/", "a\x1b[2Jb": "a\ufffd[2Jb", "\u202egnp.exe": "\ufffdgnp.exe",
		"a\nb": "a\ufffdb", "\xff": "\ufffd", strings.Repeat("é", 100): strings.Repeat("é", maxProgram),
	} {
		require.Equal(t, want, programOf([]string{given, "argument"}))
	}
	require.Empty(t, programOf(nil))
	long := recordedPath("/" + strings.Repeat("é", 1000))
	require.Equal(t, "/"+strings.Repeat("é", 255), long)
	require.Equal(t, "/a\ufffdb/c", recordedPath("/a\x00b/c"))
	require.Len(t, recordedPath(strings.Repeat("a", 1000)), maxPath)
}

// The data of requests and files is what was done, without content.
func TestDataOfUses(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.RequestCompleted(granted, PortUse{Port: 8080, Method: "GET", Path: "/secret", Host: "secret"},
			RequestDone{Status: 200, Sent: 1, Received: 2, Duration: time.Millisecond})
		r.FileUsed(granted, FileUse{Action: FileWrite, Path: "/w/a"}, 9)
		all := r.pass(time.Second)
		require.Equal(t, activity.RequestCompletedData{Port: 8080, Method: "GET", Status: 200, Sent: 1, Received: 2, DurationMS: 1},
			dataOf[activity.RequestCompletedData](t, all[0]))
		require.NotContains(t, string(all[0].Data)+all[0].Message, "secret")
		require.Equal(t, activity.FileUsedData{Path: "/w/a", Bytes: 9}, dataOf[activity.FileUsedData](t, all[1]))
		for _, e := range all {
			require.False(t, e.Untrusted)
			require.Zero(t, e.Depth)
			require.Equal(t, "c k ann web", strings.Join([]string{e.Claim, e.Container, e.Tenant, e.Workload}, " "))
		}
	})
}

// A request that is repeated beyond the limits is not another command: the one that
// runs has its end.
func TestRepeatedStartBeyondTheLimits(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		for range useBurst {
			_ = r.CommandStarting(t.Context(), granted, CommandUse{ID: "1"})
		}
		for range 3 {
			require.ErrorIs(t, r.CommandStarting(t.Context(), granted, CommandUse{ID: "1"}), ErrCommandOpen)
		}
		require.Empty(t, r.limits.commands)
		r.CommandEnded(granted, "1", runtime.Result{}, nil)
		require.Equal(t, []activity.Type{activity.ExecStarted, activity.ExecCompleted}, typesOf(r.pass(100*time.Millisecond)))
		require.Equal(t, map[activity.Type]int{activity.ExecCompleted: 1}, r.used)
		require.Empty(t, r.omitted)
		<-time.After(2 * useInterval)
		r.start(t, "2")
		require.Zero(t, dataOf[activity.ExecStartedData](t, r.store.took()[0]).Omitted)
	})
}

// What is remembered of the commands of a claim has a bound.
func TestKnownCommandsAreBounded(t *testing.T) {
	var l limits
	last := commandKey{}
	for i := range 3 * maxKnownCommands {
		last = commandKey{"c", string(rune(i))}
		l.setRecorded(last)
	}
	a := l.of("c", activity.ExecSubject)
	require.Len(t, a.known, maxKnownCommands)
	require.True(t, l.isRecorded(last))
	l.setEnded(last)
	require.False(t, l.isRecorded(last))
	require.True(t, l.isEnded(last))
	require.Len(t, a.known, maxKnownCommands)
}

// A tenant who reads the output of a command that has ended again and again takes
// nothing of the queue, which has the uses of others.
func TestEndIsQueuedOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.start(t, "1")
		for range 2 * queuedUses {
			r.CommandEnded(granted, "1", runtime.Result{}, nil)
			r.CommandEnded(granted, "of another server", runtime.Result{}, nil)
		}
		require.LessOrEqual(t, len(r.queue), 2)
		require.Len(t, r.pass(time.Second), 2)
		r.start(t, "1")
		r.CommandEnded(granted, "1", runtime.Result{}, nil)
		require.Len(t, r.pass(time.Second), 2, "another command with the same ID")
	})
}
