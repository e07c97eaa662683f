// Package runner runs the hooks of a point and records their attempts.
//
// It promises that the hooks of one point run one after another in the order
// of the file; that each attempt has one record, one event when it starts and
// exactly one when it ends; that an attempt never starts while a process of
// the previous one exists; and that an action that started is never performed
// again unless the hook permits it.
//
// The table in hooks/point.go decides how a point behaves. A kind of action is
// an Executor; command.go is the one of commands.
package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/workload"
)

// Runner runs hooks. It is safe for concurrent use. The caller must not fire two
// points of one container at the same time, except those of different waits.
type Runner struct {
	rt        Runtime
	recorder  hooks.Recorder
	executors Executors
	files     Files
	endings   endings
}

// Runtime is what a Runner needs to know about containers.
type Runtime interface {
	Status(ctx context.Context, id string) (runtime.Status, error)
	Protocols() runtime.Protocols
}

// Files returns workload files that were applied, and what is on record of
// containers.
type Files interface {
	// File returns the workload of a file by its workload.Workload.File.
	File(ctx context.Context, id, file string) (*workload.Workload, error)
	// Node returns the node of a container, or "" while it is not on record.
	Node(ctx context.Context, container string) (string, error)
	// ImageHooks returns the hooks of the container's image that are on record of the
	// container. They never change once a point was fired.
	ImageHooks(ctx context.Context, container string) ([]runtime.ImageHook, error)
}

// New returns a Runner that performs actions with executors and records them in
// recorder. files is needed to resume points after their workload was applied
// again.
func New(rt Runtime, recorder hooks.Recorder, executors Executors, files Files) *Runner {
	return &Runner{rt: rt, recorder: recorder, executors: executors, files: files}
}

// Subject is the container, and the claim if any, of a point.
type Subject struct {
	Workload  string
	Container string
	Fence     int64  // of the flow, as runtime.Command has it
	Claim     string // empty outside a claim
	Tenant    string // empty outside a claim
	Source    string // of the claim: fresh, affinity or recycled
	Reason    string // of the release
	Activity  string // of the claim, as its program reported it: untrusted
	// Traceparent is the valid traceparent header of the request for which the
	// hooks run, or "".
	Traceparent string
	// NoPriorRuns reports whether this server has just started the flow for the
	// first time, so the flow has no records. Otherwise they are looked up.
	NoPriorRuns bool
	// Protocol is the protocol version of the container, and HasExited reports
	// whether its main process is known to have exited. Only points at which it
	// may be stopped need them.
	Protocol  int
	HasExited bool

	// MayAsk reports whether the processes of commands may ask the server for their
	// claim although it is not active.
	MayAsk bool

	// Parameters are those of the claim by name, with a placeholder for each secret
	// one. The encrypted values of those are in Sealed.
	Parameters, Sealed map[string]string

	// Wait describes the wait of a point of one, else nil.
	Wait *Wait

	// EndsOthers reports whether a hook of another point that still runs in the
	// container is ended, and not waited for. Skip is why no hook is run, or "".
	EndsOthers bool
	Skip       string
	// EventCommands reports whether a command of an event hook was ever started in
	// the container, if the point must not begin before those have ended.
	EventCommands bool

	workload *workload.Workload // set by Fire
	node     string             // of the container, if a hook names it
}

// Wait describes a wait to the hooks of its points.
type Wait struct {
	Round     string            // the Wait of its runs
	Variables map[string]string // what it supplies, by name
	Data      json.RawMessage   // of the envelope
}

// Outcome is what a point means for its flow.
type Outcome struct {
	// Runs are the records of every attempt and of every skipped hook.
	Runs []hooks.Run
	// Warnings has one sentence per failed hook, and one if hooks were skipped
	// because the container cannot run them. It is not nil if Fire succeeded.
	Warnings []string
	// Failure is the error of the hook that failed a point, where that does not
	// abort the flow.
	Failure error
	// Tainted is why the container must not be used again, or "".
	Tainted string
}

