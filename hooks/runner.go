package hooks

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/hostler/hostler/internal/flow"
	"github.com/hostler/hostler/runtime"
)

// Runner runs the hooks of a point. It is safe for concurrent use. The caller
// must not run two points of one container at the same time.
type Runner struct {
	rt       runtime.Execer
	recorder Recorder
}

// NewRunner returns a Runner that runs hooks in rt and records them in recorder.
func NewRunner(rt runtime.Execer, recorder Recorder) *Runner {
	return &Runner{rt: rt, recorder: recorder}
}

// Subject is the container, and the claim if any, of a point.
type Subject struct {
	Workload  string
	Container string
	Claim     string // empty outside a claim
	Tenant    string // empty outside a claim
	Source    string // of the claim: fresh, affinity or recycled
	// NoPriorRuns reports whether this server has just started the flow for the
	// first time, so the flow has no records. Otherwise they are looked up.
	NoPriorRuns bool
}

// recordTimeout limits how long recording the end of an attempt may take.
const recordTimeout = 30 * time.Second

// Run runs the hooks one after another according to their policies and returns
// the record of every attempt and of every skipped hook.
//
// Run resumes the runs of an earlier flow, perhaps of an earlier server, from
// their records: a hook that has ended is not run again, the outcome of a
// running attempt is queried, and only hooks that never started are run.
//
// The error is an *Error if a hook failed its point; the records then end with
// the skipped hooks. It matches runtime.ErrTainted if a process of a hook may
// still run, whatever the policy: the container must be destroyed. Any other
// error means that a record could not be read or written. Without hooks, Run
// does nothing.
func (r *Runner) Run(ctx context.Context, p Point, hs []Hook, s Subject) ([]Run, error) {
	if len(hs) == 0 {
		return nil, nil
	}
	prior, err := r.priorRuns(ctx, p, s)
	if err != nil {
		return nil, err
	}
	var runs []Run
	for i, h := range hs {
		done, err := r.runHook(ctx, h, newRun(p, h, i, s), s.Source, prior[i])
		runs = append(runs, done...)
		if err != nil {
			reason := fmt.Sprintf("hook %q of the same point failed", h.Name)
			skipped, skipErr := r.skip(ctx, p, hs, i+1, s, reason, prior)
			return append(runs, skipped...), errors.Join(err, skipErr)
		}
	}
	return runs, nil
}

// newRun returns the record of a hook's first attempt.
func newRun(p Point, h Hook, index int, s Subject) Run {
	return Run{
		ID: newID(), Point: p, Hook: h.Name, Index: index, Attempt: 1,
		Kind: h.Action.Kind(), Command: h.Action.Summary(),
		Workload: s.Workload, Container: s.Container, Claim: s.Claim, Tenant: s.Tenant,
	}
}

// Skip records the hooks of a point as skipped and ends those that an earlier
// flow has started.
func (r *Runner) Skip(ctx context.Context, p Point, hs []Hook, s Subject, reason string) ([]Run, error) {
	prior, err := r.priorRuns(ctx, p, s)
	if err != nil {
		return nil, err
	}
	return r.skip(ctx, p, hs, 0, s, reason, prior)
}

// skip skips the hooks hs[from:].
func (r *Runner) skip(ctx context.Context, p Point, hs []Hook, from int, s Subject, reason string, prior map[int][]Run) ([]Run, error) {
	var runs []Run
	for i, h := range hs[from:] {
		for _, run := range prior[from+i] {
			ended, _, err := r.resume(ctx, h, run, false)
			if err != nil {
				return runs, err
			}
			runs = append(runs, ended)
		}
		if len(prior[from+i]) > 0 {
			continue
		}
		now := time.Now()
		run := newRun(p, h, from+i, s)
		run.State, run.Error, run.StartedAt, run.EndedAt = Skipped, reason, now, &now
		if err := r.recordSkip(ctx, run); err != nil {
			return runs, fmt.Errorf("record that hook %q was skipped: %w", h.Name, err)
		}
		runs = append(runs, run)
	}
	return runs, nil
}

