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

// Runner runs the hooks of a point. It is safe for many goroutines; a caller
// sees to it that one container runs one point at a time.
type Runner struct {
	rt       runtime.Execer
	recorder Recorder
}

// NewRunner returns a runner that runs in rt and records in rec.
func NewRunner(rt runtime.Execer, recorder Recorder) *Runner {
	return &Runner{rt: rt, recorder: recorder}
}

// Subject is what a point is about.
type Subject struct {
	Workload  string
	Container string
	Claim     string // empty outside a claim
	Tenant    string // empty outside a claim
	Source    string // of the claim: fresh, affinity or recycled
	// NoPriorRuns says that the flow has just been begun, by this server and for the
	// first time, so that nothing of it can be on record. Else it is looked up.
	NoPriorRuns bool
}

// recordTimeout bounds how long a record may take once its attempt is over.
const recordTimeout = 30 * time.Second

// Run runs the hooks one after another, as their policies say, and returns a
// record of every attempt and of every hook that was skipped.
//
// What a flow before this one has begun, perhaps that of a server that is no
// more, is taken up from its records: what has ended stays ended, an attempt
// that was under way is asked for its outcome, and only what never began is
// run.
//
// The error is an *Error when a hook failed its point; the records then end
// with the skipped ones. It matches runtime.ErrTainted when something of a hook
// may still run, whatever the policy: the container must be destroyed. Any
// other error means that a record could not be read or written. No hooks cost
// nothing.
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

// newRun is the record of a hook's first attempt.
func newRun(p Point, h Hook, index int, s Subject) Run {
	return Run{
		ID: newID(), Point: p, Hook: h.Name, Index: index, Attempt: 1,
		Action: h.Action.Kind(), Command: h.Action.Summary(),
		Workload: s.Workload, Container: s.Container, Claim: s.Claim, Tenant: s.Tenant,
	}
}

// Skip records that the hooks of a point were not run, and ends those that a
// flow before this one has begun.
func (r *Runner) Skip(ctx context.Context, p Point, hs []Hook, s Subject, reason string) ([]Run, error) {
	prior, err := r.priorRuns(ctx, p, s)
	if err != nil {
		return nil, err
	}
	return r.skip(ctx, p, hs, 0, s, reason, prior)
}

// skip skips the hooks from the index from on.
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

// recordSkip writes down that a hook was not run, of a flow that was stopped
// too.
func (r *Runner) recordSkip(ctx context.Context, run Run) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	return r.recorder.RunSkipped(ctx, run)
}

// runHook runs one hook as often as its policy says, less what was done before.
// Its error ends the point.
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
			continue // it was tried again
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

// attempt runs a hook once between its two records. Its error says that the
// container is doomed or that a record failed; a hook that merely failed has
// its state in the Run.
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

// execWithReconnect does what an attempt is for. An engine that does not answer has begun
// nothing, or has lost sight of what it began: the container is asked which, by
// the attempt's key. What it has never heard of is begun again under that key,
// so that of two which reach it after all one is run.
//
// All this lasts no longer than the attempt itself could have, from its start.
// An engine that is away for longer holds up no flow, and a command that was on
// its way to a container all that time is not begun another time.
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

// isEngineUnavailable says whether the engine may know more later.
func isEngineUnavailable(err error) bool {
	return errors.Is(err, runtime.ErrUnavailable) && !errors.Is(err, runtime.ErrTainted)
}

// call is an attempt as its action needs to know it.
func (r *Runner) call(h Hook, run Run) Call {
	return Call{
		Runtime: r.rt, Container: run.Container, Timeout: h.Timeout,
		AttemptID: run.ID + "." + strconv.Itoa(run.Attempt),
	}
}

// end writes down how an attempt ended.
func (r *Runner) end(ctx context.Context, run Run, res runtime.Result, err error) (Run, error) {
	run = fillOutcome(ctx, run, res, err)
	if recErr := r.recordEnd(ctx, run); recErr != nil {
		return run, fmt.Errorf("record the end of hook %q: %w", run.Hook, errors.Join(recErr, err))
	}
	return run, taintedError(run, err)
}

// taintedError is the error of an attempt of which something may still run.
func taintedError(run Run, err error) error {
	if errors.Is(err, runtime.ErrTainted) {
		return errors.Join(&Error{Run: run}, err)
	}
	return nil
}

// recordEnd writes the outcome, and tries again for a while when that fails: a
// full disk must not turn what ran into something that nobody knows of.
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

// fillOutcome writes how an attempt ended into its record.
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

// hookEnvironment is what every hook is told about itself.
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

// isRetryable says whether another try may end differently: a command that
// cannot be started never will, and a container that ended is no place to try.
func isRetryable(s RunState) bool { return s == Failed || s == TimedOut }

// hasEndedCleanly says whether nothing of a failed attempt can still run and the
// container is fit for the next hook.
func hasEndedCleanly(s RunState) bool { return s == Failed || s == TimedOut || s == StartFailed }

// backoff is how long to wait after the nth failed attempt: 1 s, 2 s, 4 s, ...
func backoff(attempt int) time.Duration { return time.Second << (attempt - 1) }

// newID makes an id that sorts by time.
func newID() string { return uuid.Must(uuid.NewV7()).String() }
