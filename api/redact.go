package api

import (
	"context"
	"encoding/json"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/auth"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/runtime"
)

// Who sees what is inside of the things that everyone may read.
var (
	// outputReaders see the output of hooks, and what tenants' programs write.
	outputReaders = []auth.Role{auth.Tenant, auth.Author, auth.Operator}
	// logReaders see the output of main processes and of health checks: those who may
	// use container-logs.
	logReaders = authors
	// addressReaders see from where others act.
	addressReaders = []auth.Role{auth.Viewer, auth.Operator}
)

// view is what the reader of a response sees of the things that it has.
type view struct {
	output  *activity.Scope // of what
	logs    *activity.Scope // of what
	address *activity.Scope // of what
	actor   string          // its own
}

// viewOf returns the view of who sent a request.
func viewOf(ctx context.Context) view {
	p := auth.From(ctx)
	v := view{output: p.Scope(outputReaders), logs: p.Scope(logReaders), address: p.Scope(addressReaders)}
	if p != nil {
		v.actor = p.Actor
	}
	return v
}

// runOutput are the fields of a run that have output.
var runOutput = []func(*hooks.Run){
	func(r *hooks.Run) { r.Stdout = runtime.Output{} },
	func(r *hooks.Run) { r.Stderr = runtime.Output{} },
	func(r *hooks.Run) { r.Response = "" },
}

// seesOutput reports whether the reader sees the output of a run.
func (v view) seesOutput(r hooks.Run) bool { return v.output.Includes(r.Tenant, r.Workload, r.Claim) }

// run returns what the reader sees of a run.
func (v view) run(r hooks.Run) hooks.Run {
	if !v.seesOutput(r) {
		for _, hide := range runOutput {
			hide(&r)
		}
	}
	return viewRun(r)
}

// eventOutput removes output, and what tenants' programs write, from the data of the
// types of events that have any.
var eventOutput = map[activity.Type]func(any){
	activity.HookCompleted:      hideExcerpts,
	activity.HookFailed:         hideExcerpts,
	activity.WaitRequested:      hideContext,
	activity.WaitStarted:        hideContext,
	activity.WaitSignalReceived: hideContext,
	activity.WaitSignalled:      hideContext,
	activity.WaitExpired:        hideContext,
	activity.WaitExtended:       hideContext,
	activity.WaitRetried:        hideContext,
	activity.WaitTimedOut:       hideContext,
	activity.WaitEscalated:      hideContext,
	activity.WaitAborted:        hideContext,
	activity.WaitCancelled:      hideContext,
}

func hideExcerpts(data any) {
	if d, ok := data.(*activity.HookEndedData); ok {
		d.Stdout.Excerpt, d.Stderr.Excerpt = "", ""
	}
}

func hideContext(data any) {
	if d, ok := data.(*activity.WaitData); ok {
		d.Task, d.Iteration, d.Phase = "", "", ""
	}
}

// eventLogs is eventOutput for the output of containers.
var eventLogs = map[activity.Type]func(any){
	activity.ContainerDied: func(data any) {
		if d, ok := data.(*activity.ContainerDiedData); ok {
			d.Output = nil
		}
	},
	activity.ContainerUnhealthy: func(data any) {
		if d, ok := data.(*activity.ContainerUnhealthyData); ok {
			d.Output, d.Check = nil, nil
		}
	},
}

// event returns what the reader sees of an event.
func (v view) event(e activity.Event) activity.Event {
	e = v.reasons(e)
	if e.Address != "" && e.Actor != v.actor && !v.address.Includes(e.Tenant, e.Workload, e.Claim) {
		e.Address = ""
	}
	hide, readers := eventOutput[e.Type], v.output
	if hide == nil {
		hide, readers = eventLogs[e.Type], v.logs
	}
	if hide == nil || len(e.Data) == 0 || readers.Includes(e.Tenant, e.Workload, e.Claim) {
		return e
	}
	data := activity.NewData(e.Type)
	if err := json.Unmarshal(e.Data, data); err != nil {
		e.Data = nil // of another version: it cannot be known what is in it
		return e
	}
	hide(data)
	e.Data = activity.Data(data)
	return e
}