// recordSkip records a skipped hook. It ignores the cancellation of ctx.
func (r *Runner) recordSkip(ctx context.Context, run Run) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	return r.recorder.RunSkipped(ctx, run)
}

// runHook runs one hook according to its policy and counts the prior attempts.
// An error ends the point.
func (r *Runner) runHook(ctx context.Context, h Hook, run Run, source string, prior []Run) ([]Run, error) {
	var runs []Run
	for {
		var ended Run
		var retry bool
		var err error
		if len(prior) > 0 {
			ended, retry, err = r.resume(ctx, h, prior[0], h.Idempotent && len(prior) == 1)
			run.ID, run.Attempt, prior = prior[0].ID, prior[0].Attempt, prior[1:]
		} else {
			ended, err = r.attempt(ctx, h, run, source)
		}
		if ended.State != "" {
			runs = append(runs, ended)
		}
		if err != nil {
			return runs, err
		}
		if ended.State == Succeeded || ended.State == Skipped {
			return runs, nil
		}
		if len(prior) > 0 {
			continue // the next attempt is on record
		}
		if retry {
			run.Attempt++
			continue
		}
		if run.Attempt > h.Retries || !isRetryable(ended.State) {
			if h.OnError == Continue && hasEndedCleanly(ended.State) {
				return runs, nil
			}
			if ended.State == Cancelled {
				return runs, errors.Join(&Error{Run: ended}, context.Cause(ctx))
			}
			return runs, &Error{Run: ended}
		}
		if err := flow.Sleep(ctx, backoff(run.Attempt)); err != nil {
			return runs, errors.Join(&Error{Run: ended}, err)
		}
		run.Attempt++
	}
}

// attempt runs a hook once and records its start and its end. It returns an
// error if the container is tainted or a record cannot be written. If only the
// hook failed, the error is nil and the Run has the state.
func (r *Runner) attempt(ctx context.Context, h Hook, run Run, source string) (Run, error) {
	run.State, run.StartedAt = Running, time.Now()
	if err := r.recorder.RunStarted(ctx, run); err != nil {
		return Run{}, fmt.Errorf("record the start of hook %q: %w", h.Name, err)
	}
	call := r.call(h, run)
	call.Environment = hookEnvironment(run, source)
	res, err := r.execWithReconnect(ctx, h, call)
	return r.end(ctx, run, res, err)
}

// execWithReconnect runs the action of an attempt. If the engine becomes
// unavailable, the command may or may not have started. The container is then
// queried by the attempt's id. If it does not know the id, the command is sent
// again under the same id, so the container runs only one of two commands that
// arrive late.
//
// It returns no later than the attempt itself could have ended. A longer outage
// of the engine does not block the flow, and a command that may still be on its
// way to the container is not sent again.
func (r *Runner) execWithReconnect(ctx context.Context, h Hook, call Call) (runtime.Result, error) {
	deadline := time.Now().Add(h.Timeout + runtime.DefaultGrace)
	res, err := h.Action.Run(ctx, call)
	for n := 1; isEngineUnavailable(err); n++ {
		res, err = h.Action.WaitResult(ctx, call)
		remaining := time.Until(deadline)
		if errors.Is(err, runtime.ErrUnknownRun) && remaining > 0 {
			res, err = h.Action.Run(ctx, call)
		}
		if remaining <= 0 || isEngineUnavailable(err) && flow.Sleep(ctx, min(backoff(min(n, 4)), time.Until(deadline))) != nil {
			break
		}
	}
	return res, err
}

// isEngineUnavailable reports whether the engine is unavailable, so a later
// query may have a result.
func isEngineUnavailable(err error) bool {
	return errors.Is(err, runtime.ErrUnavailable) && !errors.Is(err, runtime.ErrTainted)
}

