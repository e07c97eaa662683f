package runner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/runtime"
)

// End has the hooks of a container end, because it is destroyed by force: those
// of every point that is being fired here, and those of claims and creations
// that are fired later. Hooks of pre_destroy end only if now is set. cause is
// recorded as the reason.
func (r *Runner) End(container string, now bool, cause error) {
	e := &r.endings
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended == nil {
		e.ended = map[string]ending{}
	}
	e.ended[container] = ending{cause, now || e.ended[container].now}
	for f := range e.firings {
		if f.container == container && (now || !f.isLast) {
			f.cancel(cause)
		}
	}
}

// Forget removes what End has recorded of a container that is destroyed.
func (r *Runner) Forget(container string) {
	r.endings.mu.Lock()
	defer r.endings.mu.Unlock()
	delete(r.endings.ended, container)
}

// endings are the points that are being fired, and the containers whose hooks
// were ended.
type endings struct {
	mu      sync.Mutex // guards the fields below, and those of firings
	firings map[*firing]struct{}
	ended   map[string]ending
}

// ending is what End has recorded of a container.
type ending struct {
	cause error
	now   bool
}

// firing is a point that is being fired.
type firing struct {
	endings   *endings
	container string
	isLast    bool // it is pre_destroy
	cause     error
	cancels   []context.CancelCauseFunc
}

// begin adds a point that is fired now. ended is why its hooks do not run, or nil.
// The caller must call stop.
func (e *endings) begin(container string, isLast bool) (f *firing, ended error) {
	f = &firing{endings: e, container: container, isLast: isLast}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.firings == nil {
		e.firings = map[*firing]struct{}{}
	}
	e.firings[f] = struct{}{}
	return f, e.cause(container, isLast)
}

// causeOf returns why the hooks of a container were ended, or nil.
func (e *endings) causeOf(container string, isLast bool) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.cause(container, isLast)
}

// cause is causeOf for a caller that holds the lock.
func (e *endings) cause(container string, isLast bool) error {
	if k := e.ended[container]; k.now || !isLast {
		return k.cause
	}
	return nil
}

// context returns a context that ends with ctx, or when the hooks of the
// container are ended.
func (f *firing) context(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(ctx)
	f.endings.mu.Lock()
	defer f.endings.mu.Unlock()
	f.cancels = append(f.cancels, cancel)
	if f.cause != nil {
		cancel(f.cause)
	}
	return ctx
}

// cancel ends the contexts of f. The caller holds the lock.
func (f *firing) cancel(cause error) {
	f.cause = cause
	for _, cancel := range f.cancels {
		cancel(cause)
	}
}

// stop ends the firing.
func (f *firing) stop() {
	f.endings.mu.Lock()
	defer f.endings.mu.Unlock()
	delete(f.endings.firings, f)
	f.cancel(nil)
}

// endDelay is the time in which the server that runs a hook ends it by itself,
// and records that. It has perhaps terminated.
const endDelay = 2 * time.Second

// errHookEnded is the cause with which endRun ends an attempt.
var errHookEnded = errors.New("the hook is ended for another flow")

// endRun ends an attempt that another flow has started, perhaps on another
// server, and returns when nothing of it runs, or with an error.
func endRun(ctx context.Context, x Executor, a Attempt) Result {
	for delay := endDelay; ; delay *= 2 {
		limited, cancel := context.WithTimeoutCause(ctx, delay, errHookEnded)
		res := x.WaitResult(limited, a)
		cancel()
		if !errors.Is(res.Err, errHookEnded) || errors.Is(res.Err, runtime.ErrTainted) {
			return res
		}
	}
}

// EndTests ends the commands of tests of hooks, and of waits, that a terminated
// server has left in the container of a claim: no flow resumes them. If one does not end, tainted
// is why the container must not be used again. It changes no record, and returns
// an error if a record cannot be read, if the engine is unavailable, or if ctx
// ends.
func (r *Runner) EndTests(ctx context.Context, claim string) (tainted string, err error) {
	runs, err := r.recorder.Runs(ctx, hooks.RunFilter{Claim: claim, States: []hooks.RunState{hooks.Running, hooks.Unknown}, NoOutput: true})
	if err != nil {
		return "", fmt.Errorf("list the tests of the claim: %w", err)
	}
	for _, run := range runs {
		if !run.IsTest() && !run.Point.Rule().OfWait || !run.Kind.Rule().InContainer {
			continue
		}
		waiting, cancel := context.WithTimeout(ctx, eventHookTimeout)
		res := endRun(waiting, r.executors.Of(run.Kind), queryOf(hooks.Hook{Timeout: hooks.MaxTimeout}, run))
		isLate := waiting.Err() != nil
		cancel()
		switch {
		case ctx.Err() != nil:
			return "", context.Cause(ctx)
		case isLate || errors.Is(res.Err, runtime.ErrTainted):
			tainted = fmt.Sprintf("%s hook %q has not ended", run.Occasion(), run.Hook)
		case isUnavailable(res.Err):
			return "", fmt.Errorf("end %s hook %q: %w", run.Occasion(), run.Hook, res.Err)
		}
	}
	return tainted, nil
}
