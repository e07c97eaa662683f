package fake_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/fake"
)

var errBroken = errors.New("broken")

// A pattern is a prefix, word by word.
func TestBreak(t *testing.T) {
	cases := map[string]bool{
		"exec": true, "exec *": true, "exec * box": true, "exec * box echo hi": true, "* * box": true,
		"": true, "ex": false, "exec c": false, "exec * box echo hi there": false, "start": false,
	}
	for pattern, want := range cases {
		rt := fake.New()
		id := started(t, rt)
		mend := rt.Break(pattern, errBroken)
		_, err := rt.Exec(t.Context(), id, boxed("echo", "hi"))
		require.Equal(t, want, errors.Is(err, errBroken), "%q: %v", pattern, err)
		mend()
		_, err = rt.Exec(t.Context(), id, boxed("echo", "hi"))
		require.NoError(t, err)
	}
}

func TestBreakOnceAndLoseAnswer(t *testing.T) {
	rt, ctx := fake.New(), t.Context()
	id := started(t, rt)
	rt.BreakOnce("exec", errBroken)
	_, err := rt.Exec(ctx, id, boxed("write", "f", "1"))
	require.ErrorIs(t, err, errBroken)
	must(t, rt, id, "append", "f", "2")
	require.Equal(t, "2", must(t, rt, id, "read", "f"), "the broken call did nothing")

	mend := rt.LoseAnswer("destroy "+id, runtime.ErrUnavailable)
	require.ErrorIs(t, rt.Destroy(ctx, id), runtime.ErrUnavailable)
	mend()
	_, err = rt.Status(ctx, id)
	require.ErrorIs(t, err, runtime.ErrNotFound, "the deed was done")
}

func TestCalls(t *testing.T) {
	rt := fake.New()
	rt.ForgetCalls()
	id := started(t, rt)
	must(t, rt, id, "echo", "hi")
	_, err := rt.List(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"create " + id, "start " + id, "exec " + id + " box echo hi", "list"}, rt.Calls())
	rt.ForgetCalls()
	require.Empty(t, rt.Calls())
}

func TestBlockAndDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New()
		id := started(t, rt)
		reached, release := rt.Block("restart")
		var group sync.WaitGroup
		group.Go(func() { require.NoError(t, rt.Restart(t.Context(), id, 1)) })
		<-reached
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errBroken)
		defer cancel()
		require.ErrorIs(t, rt.Restart(ctx, id, 1), errBroken, "a held call ends with its context")
		release()
		release()
		group.Wait()

		defer rt.Delay("status", time.Minute)()
		began := time.Now()
		_, err := rt.Status(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, time.Minute, time.Since(began))
	})
}

// A watcher misses no death, learns of each once, and of the engine's too.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, ctx := fake.New(), t.Context()
		killed, oom, destroyed, vanished, created := started(t, rt), started(t, rt), started(t, rt), started(t, rt), newSpec()
		restarted := started(t, rt)
		require.NoError(t, rt.Create(ctx, created))
		ready, ended := make(chan struct{}), make(chan error, 1)
		var deaths []runtime.Death
		go func() {
			ended <- rt.Watch(ctx, func() { close(ready) }, func(d runtime.Death) { deaths = append(deaths, d) })
		}()
		<-ready
		rt.Kill(killed)
		rt.Kill(killed)
		rt.KillForMemory(oom)
		require.NoError(t, rt.Restart(ctx, restarted, 1))
		rt.Vanish(vanished)
		for _, id := range []string{destroyed, created.ID, killed} {
			require.NoError(t, rt.Destroy(ctx, id))
		}
		synctest.Wait()
		now := time.Now()
		require.Equal(t, []runtime.Death{
			{ID: killed, ExitCode: 137, Time: now}, {ID: oom, ExitCode: 137, OOMKilled: true, Time: now},
			{ID: vanished, ExitCode: 137, Time: now}, {ID: destroyed, ExitCode: 137, Time: now},
			{ID: created.ID, Time: now},
		}, deaths)
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

// A main process may be any program, and its end is the container's.
func TestMainProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, ctx := fake.New(), t.Context()
		rt.Program("server", func(_ context.Context, p *fake.Proc) int {
			p.ExitAfter(time.Hour, 9)
			return fake.Park
		})
		spec := newSpec()
		spec.Command = []string{"server"}
		require.NoError(t, rt.Create(ctx, spec))
		require.NoError(t, rt.Start(ctx, spec.ID))
		<-time.After(time.Hour)
		synctest.Wait()
		status, err := rt.Status(ctx, spec.ID)
		require.NoError(t, err)
		require.Equal(t, runtime.Exited, status.State)
		require.Equal(t, 9, status.ExitCode)
	})
}

// Everything may be called by everybody at once. The race detector judges.
func TestAtOnce(t *testing.T) {
	rt := fake.New()
	ids := make([]string, 8)
	for i := range ids {
		ids[i] = started(t, rt)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var watching, group sync.WaitGroup
	watching.Go(func() { _ = rt.Watch(ctx, func() {}, func(runtime.Death) {}) })
	for n := range 8 {
		group.Go(func() {
			for i := range 50 {
				id := ids[(n+i)%len(ids)]
				cmd := boxed("hang")
				cmd.Timeout, cmd.Grace = time.Millisecond, time.Millisecond
				calls := []func(){
					func() { _, _ = rt.Exec(ctx, id, cmd) },
					func() { _, _ = rt.Exec(ctx, id, boxed("double-fork", "m")) },
					func() { _ = rt.Restart(ctx, id, 1) },
					func() { rt.Kill(id); _ = rt.Start(ctx, id) },
					func() { _ = rt.Seal(ctx, id, 1); _ = rt.Wipe(ctx, id, 1); _ = rt.Restart(ctx, id, 1) },
					func() { _, _ = rt.List(ctx); rt.Calls() },
					func() { _, _ = rt.GetFiles(ctx, id, "/") },
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
	id := started(b, rt)
	cmd := boxed("exit", "0")
	for b.Loop() {
		if _, err := rt.Exec(b.Context(), id, cmd); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLife(b *testing.B) {
	rt := fake.New()
	b.ReportAllocs()
	for b.Loop() {
		id := started(b, rt)
		if rt.Seal(b.Context(), id, 1) != nil || rt.Wipe(b.Context(), id, 1) != nil ||
			rt.Restart(b.Context(), id, 1) != nil || rt.Destroy(b.Context(), id) != nil {
			b.Fatal("a call failed")
		}
	}
}