// call returns the Call of an attempt.
func (r *Runner) call(h Hook, run Run) Call {
	return Call{
		Runtime: r.rt, Container: run.Container, Timeout: h.Timeout,
		AttemptID: run.ID + "." + strconv.Itoa(run.Attempt),
	}
}

// end records how an attempt ended.
func (r *Runner) end(ctx context.Context, run Run, res runtime.Result, err error) (Run, error) {
	run = fillOutcome(ctx, run, res, err)
	if recErr := r.recordEnd(ctx, run); recErr != nil {
		return run, fmt.Errorf("record the end of hook %q: %w", run.Hook, errors.Join(recErr, err))
	}
	return run, taintedError(run, err)
}

// taintedError returns an error if a process of the attempt may still run.
func taintedError(run Run, err error) error {
	if errors.Is(err, runtime.ErrTainted) {
		return errors.Join(&Error{Run: run}, err)
	}
	return nil
}

// recordEnd records the outcome and retries until recordTimeout: a full disk
// must not turn a known outcome into an unknown one.
func (r *Runner) recordEnd(ctx context.Context, run Run) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	for attempt := 1; ; attempt++ {
		err := r.recorder.RunEnded(ctx, run)
		if err == nil {
			return nil
		}
		if flow.Sleep(ctx, backoff(attempt)) != nil {
			return err
		}
	}
}

// fillOutcome sets the outcome of an attempt in its record.
func fillOutcome(ctx context.Context, run Run, res runtime.Result, err error) Run {
	now := time.Now()
	run.EndedAt, run.Duration = &now, float64(now.Sub(run.StartedAt).Microseconds())/1000
	run.Signal, run.TimedOut, run.Killed, run.Leaked = res.Signal, res.TimedOut, res.Killed, res.Leaked
	run.Stdout, run.Stderr = res.Stdout, res.Stderr
	if err == nil {
		code := res.ExitCode
		run.ExitCode = &code
		run.State = Failed
		if res.TimedOut {
			run.State = TimedOut
		} else if res.OK() {
			run.State = Succeeded
		}
		return run
	}
	run.Error = err.Error()
	_, startFailed := errors.AsType[*runtime.StartError](err)
	switch {
	case startFailed:
		run.State = StartFailed
	case errors.Is(err, runtime.ErrContainerExited), errors.Is(err, runtime.ErrNotRunning), errors.Is(err, runtime.ErrNotFound):
		run.State = Lost
	case ctx.Err() != nil && !errors.Is(err, runtime.ErrTainted):
		run.State = Cancelled
	default:
		run.State = Unknown
	}
	return run
}

// hookEnvironment returns the HOSTLER_ variables of a hook.
func hookEnvironment(run Run, source string) map[string]string {
	return map[string]string{
		"HOSTLER_HOOK":         run.Hook,
		"HOSTLER_POINT":        string(run.Point),
		"HOSTLER_RUN_ID":       run.ID,
		"HOSTLER_ATTEMPT":      strconv.Itoa(run.Attempt),
		"HOSTLER_WORKLOAD":     run.Workload,
		"HOSTLER_CONTAINER":    run.Container,
		"HOSTLER_CLAIM":        run.Claim,
		"HOSTLER_TENANT":       run.Tenant,
		"HOSTLER_CLAIM_SOURCE": source,
	}
}

// isRetryable reports whether another attempt may end differently: a command
// that cannot be started fails again, and nothing can run in a container that
// has exited.
func isRetryable(s RunState) bool { return s == Failed || s == TimedOut }

// hasEndedCleanly reports whether no process of a failed attempt can still run
// and the container can run the next hook.
func hasEndedCleanly(s RunState) bool { return s == Failed || s == TimedOut || s == StartFailed }

// backoff returns how long to wait after the nth failed attempt: 1 s, 2 s, 4 s, ...
func backoff(attempt int) time.Duration { return time.Second << (attempt - 1) }

// newID returns an id that sorts by time.
func newID() string { return uuid.Must(uuid.NewV7()).String() }