// Fire runs the hooks of a point one after another according to their policies
// and to the rule of the point: those of the image, if the workload has
// ImageHooks, and then those of the file. w is the workload that the container is
// of.
// If there are no hooks at p, and no earlier flow began it, Fire runs nothing. It
// still waits for what s.EventCommands and s.EndsOthers are about.
//
// Fire resumes the attempts of an earlier flow, perhaps of an earlier server,
// from their records: a hook that has ended is not run again, the result of a
// running attempt is queried, and only hooks that never started are run.
//
// The error is a *hooks.Error if a hook failed a point that aborts its flow; the
// records then end with the skipped hooks. It also matches runtime.ErrTainted if
// a process of a hook may still run. At other points a failed hook is a warning.
// Any other error means that a record could not be read or written or that the
// engine is unavailable: the flow must be retried.
func (r *Runner) Fire(ctx context.Context, p hooks.Point, w *workload.Workload, s Subject) (Outcome, error) {
	w, prior, err := r.begunWith(ctx, p, w, s)
	if err != nil {
		return Outcome{}, err
	}
	hs, err := r.hooksAt(ctx, p, w, s)
	if err != nil {
		return Outcome{}, err
	}
	if len(hs) == 0 && !s.EventCommands && !s.EndsOthers {
		return Outcome{Warnings: []string{}}, nil
	}
	rule := p.Rule()
	s.workload = w
	f, ended := r.endings.begin(s.Container, rule.AwaitsOthers)
	defer f.stop()
	switch {
	case ended != nil && rule.Aborts:
		return Outcome{}, ended
	case ended != nil && (rule.AwaitsOthers || rule.OfWait):
		s.Skip = cmp.Or(s.Skip, ended.Error())
	}
	stopped, err := r.awaitReady(f.context(ctx), rule, hs, s)
	if err != nil {
		return Outcome{}, err
	}
	if s.node, err = r.nodeOf(ctx, hs, s); err != nil {
		return Outcome{}, err
	}
	if !rule.Aborts && !rule.OfWait {
		ctx = context.WithoutCancel(ctx)
	}
	ctx = f.context(ctx)
	runs, failed, err := r.run(ctx, p, hs, s, stopped, prior)
	out := Outcome{Runs: runs, Tainted: taintedReason(runs, failed)}
	out.Warnings = append(stoppedWarnings(runs), failureWarnings(runs)...)
	if failed != nil && err == nil && !rule.Aborts {
		// It has more details of the hook that failed the point.
		out.Warnings = append(out.Warnings[:max(len(out.Warnings)-1, 0)], failed.Error())
		out.Failure = failed
		return out, nil
	}
	if failed == nil {
		return out, err
	}
	return out, errors.Join(failed, err)
}

// hooksAt returns the hooks of a point in order: of the image, then of the file. The
// list is the same whenever the point of a container is fired with a file.
func (r *Runner) hooksAt(ctx context.Context, p hooks.Point, w *workload.Workload, s Subject) ([]hooks.Hook, error) {
	if !w.ImageHooks {
		return w.Hooks[p], nil
	}
	found, err := r.files.ImageHooks(ctx, s.Container)
	if err != nil {
		return nil, fmt.Errorf("read the hooks of the container's image: %w", err)
	}
	return w.HooksAt(p, found), nil
}

// awaitReady waits until the hooks of a point can run in the container. stopped is
// why its commands cannot, or "".
func (r *Runner) awaitReady(ctx context.Context, rule hooks.PointRule, hs []hooks.Hook, s Subject) (stopped string, err error) {
	if s.Skip != "" {
		return "", nil
	}
	if s.EventCommands {
		// One that has not ended in time ends with the container.
		if _, err := r.AwaitEventHooks(ctx, s.Container); err != nil {
			return "", err
		}
	}
	runsCommands := slices.ContainsFunc(hs, runsInContainer)
	if runsCommands && rule.MayBeStopped {
		if stopped, err = r.stoppedReason(ctx, s); err != nil || stopped != "" {
			return stopped, err
		}
	}
	if rule.AwaitsOthers && (runsCommands || s.EndsOthers) {
		err = r.awaitIdle(ctx, rule.Point, s)
	}
	return "", err
}

