package delivery_test

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/delivery"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/runner"
	"github.com/hostler/hostler/internal/dispatch"
	"github.com/hostler/hostler/runtime/fake"
	"github.com/hostler/hostler/store"
)

const testedWorkload = `
id: w
image: fake/image
command: [sleep, 1000h]
pool: { min_idle: 1, max_size: 3 }
hooks:
  pre_release:
    - { name: first, command: [box, echo, one] }
    - { name: fails, command: [box, exit, "3"], on_error: continue }
    - { name: never, command: [box, echo, never], condition: CLAIM_SOURCE == recycled }
    - { name: retried, command: [box, exit, "4"], on_error: retry, retries: 3 }
    - { name: skipped, command: [box, echo, skipped] }
    - { name: off, command: [box, echo, off], enabled: false }
  events:
    - { name: e, on: [hook], command: [box, echo, event] }
`

// A test runs each hook of a point once, as the point would, and records it as a
// test. The claim stays as it is, no event is delivered, and the point's own runs
// are made at its time.
func TestLiveTest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		s := serviceOn(h, h.DB, nil)
		h.Apply(testedWorkload)
		h.AwaitIdle("w", 1)
		c := h.Claim("w", "ann")
		before, err := h.DB.Claim(t.Context(), c.ID)
		require.NoError(t, err)
		runs, err := s.Test(t.Context(), hooks.PreRelease, before.Subject())
		require.NoError(t, err)
		require.Equal(t, []string{
			"first succeeded", "fails failed", "never skipped", "retried failed", "skipped skipped",
		}, runsOf(runs))
		require.Equal(t, "one\n", runs[0].Stdout.Head)
		require.Equal(t, "test.pre_release", runs[0].Event)
		require.Empty(t, runs[0].Point)
		require.Contains(t, runs[2].Error, "its condition is false")
		require.Contains(t, runs[4].Error, `hook "retried" of the same point failed`)

		recorded, err := h.DB.Runs(t.Context(), hooks.RunFilter{Claim: c.ID})
		require.NoError(t, err)
		require.Equal(t, runsOf(runs), runsOf(recorded))
		for _, e := range h.Events(activity.HookStarted, activity.HookCompleted, activity.HookFailed, activity.HookSkipped) {
			require.Equal(t, 1, e.Depth, "no hook is for the events of a test")
			require.Contains(t, string(e.Data), `"event":"test.pre_release"`)
		}
		after, err := h.DB.Claim(t.Context(), c.ID)
		require.NoError(t, err)
		after.EventCommands = before.EventCommands
		require.Equal(t, before, after)

		released := h.Release(c)
		require.Equal(t, "pre_release", string(released.Hooks[0].Point), "the point's own runs are not those of the test")
		require.Len(t, released.Hooks, len(c.Hooks)+8, "with the retries")
	})
}

// A test starts only while the claim is active, and the release ends it and waits
// for that.
func TestLiveTestAndRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		s := serviceOn(h, h.DB, nil)
		defer followOn(t, h, s)()
		var isTest atomic.Bool
		var ended, own time.Time
		h.RT.AddProgram("long", func(ctx context.Context, _ *fake.Proc) int {
			if !isTest.Swap(false) {
				own = time.Now()
				return 0
			}
			<-ctx.Done()
			ended = time.Now()
			return 1
		})
		h.Apply(flowtest.Edit(testedWorkload, "[box, echo, one]", "[long], timeout: 5m, grace: 0s, on_error: continue"))
		h.AwaitIdle("w", 1)
		c := h.Claim("w", "ann")
		subject, err := h.DB.Claim(t.Context(), c.ID)
		require.NoError(t, err)
		type result struct {
			runs []hooks.Run
			err  error
		}
		done := make(chan result, 1)
		isTest.Store(true)
		go func() {
			runs, err := s.Test(t.Context(), hooks.PreRelease, subject.Subject())
			done <- result{runs, err}
		}()
		<-time.After(time.Second)
		synctest.Wait()
		begin := time.Now()
		h.Release(c)
		got := <-done
		require.ErrorIs(t, got.err, delivery.ErrClaimEnded, "the next hook of the test does not start")
		require.False(t, ended.Before(begin))
		require.Less(t, ended.Sub(begin), 30*time.Second)
		require.False(t, own.Before(ended), "one hook runs in a container at a time")
		require.Equal(t, []string{"first cancelled"}, runsOf(got.runs))

		_, err = s.Test(t.Context(), hooks.PreRelease, subject.Subject())
		require.ErrorIs(t, err, delivery.ErrClaimEnded)
		all, err := h.DB.Runs(t.Context(), hooks.RunFilter{Claim: c.ID, States: []hooks.RunState{hooks.Running}})
		require.NoError(t, err)
		require.Empty(t, all)
		final, err := h.DB.Claim(t.Context(), c.ID)
		require.NoError(t, err)
		require.Equal(t, claim.Released, final.State)
	})
}

