package store

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/runtime"
)

// runStateEvents maps each state of a run to its event type and to the text of
// the message.
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
			return "was terminated by " + r.Signal
		}
		if r.ExitCode != nil {
			return fmt.Sprintf("failed with exit code %d", *r.ExitCode)
		}
		return "failed"
	}},
	hooks.TimedOut: {activity.HookFailed, func(r hooks.Run) string {
		if r.Timeout > 0 {
			return fmt.Sprintf("exceeded its timeout of %v ms and was killed after %.1f ms", r.Timeout, r.Duration)
		}
		return fmt.Sprintf("timed out and was killed after %.1f ms", r.Duration)
	}},
	hooks.StartFailed: {activity.HookFailed, withReason("could not be started")},
	hooks.Lost:        {activity.HookFailed, withReason("failed: container exited")},
	hooks.Cancelled:   {activity.HookFailed, withReason("was canceled")},
	hooks.Unknown:     {activity.HookFailed, withReason("outcome unknown")},
	hooks.Skipped:     {activity.HookSkipped, withReason("was skipped")},
}

func withText(words string) func(hooks.Run) string {
	return func(hooks.Run) string { return words }
}

// withReason appends the run's error.
func withReason(words string) func(hooks.Run) string {
	return func(r hooks.Run) string {
		if r.Error == "" {
			return words
		}
		return words + ": " + r.Error
	}
}

// runEvent returns the event of a run that has reached its state.
func runEvent(r hooks.Run) activity.Event {
	state := runStateEvents[r.State]
	subject := fmt.Sprintf("%s hook %q", r.Occasion(), r.Hook)
	if r.Attempt > 1 {
		subject += fmt.Sprintf(" (attempt %d)", r.Attempt)
	}
	depth := 0
	if r.Event != "" {
		depth = 1 // only events of depth 0 are delivered
	}
	return activity.Event{
		Depth: depth,
		Type:  state.event, Workload: r.Workload, Container: r.Container, Tenant: r.Tenant,
		Claim: r.Claim, Run: r.ID, Point: string(r.Point),
		Message: subject + " " + state.words(r),
		Data:    activity.Data(runData(r)),
	}
}

// endEvents returns the events of a run that has ended.
func endEvents(r hooks.Run) []activity.Event {
	if len(r.Warnings) > 0 {
		return []activity.Event{warningEvent(r), runEvent(r)}
	}
	return []activity.Event{runEvent(r)}
}

// warningEvent returns the event of the warnings of a run.
func warningEvent(r hooks.Run) activity.Event {
	e := runEvent(r)
	e.Type = activity.HookWarning
	e.Message = fmt.Sprintf("%s hook %q: %s", cmp.Or(string(r.Point), r.Event), r.Hook, strings.Join(r.Warnings, "; "))
	e.Data = activity.Data(activity.HookWarningData{
		Point: string(r.Point), Event: r.Event, Hook: r.Hook, Attempt: r.Attempt, Warnings: r.Warnings,
	})
	return e
}

// runData returns the data of a hook event.
func runData(r hooks.Run) any {
	if r.State == hooks.Running || r.State == hooks.Skipped {
		return activity.HookStartedData{
			Point: string(r.Point), Event: r.Event, Seq: r.Seq, Hook: r.Hook, Index: r.Index, Attempt: r.Attempt,
			Action: string(r.Kind), Command: r.Command, State: string(r.State), Error: r.Error,
		}
	}
	return activity.HookEndedData{
		Point: string(r.Point), Event: r.Event, Seq: r.Seq, Hook: r.Hook, Index: r.Index, Attempt: r.Attempt,
		Action: string(r.Kind), Command: r.Command, State: string(r.State), Error: r.Error,
		ExitCode: r.ExitCode, Signal: r.Signal, TimedOut: r.TimedOut, TimeoutMS: r.Timeout, Killed: r.Killed, LeakedProcesses: r.Leaked,
		DurationMS: r.Duration, Stdout: excerpt(r.Stdout), Stderr: excerpt(r.Stderr),
	}
}

// excerpt returns what an event shows of a stream; the run's record has the
// rest.
func excerpt(o runtime.Output) activity.Excerpt {
	text, truncated := o.Excerpt(hooks.ExcerptBytes)
	return activity.Excerpt{Excerpt: text, Total: o.Total, Truncated: truncated}
}