// begunWith returns the workload whose file the hooks of a point are from, and
// the runs of the point by hook index. It is w unless an earlier flow began the
// point before w was applied: its hooks are then those of that time.
func (r *Runner) begunWith(ctx context.Context, p hooks.Point, w *workload.Workload, s Subject) (*workload.Workload, map[int][]hooks.Run, error) {
	runs, err := r.priorRuns(ctx, p, s)
	if err != nil || len(runs) == 0 {
		return w, nil, err
	}
	prior := make(map[int][]hooks.Run, len(runs))
	for _, run := range runs {
		prior[run.Index] = append(prior[run.Index], run)
	}
	if file := runs[0].File; file != "" && file != w.File {
		if w, err = r.files.File(ctx, s.Workload, file); err != nil {
			return nil, nil, fmt.Errorf("read the file that %s began with: %w", p, err)
		}
	}
	return w, prior, nil
}

// runsInContainer reports whether a hook needs a container that runs.
func runsInContainer(h hooks.Hook) bool { return !h.Disabled && h.Action.Kind().Rule().InContainer }

// stoppedReason returns why the container cannot run commands, or "". It returns
// an error while the engine is unavailable: hooks would time out.
func (r *Runner) stoppedReason(ctx context.Context, s Subject) (string, error) {
	switch {
	case s.HasExited:
		return notRunning, nil
	case r.rt.Protocols().IsTooOld(s.Protocol):
		return runtime.ErrTooOld.Error(), nil
	}
	status, err := r.rt.Status(ctx, s.Container)
	switch {
	case errors.Is(err, runtime.ErrUnavailable):
		return "", err
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case err != nil && !errors.Is(err, runtime.ErrNotFound):
		return notRunning + ": " + err.Error(), nil
	case err != nil, status.State != runtime.Running:
		return notRunning, nil
	}
	return "", nil
}

// notRunning is why the hooks of a container are skipped when its main process
// has exited.
const notRunning = "the container is not running"

// stoppedWarnings returns the warning that hooks were skipped because the
// container was stopped, if any was, now or by an earlier flow.
func stoppedWarnings(runs []hooks.Run) []string {
	for _, r := range runs {
		if r.State == hooks.Skipped && (strings.HasPrefix(r.Error, notRunning) || r.Error == runtime.ErrTooOld.Error()) {
			return []string{fmt.Sprintf("%s did not run: %s", r.Point, r.Error)}
		}
	}
	return []string{}
}

// taintedReason returns why a container must not be used again after a point, or
// "".
func taintedReason(runs []hooks.Run, err error) string {
	if errors.Is(err, runtime.ErrTainted) {
		return "a process of a hook may still run"
	}
	reason := ""
	for _, run := range runs {
		if run.Kind.Rule().InContainer && (run.State == hooks.Unknown || run.State == hooks.Lost) {
			reason = fmt.Sprintf("hook %q ended as %s", run.Hook, run.State)
		}
	}
	return reason
}

// failureWarnings returns one sentence per failed hook, in order.
func failureWarnings(runs []hooks.Run) []string {
	last := map[string]hooks.Run{}
	var order []string
	for _, r := range runs {
		if _, seen := last[r.ID]; !seen {
			order = append(order, r.ID)
		}
		last[r.ID] = r
	}
	out := []string{}
	for _, id := range order {
		if r := last[id]; r.State != hooks.Succeeded && r.State != hooks.Skipped {
			out = append(out, (&hooks.Error{Run: r}).Error())
		}
	}
	return out
}