// One test of a claim runs at a time, on all servers.
func TestLiveTestsDoNotOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		s := serviceOn(h, h.DB, nil)
		unblock := make(chan struct{})
		h.RT.AddProgram("long", func(context.Context, *fake.Proc) int { <-unblock; return 0 })
		h.Apply(flowtest.Edit(testedWorkload, "[box, echo, one]", "[long]"))
		h.AwaitIdle("w", 1)
		c := h.Claim("w", "ann")
		held, err := h.DB.Claim(t.Context(), c.ID)
		require.NoError(t, err)
		var first errgroup.Group
		first.Go(func() error {
			_, err := s.Test(t.Context(), hooks.PreRelease, held.Subject())
			return err
		})
		synctest.Wait()
		for _, other := range []*delivery.Service{s, serviceOn(h, h.DB, nil)} {
			_, err = other.Test(t.Context(), hooks.PreRelease, held.Subject())
			require.ErrorIs(t, err, delivery.ErrTestRunning)
		}
		close(unblock)
		require.NoError(t, first.Wait())
		runs, err := s.Test(t.Context(), hooks.PreRelease, held.Subject())
		require.NoError(t, err)
		require.Len(t, runs, 5)
	})
}

// A test does not begin between two hooks of another one on the same server.
func TestLiveTestIsWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		db := &betweenHooks{DB: h.DB}
		s := serviceOn(h, db, nil)
		h.Apply(testedWorkload)
		h.AwaitIdle("w", 1)
		c := h.Claim("w", "ann")
		held, err := h.DB.Claim(t.Context(), c.ID)
		require.NoError(t, err)
		db.between = func() error {
			_, err := s.Test(t.Context(), hooks.PreRelease, held.Subject())
			return err
		}
		_, err = s.Test(t.Context(), hooks.PreRelease, held.Subject())
		require.NoError(t, err)
		require.ErrorIs(t, db.err, delivery.ErrTestRunning)
	})
}

// betweenHooks calls a function after the end of the first run of a test.
type betweenHooks struct {
	*store.DB
	between func() error
	err     error
}

func (s *betweenHooks) RunEnded(ctx context.Context, r hooks.Run) error {
	err := s.DB.RunEnded(ctx, r)
	if call := s.between; call != nil {
		s.between = nil
		s.err = call()
	}
	return err
}

// What a test captures is for its later hooks, and for no other run.
func TestLiveTestCaptures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(testedWorkload, "first, command: [box, echo, one]", "first, http: { url: http://x.example/, capture: { KEY: $.id } }"))
		h.AwaitIdle("w", 1)
		c := h.Claim("w", "ann")
		held, err := h.DB.Claim(t.Context(), c.ID)
		require.NoError(t, err)
		x := &fakeExecutor{result: func(context.Context, runner.Attempt) runner.Result {
			return runner.Result{State: hooks.Succeeded, Captured: map[string]string{"KEY": "k-1"}}
		}}
		s := delivery.New(h.DB, delivery.Options{
			Workloads: h.Pools.Catalog, Executors: runner.Executors{hooks.KindHTTP: x, hooks.KindCommand: x},
			TestAttempt: flowtest.HookRunner(h.RT, h.DB, nil).TestAttempt, Log: slog.New(slog.DiscardHandler),
		})
		runs, err := s.Test(t.Context(), hooks.PreRelease, held.Subject())
		require.NoError(t, err)
		require.NotEmpty(t, runs)
		key, _ := x.attempts[1].Lookup("KEY")
		require.Equal(t, "k-1", key.Text)
		captured, err := h.DB.Runs(t.Context(), hooks.RunFilter{Captured: true})
		require.NoError(t, err)
		require.Empty(t, captured)
	})
}

// An executor that panics ends an attempt with an unknown outcome: that of a
// delivery, which is attempted again, and that of a test.
func TestExecutorPanics(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.start()
		r.apply(request("h", "pool"))
		r.executor.end(func(_ context.Context, a runner.Attempt) runner.Result {
			if a.Attempt == 1 {
				panic("a bug")
			}
			return runner.Result{State: hooks.Succeeded}
		})
		r.record(activity.PoolWarning, "a")
		runs, err := r.db.Run(t.Context(), r.only().ID)
		require.NoError(t, err)
		require.Len(t, runs, 1)
		require.Equal(t, hooks.Unknown, runs[0].State)
		require.Equal(t, "panic: a bug", runs[0].Error)
		<-time.After(time.Minute)
		synctest.Wait()
		require.Equal(t, delivery.Succeeded, r.only().State)
	})
}

// followOn has a service handle events until the returned function is called.
func followOn(t *testing.T, h *flowtest.Harness, s *delivery.Service) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	d := dispatch.New(h.DB, slog.New(slog.DiscardHandler), s.EventHandlers())
	var g errgroup.Group
	g.Go(func() error { return d.Run(ctx) })
	return sync.OnceFunc(func() {
		cancel()
		require.NoError(t, g.Wait())
	})
}

func runsOf(runs []hooks.Run) []string {
	var all []string
	for _, r := range runs {
		all = append(all, r.Hook+" "+string(r.State))
	}
	return all
}
