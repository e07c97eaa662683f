package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/workload"
)

// killed is the panic of a server that is killed.
type killed struct{}

// world is a database and a container that survive the server.
type world struct {
	t       *testing.T
	rnd     *rand.Rand
	dead    bool
	events  []string // what was written
	runs    []hooks.Run
	results map[string]Result // what the container knows, by attempt
	done    map[string]int    // how often an attempt's action was performed
	perHook map[string][]hooks.RunState
	cancel  context.CancelCauseFunc
	end     func()
	faults  int // that may still occur
}

func (w *world) find(r hooks.Run) int {
	return slices.IndexFunc(w.runs, func(o hooks.Run) bool { return o.ID == r.ID && o.Attempt == r.Attempt })
}

// maybe reports whether one of the faults occurs, in one of n cases.
func (w *world) maybe(n int) bool { return w.faults > 0 && w.rnd.IntN(n) == 0 }

// point is a moment at which the server may be killed, its flow stopped, or the hooks
// of the container ended.
func (w *world) point() {
	if w.dead {
		panic(killed{})
	}
	if w.maybe(25) {
		w.faults--
		w.dead = true
		panic(killed{})
	}
	if w.maybe(20) {
		w.faults--
		w.cancel(errors.New("stopped"))
	}
	if w.maybe(30) {
		w.faults--
		w.end()
	}
}

// write makes a change, perhaps with a wrong answer.
func (w *world) write(ctx context.Context, f func() error) error {
	w.point()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if w.maybe(8) {
		w.faults--
		return errors.New("not written")
	}
	err := f()
	w.point()
	if w.maybe(8) {
		w.faults--
		return errors.Join(err, errors.New("written, perhaps"))
	}
	return err
}

func (w *world) start(r hooks.Run) error {
	if w.find(r) >= 0 {
		return errors.New("exists")
	}
	for _, o := range w.runs {
		require.NotEqual(w.t, hooks.Running, o.State, "%s starts while %s has not ended", r.Hook, o.Hook)
	}
	w.runs = append(w.runs, r)
	w.events = append(w.events, "start "+r.Hook)
	return nil
}

func (w *world) finish(r hooks.Run) error {
	i := w.find(r)
	if i < 0 {
		return errors.New("not found")
	}
	if w.runs[i].State == hooks.Running {
		w.runs[i] = r
		w.events = append(w.events, fmt.Sprint("end ", r.Hook, " ", r.State))
	}
	return nil
}

func (w *world) RunStarted(ctx context.Context, r hooks.Run) error {
	return w.write(ctx, func() error { return w.start(r) })
}
func (w *world) RunEnded(ctx context.Context, r hooks.Run) error {
	return w.write(ctx, func() error { return w.finish(r) })
}
func (w *world) RunFollowed(ctx context.Context, e, s hooks.Run) error {
	return w.write(ctx, func() error {
		if w.find(e) < 0 || w.find(s) >= 0 {
			return errors.New("refused")
		}
		return errors.Join(w.finish(e), w.start(s))
	})
}
func (w *world) RunSkipped(ctx context.Context, r hooks.Run) error {
	return w.write(ctx, func() error {
		for _, o := range w.runs {
			require.NotEqual(w.t, hooks.Running, o.State, "%s is skipped while %s has not ended", r.Hook, o.Hook)
		}
		if w.find(r) >= 0 {
			return errors.New("exists")
		}
		w.runs = append(w.runs, r)
		return nil
	})
}
func (w *world) Runs(context.Context, hooks.RunFilter) ([]hooks.Run, error) {
	w.point()
	out := slices.Clone(w.runs)
	slices.SortFunc(out, func(a, b hooks.Run) int { return cmp.Or(cmp.Compare(a.ID, b.ID), a.Attempt-b.Attempt) })
	return out, nil
}

func (w *world) Execute(ctx context.Context, a Attempt) Result {
	for _, o := range w.runs {
		if o.State == hooks.Running {
			require.Equal(w.t, a.Run, o.ID, "the action of %s runs while %s has not ended on record", a.Hook, o.Hook)
			require.Equal(w.t, a.Attempt, o.Attempt)
		}
	}
	if ctx.Err() != nil {
		res := Result{State: hooks.Cancelled, Err: context.Cause(ctx), Gone: true}
		w.results[a.ID()] = res
		return res
	}
	w.point()
	w.done[a.ID()]++
	state := []hooks.RunState{hooks.Succeeded, hooks.Succeeded, hooks.Succeeded, hooks.Failed}[w.rnd.IntN(4)]
	res := Result{State: state, Stop: w.rnd.IntN(12) == 0, Gone: true}
	w.results[a.ID()] = res
	w.perHook[a.Hook] = append(w.perHook[a.Hook], state)
	w.point()
	if w.maybe(15) {
		w.faults--
		panic("bug of the executor")
	}
	return res
}
func (w *world) WaitResult(_ context.Context, a Attempt) Result {
	w.point()
	if res, ok := w.results[a.ID()]; ok {
		return res
	}
	return Result{State: hooks.Unknown, Gone: true, Err: runtime.ErrUnknownRun}
}
func (w *world) Ending(r hooks.Run) Ending {
	ran := r.State == hooks.Failed
	return Ending{MayRetry: ran, MayContinue: ran}
}

