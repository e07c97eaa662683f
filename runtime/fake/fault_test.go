package fake_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/fake"
)

var errBroken = errors.New("broken")

// A pattern is a prefix, word by word.
func TestBreakPattern(t *testing.T) {
	cases := map[string]bool{
		"exec": true, "exec *": true, "exec * box": true, "exec * box echo hi": true, "* * box": true,
		"": true, "ex": false, "exec c": false, "exec * box echo hi there": false, "start": false,
	}
	for pattern, want := range cases {
		rt := fake.New()
		id := startContainer(t, rt)
		restore := rt.Break(pattern, errBroken)
		_, err := rt.Exec(t.Context(), id, execTestprog("echo", "hi"))
		require.Equal(t, want, errors.Is(err, errBroken), "%q: %v", pattern, err)
		restore()
		_, err = rt.Exec(t.Context(), id, execTestprog("echo", "hi"))
		require.NoError(t, err)
	}
}

func TestBreakOnceAndDropResponse(t *testing.T) {
	rt, ctx := fake.New(), t.Context()
	id := startContainer(t, rt)
	rt.BreakOnce("exec", errBroken)
	_, err := rt.Exec(ctx, id, execTestprog("write", "f", "1"))
	require.ErrorIs(t, err, errBroken)
	mustExec(t, rt, id, "append", "f", "2")
	require.Equal(t, "2", mustExec(t, rt, id, "read", "f"), "the broken call did nothing")

	restore := rt.DropResponse("destroy "+id, runtime.ErrUnavailable)
	require.ErrorIs(t, rt.Destroy(ctx, id), runtime.ErrUnavailable)
	restore()
	_, err = rt.Status(ctx, id)
	require.ErrorIs(t, err, runtime.ErrNotFound, "the action was done")
}

func TestCalls(t *testing.T) {
	rt := fake.New()
	rt.ForgetCalls()
	id := startContainer(t, rt)
	mustExec(t, rt, id, "echo", "hi")
	_, err := rt.List(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"create " + id, "start " + id, "exec " + id + " box echo hi", "list"}, rt.Calls())
	rt.ForgetCalls()
	require.Empty(t, rt.Calls())
}

func TestBlockAndDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New()
		id := startContainer(t, rt)
		reached, release := rt.Block("restart")
		var group sync.WaitGroup
		group.Go(func() { assert.NoError(t, rt.Restart(t.Context(), id, 1)) })
		<-reached
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errBroken)
		defer cancel()
		require.ErrorIs(t, rt.Restart(ctx, id, 1), errBroken, "a blocked call ends with its context")
		release()
		release()
		group.Wait()

		defer rt.Delay("status", time.Minute)()
		start := time.Now()
		_, err := rt.Status(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, time.Minute, time.Since(start))
	})
}

// A watcher misses no exit, gets each once, and reports the loss of the engine.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, ctx := fake.New(), t.Context()
		killed, oom, destroyed, vanished, created := startContainer(t, rt), startContainer(t, rt), startContainer(t, rt), startContainer(t, rt), newSpec()
		restarted := startContainer(t, rt)
		require.NoError(t, rt.Create(ctx, created))
		ready, ended := make(chan struct{}), make(chan error, 1)
		var exits []runtime.Exit
		go func() {
			ended <- rt.Watch(ctx, func() { close(ready) }, func(d runtime.Exit) { exits = append(exits, d) })
		}()
		<-ready
		rt.Kill(killed)
		rt.Kill(killed)
		rt.OOMKill(oom)
		require.NoError(t, rt.Restart(ctx, restarted, 1))
		rt.RemoveExternally(vanished)
		for _, id := range []string{destroyed, created.ID, killed} {
			require.NoError(t, rt.Destroy(ctx, id))
		}
		synctest.Wait()
		now := time.Now()
		require.Equal(t, []runtime.Exit{
			{ID: killed, ExitCode: 137, Time: now}, {ID: oom, ExitCode: 137, OOMKilled: true, Time: now},
			{ID: vanished, ExitCode: 137, Time: now}, {ID: destroyed, ExitCode: 137, Time: now},
			{ID: created.ID, Time: now},
		}, exits)
		status, err := rt.Status(ctx, oom)
		require.NoError(t, err)
		require.True(t, status.OOMKilled)

		rt.SetDown(true)
		require.ErrorIs(t, <-ended, runtime.ErrUnavailable)
		_, err = rt.List(ctx)
		require.ErrorIs(t, err, runtime.ErrUnavailable)
		rt.SetDown(false)
		_, err = rt.List(ctx)
		require.NoError(t, err)
	})
}

// A main process may be any program, and its exit is the container's.
func TestMainProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, ctx := fake.New(), t.Context()
		rt.AddProgram("server", func(_ context.Context, p *fake.Proc) int {
			p.ExitAfter(time.Hour, 9)
			return fake.Park
		})
		spec := newSpec()
		spec.Command = []string{"server"}
		require.NoError(t, rt.Create(ctx, spec))
		require.NoError(t, rt.Start(ctx, spec.ID, 1))
		<-time.After(time.Hour)
		synctest.Wait()
		status, err := rt.Status(ctx, spec.ID)
		require.NoError(t, err)
		require.Equal(t, runtime.Exited, status.State)
		require.Equal(t, 9, status.ExitCode)
	})
}

// All methods may be called concurrently. The race detector checks that.
func TestConcurrentCalls(t *testing.T) {
	rt := fake.New()
	ids := make([]string, 8)
	for i := range ids {
		ids[i] = startContainer(t, rt)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var watching, group sync.WaitGroup
	watching.Go(func() { _ = rt.Watch(ctx, func() {}, func(runtime.Exit) {}) })
	for n := range 8 {
		group.Go(func() {
			for i := range 50 {
				id := ids[(n+i)%len(ids)]
				cmd := execTestprog("hang")
				cmd.Timeout, cmd.Grace = time.Millisecond, new(time.Millisecond)
				calls := []func(){
					func() { _, _ = rt.Exec(ctx, id, cmd) },
					func() { _, _ = rt.Exec(ctx, id, execTestprog("double-fork", "m")) },
					func() { _ = rt.Restart(ctx, id, 1) },
					func() { rt.Kill(id); _ = rt.Start(ctx, id, 1) },
					func() { _ = rt.RecordBaseline(ctx, id, 1); _ = rt.Wipe(ctx, id, 1); _ = rt.Restart(ctx, id, 1) },
					func() { _, _ = rt.List(ctx); rt.Calls() },
					func() { _, _ = rt.CopyOut(ctx, id, "/") },
				}
				calls[(n*3+i)%len(calls)]()
			}
		})
	}
	group.Wait()
	cancel()
	watching.Wait()
	for _, id := range ids {
		require.NoError(t, rt.Destroy(t.Context(), id))
	}
}

func BenchmarkExec(b *testing.B) {
	rt := fake.New()
	id := startContainer(b, rt)
	cmd := execTestprog("exit", "0")
	for b.Loop() {
		if _, err := rt.Exec(b.Context(), id, cmd); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLifecycle(b *testing.B) {
	rt := fake.New()
	b.ReportAllocs()
	for b.Loop() {
		id := startContainer(b, rt)
		if rt.RecordBaseline(b.Context(), id, 1) != nil || rt.Wipe(b.Context(), id, 1) != nil ||
			rt.Restart(b.Context(), id, 1) != nil || rt.Destroy(b.Context(), id) != nil {
			b.Fatal("a call failed")
		}
	}
}
