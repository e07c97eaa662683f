package store

import (
	"fmt"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/runtime"
)

// runStateEvents say, for each state of a run, with which event it enters the log
// and how a person would put it.
var runStateEvents = map[hooks.RunState]struct {
	event activity.Type
	words func(hooks.Run) string
}{
	hooks.Running: {activity.HookStarted, withText("started")},
	hooks.Succeeded: {activity.HookCompleted, func(r hooks.Run) string {
		return fmt.Sprintf("completed in %.1f ms", r.Duration)
	}},
	hooks.Failed: {activity.HookFailed, func(r hooks.Run) string {
		if r.Signal != "" {
			return "was ended by " + r.Signal
		}
		if r.ExitCode != nil {
			return fmt.Sprintf("failed with exit code %d", *r.ExitCode)
		}
		return "failed"
	}},
	hooks.TimedOut: {activity.HookFailed, func(r hooks.Run) string {
		return fmt.Sprintf("ran longer than its timeout and was ended after %.1f ms", r.Duration)
	}},
	hooks.StartFailed: {activity.HookFailed, withReason("could not be started")},
	hooks.Lost:        {activity.HookFailed, withReason("was lost with its container")},
	hooks.Cancelled:   {activity.HookFailed, withReason("was cancelled")},
	hooks.Unknown:     {activity.HookFailed, withReason("ended in a way that nobody knows")},
	hooks.Skipped:     {activity.HookSkipped, withReason("was skipped")},
}

func withText(words string) func(hooks.Run) string {
	return func(hooks.Run) string { return words }
}

// withReason adds the run's own reason.
func withReason(words string) func(hooks.Run) string {
	return func(r hooks.Run) string {
		if r.Error == "" {
			return words
		}
		return words + ": " + r.Error
	}
}

// runEvent is the event of a run that has come into its state.
func runEvent(r hooks.Run) activity.Event {
	state := runStateEvents[r.State]
	subject := fmt.Sprintf("%s hook %q", r.Point, r.Hook)
	if r.Attempt > 1 {
		subject += fmt.Sprintf(" (attempt %d)", r.Attempt)
	}
	return activity.Event{
		Type: state.event, Workload: r.Workload, Container: r.Container, Tenant: r.Tenant,
		Claim: r.Claim, Run: r.ID, Point: string(r.Point),
		Message: subject + " " + state.words(r),
		Data:    activity.Data(runDetails(r)),
	}
}

// runDetails is the data of a hook event. What does not apply is left out.
func runDetails(r hooks.Run) map[string]any {
	d := map[string]any{
		"point": r.Point, "hook": r.Hook, "index": r.Index, "attempt": r.Attempt,
		"action": r.Action, "command": r.Command, "state": r.State,
	}
	if r.Error != "" {
		d["error"] = r.Error
	}
	if r.State == hooks.Running || r.State == hooks.Skipped {
		return d
	}
	if r.ExitCode != nil {
		d["exit_code"] = *r.ExitCode
	}
	if r.Signal != "" {
		d["signal"] = r.Signal
	}
	d["timed_out"], d["killed"], d["leaked_processes"] = r.TimedOut, r.Killed, r.Leaked
	d["duration_ms"] = r.Duration
	d["stdout"], d["stderr"] = excerpt(r.Stdout), excerpt(r.Stderr)
	return d
}

// excerpt is what an event shows of a stream; the run's record has the rest.
func excerpt(o runtime.Output) map[string]any {
	text, cut := o.Excerpt(hooks.ExcerptBytes)
	return map[string]any{"excerpt": text, "total": o.Total, "truncated": cut}
}
