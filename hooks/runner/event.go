package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/variables"
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
	if e.Untrusted {
		addPublished(all, e.Data)
		return all
	}
	if strings.HasPrefix(e.Type, "wait.") {
		addWait(all, e)
		return all
	}
	var data struct {
		Activity  string `json:"activity"`
		ExitCode  *int   `json:"exit_code"`
		OOMKilled *bool  `json:"oom_killed"`
		Previous  string `json:"previous_state"`
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
		all["RELEASE_REASON"], all["ACTIVITY"] = data.Reason, data.Activity
	case "claim.activated", "container.claimed":
		all["CLAIM_SOURCE"] = data.Source
	case "container.destroying":
		if data.Previous == "creating" {
			all["PREVIOUS_PHASE"] = phases["container.created"].before
		}
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

// publishedNames are the variables that the data of a published event supplies,
// under their names in lower case.
var publishedNames = []string{
	"TASK", "TASK_SUMMARY", "ASSISTANT_TEXT", "TOOL_NAME", "ERROR_MESSAGE", "ACTIVITY", "PREVIOUS_ACTIVITY", "LIMIT_NAME", "LIMIT_COUNT",
}

// addPublished adds the variables that a tenant's program sent. All of them are
// untrusted. A value that is not a text is the JSON that was sent.
func addPublished(all map[string]string, data []byte) {
	var sent map[string]json.RawMessage
	if json.Unmarshal(data, &sent) != nil {
		return // it is not an object
	}
	for _, name := range publishedNames {
		raw, ok := sent[strings.ToLower(name)]
		if !ok || string(raw) == "null" {
			continue
		}
		var text string
		if json.Unmarshal(raw, &text) != nil {
			text = string(raw)
		}
		all[name] = text
	}
}

// addWait adds the variables of a wait that have an occasion for the event.
func addWait(all map[string]string, e Envelope) {
	var w struct {
		Kind        string `json:"kind"`
		Name        string `json:"name"`
		ThresholdMS int64  `json:"threshold_ms"`
		DurationMS  int64  `json:"duration_ms"`
		ExceededMS  int64  `json:"exceeded_ms"`
		Task        string `json:"task"`
		Iteration   string `json:"iteration"`
		Phase       string `json:"phase"`
	}
	if json.Unmarshal(e.Data, &w) != nil {
		return // an operator gave it, for a dry run
	}
	duration := strconv.FormatInt(w.DurationMS, 10)
	for name, text := range map[string]string{
		"WAIT_TYPE": w.Kind, "WAIT_NAME": w.Name, "TIMEOUT_THRESHOLD": strconv.FormatInt(w.ThresholdMS, 10),
		"TASK": w.Task, "ITERATION": w.Iteration, "WAIT_PHASE": w.Phase,
		"WAIT_DURATION": duration, "TIMEOUT_DURATION": duration, "EXCEEDED_BY": strconv.FormatInt(w.ExceededMS, 10),
	} {
		if rule, _ := variables.RuleOf(name); rule.IsSuppliedAt(e.Type) {
			all[name] = text
		}
	}
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

// AwaitEventHooks waits until no command of an event hook, and no hook of a wait, runs
// in the container, on record. A flow calls it when its transition is recorded, if such
// a hook may have been started: none starts after that, and one that runs is canceled
// because of the transition's event. If a command does not end, or the outcome of one in an
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
		if !slices.ContainsFunc(runs, delaysFlow) {
			return r.unknownCommand(ctx, container)
		}
		if polls.Sleep(waiting) == nil {
			continue
		}
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		if i := slices.IndexFunc(runs, isEventCommand); i >= 0 {
			return fmt.Sprintf("event hook %q has not ended", runs[i].Hook), nil
		}
		return r.unknownCommand(ctx, container)
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

// delaysFlow reports whether a flow of the container begins after a run. The requests
// of event hooks are independent of flows; those of a wait are canceled with its claim.
func delaysFlow(r hooks.Run) bool { return isEventCommand(r) || r.Point.Rule().OfWait }

// isEventCommand reports whether a run is that of an event hook, or of a wait, in a
// container: it belongs to none of the container's flows.
func isEventCommand(r hooks.Run) bool {
	return (r.Event != "" || r.Point.Rule().OfWait) && r.Kind.Rule().InContainer
}

var eventHookPolls = backoff.Policy{Min: 5 * time.Millisecond, Max: 500 * time.Millisecond}
