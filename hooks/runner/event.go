package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/internal/backoff"
	"github.com/hostler/hostler/workload"
)

// EventAttempt returns the attempt that performs a run of an event hook. e
// describes the event, and w is the workload as it is applied now.
func (r *Runner) EventAttempt(ctx context.Context, h hooks.Hook, run hooks.Run, w *workload.Workload, e Envelope) (Attempt, error) {
	s, hs := eventSubject(run, w), []hooks.Hook{h}
	src, err := r.source(ctx, hs, s)
	if err != nil {
		return Attempt{}, err
	}
	if s.node, err = r.nodeOf(ctx, hs, s); err != nil {
		return Attempt{}, err
	}
	return eventAttempt(h, run, s, e, src)
}

// eventSubject returns the subject of a run of an event hook.
func eventSubject(run hooks.Run, w *workload.Workload) Subject {
	return Subject{Workload: run.Workload, Container: run.Container, Claim: run.Claim, Tenant: run.Tenant, workload: w}
}

func eventAttempt(h hooks.Hook, run hooks.Run, s Subject, e Envelope, src source) (a Attempt, err error) {
	e.RunID, e.Hook = run.ID, run.Hook
	if len(e.Data) == 0 {
		e.Data = json.RawMessage("{}")
	}
	src.trusted = trustedOf(run, s)
	maps.Copy(src.trusted, variablesOf(e))
	a = queryOf(h, run)
	a.Lookup, a.Secrets = src.lookup, s.workload.Secrets
	if a.Envelope, err = json.Marshal(e); err != nil {
		return Attempt{}, fmt.Errorf("describe event %d: %w", e.Seq, err)
	}
	return a, nil
}

// variablesOf returns the variables that an event supplies. lookup knows which of
// them are trusted.
func variablesOf(e Envelope) map[string]string {
	all := map[string]string{
		"EVENT_TYPE": e.Type, "EVENT_SEQ": strconv.FormatInt(e.Seq, 10), "TIMESTAMP": e.Timestamp.UTC().Format(time.RFC3339Nano),
		"EVENT_MESSAGE": e.Message, "EVENT_DATA": string(e.Data), "POINT": "",
		"PHASE": phases[e.Type].now, "PREVIOUS_PHASE": phases[e.Type].before,
	}
	if failures, _ := hooks.EventAliasOf("error"); slices.Contains(failures.Types, e.Type) {
		all["ERROR_MESSAGE"] = e.Message
	}
	var data struct {
		ExitCode  *int   `json:"exit_code"`
		OOMKilled *bool  `json:"oom_killed"`
		Reason    string `json:"reason"`
		Source    string `json:"source"`
	}
	if json.Unmarshal(e.Data, &data) != nil {
		return all // the data is not of Hostler
	}
	// Only of events whose data a tenant cannot have written: other reasons have
	// what a command printed.
	switch e.Type {
	case "claim.released":
		all["RELEASE_REASON"] = data.Reason
	case "claim.activated", "container.claimed":
		all["CLAIM_SOURCE"] = data.Source
	}
	if e.Type != "claim.released" && e.Type != "container.died" {
		return all
	}
	if data.ExitCode != nil {
		all["EXIT_CODE"] = strconv.Itoa(*data.ExitCode)
	}
	if data.OOMKilled != nil {
		all["OOM_KILLED"] = strconv.FormatBool(*data.OOMKilled)
		if *data.OOMKilled {
			all["LIMIT_NAME"] = "memory"
		}
	}
	return all
}

// phases has the state of a container or claim since each event, and before it.
var phases = map[string]struct{ now, before string }{
	"container.creating":   {"provisioning", ""},
	"container.created":    {"running", "starting"},
	"container.claimed":    {"running", "running"},
	"container.wiped":      {"running", "running"},
	"container.released":   {"running", "running"},
	"container.died":       {"error", "running"},
	"container.destroying": {"stopping", "running"},
	"container.destroyed":  {"stopped", "stopping"},
	"claim.requested":      {"starting", ""},
	"claim.activated":      {"running", "starting"},
	"claim.failed":         {"error", "starting"},
	"claim.releasing":      {"stopping", "running"},
	"claim.released":       {"stopped", "stopping"},
	"claim.release_failed": {"error", "stopping"},
}

// eventHookTimeout is how long AwaitEventHooks waits. The commands are canceled
// when the flow begins, so they take no longer than their grace.
const eventHookTimeout = time.Minute

// AwaitEventHooks waits until no command of an event hook runs in the container,
// on record. A flow calls it when its transition is recorded, if such a command
// was ever started: none starts after that, and one that runs is canceled because
// of the transition's event. If one does not end, or the outcome of one in an
// idle container is unknown, so that it may arrive late, tainted is why the
// container must not be used again. It returns an error if a record cannot be
// read, or if ctx ends.
func (r *Runner) AwaitEventHooks(ctx context.Context, container string) (tainted string, err error) {
	waiting, cancel := context.WithTimeout(ctx, eventHookTimeout)
	defer cancel()
	for polls := eventHookPolls.Retries(); ; {
		runs, err := r.runsIn(ctx, container, hooks.Running)
		if err != nil {
			return "", err
		}
		i := slices.IndexFunc(runs, isEventCommand)
		if i < 0 {
			return r.unknownCommand(ctx, container)
		}
		if polls.Sleep(waiting) == nil {
			continue
		}
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		return fmt.Sprintf("event hook %q has not ended", runs[i].Hook), nil
	}
}

// unknownCommand describes a command of an event hook that was started in the
// idle container, and of whose last attempt no server knows the outcome.
func (r *Runner) unknownCommand(ctx context.Context, container string) (string, error) {
	runs, err := r.runsIn(ctx, container, hooks.Unknown)
	if err != nil || !slices.ContainsFunc(runs, isEventCommand) {
		return "", err
	}
	if runs, err = r.runsIn(ctx, container); err != nil {
		return "", err
	}
	for i, run := range runs { // the attempts of a run are one after another
		isLast := i == len(runs)-1 || runs[i+1].ID != run.ID
		if isLast && isEventCommand(run) && run.Claim == "" && run.State == hooks.Unknown {
			return fmt.Sprintf("the outcome of event hook %q is unknown", run.Hook), nil
		}
	}
	return "", nil
}

// runsIn lists the runs in a container, those in the given states if there are
// any.
func (r *Runner) runsIn(ctx context.Context, container string, states ...hooks.RunState) ([]hooks.Run, error) {
	runs, err := r.recorder.Runs(ctx, hooks.RunFilter{Container: container, States: states, NoOutput: true})
	if err != nil {
		return nil, fmt.Errorf("list the hook runs of the container: %w", err)
	}
	return runs, nil
}

// isEventCommand reports whether a run is that of an event hook in a container.
func isEventCommand(r hooks.Run) bool { return r.Event != "" && r.Kind.Rule().InContainer }

var eventHookPolls = backoff.Policy{Min: 5 * time.Millisecond, Max: 500 * time.Millisecond}