// Whatever fails, and whenever the server is killed, each attempt has one record and
// one end, which is on record before the next hook is started or skipped and before
// the point has a result, and no action is performed again that may not be.
func TestRecordsOfPointsModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		finished := 0
		for seed := range uint64(2000) {
			if newWorld(t, seed).check(seed) {
				finished++
			}
		}
		require.Positive(t, finished)
	})
}

func newWorld(t *testing.T, seed uint64) *world {
	return &world{
		t: t, rnd: rand.New(rand.NewPCG(seed, 1)), faults: 4,
		results: map[string]Result{}, done: map[string]int{}, perHook: map[string][]hooks.RunState{},
	}
}

// hooks returns a list of hooks with any policies.
func (w *world) hooks() (hs []hooks.Hook) {
	for i := range 1 + w.rnd.IntN(5) {
		h := newRequest(w.t, fmt.Sprint("h", i), "")
		h.OnError = []hooks.OnError{hooks.Fail, hooks.Continue, hooks.Retry}[w.rnd.IntN(3)]
		if h.OnError == hooks.Retry {
			h.Retries, h.OnExhausted = 1, hooks.Continue
		}
		h.Idempotent, h.Disabled = w.rnd.IntN(3) == 0, w.rnd.IntN(5) == 0
		if w.rnd.IntN(5) == 0 {
			h.Condition = condition(w.t, "POINT == pre_release")
		}
		hs = append(hs, h)
	}
	return hs
}

// check fires a point until it has a result, and checks what is on record.
func (w *world) check(seed uint64) (finished bool) {
	hs := w.hooks()
	p := []hooks.Point{hooks.PostClaim, hooks.PreRelease, hooks.PreDestroy, hooks.WaitStart}[w.rnd.IntN(4)]
	for range 12 {
		if finished = w.flow(p, &workload.Workload{Hooks: map[hooks.Point][]hooks.Hook{p: hs}}); finished {
			break
		}
	}
	ids := map[string]string{}
	for _, r := range w.runs {
		require.Contains(w.t, []string{"", r.ID}, ids[r.Hook], "seed %d: %s has two records", seed, r.Hook)
		ids[r.Hook] = r.ID
		require.False(w.t, finished && r.State == hooks.Running, "seed %d: %s %v", seed, r.Hook, w.events)
	}
	for id, n := range w.done {
		require.Equal(w.t, 1, n, "seed %d: %s", seed, id)
	}
	for _, h := range hs {
		ran := w.perHook[h.Name]
		for _, s := range ran[:max(0, len(ran)-1)] {
			require.True(w.t, h.Idempotent || s == hooks.Failed, "seed %d: %s was performed again: %v", seed, h.Name, ran)
		}
	}
	return finished
}

// flow is one life of a server. It reports whether the point has a result.
func (w *world) flow(p hooks.Point, wl *workload.Workload) (ok bool) {
	w.dead = false
	defer func() {
		if v := recover(); v != nil {
			if _, isKill := v.(killed); !isKill && !w.dead {
				panic(v)
			}
			ok = false
		}
		w.dead = false
	}()
	r := New(&stubRuntime{status: runtime.Status{State: runtime.Running}}, w, Executors{hooks.KindHTTP: w}, nil)
	ctx, cancel := context.WithCancelCause(w.t.Context())
	defer cancel(nil)
	w.cancel = cancel
	w.end = func() { r.End("k", w.rnd.IntN(2) == 0, errors.New("forced")) }
	s := Subject{Container: "k", Claim: "c"}
	if p == hooks.WaitStart {
		s.Wait = &Wait{Round: "w.1"}
	}
	_, err := r.Fire(ctx, p, wl, s)
	if w.dead {
		return false
	}
	_, isHook := errors.AsType[*hooks.Error](err)
	return err == nil || isHook
}
