package workload

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/hooks"
)

// moments are the types of the events that are recorded at the points, for hooks
// with blocking: false.
var moments = map[hooks.Point]activity.Type{
	hooks.PreStart:    activity.ContainerCreating,
	hooks.PostStart:   activity.ContainerCreated,
	hooks.PostCreate:  activity.ContainerCreated,
	hooks.PostClaim:   activity.ClaimActivated,
	hooks.WaitStart:   activity.WaitRequested,
	hooks.WaitSignal:  activity.WaitSignalReceived,
	hooks.WaitTimeout: activity.WaitExpired,
	hooks.PreRelease:  activity.ClaimReleasing,
	hooks.PreDestroy:  activity.ContainerDestroying,
}

// momentOf returns the type of the event that is recorded at a point.
func momentOf(p hooks.Point) string { return string(moments[p]) }

// withCommands are the types of events whose delivery can find the claim of the
// event active or, without a claim, the container without a tenant: those for
// which a command or a script can run. A claim that is requested has no container.
var withCommands = []activity.Type{
	activity.ContainerCreated, activity.ContainerClaimed, activity.ContainerWiped, activity.ContainerUnhealthy,
	activity.ClaimActivated,
	activity.WaitRequested, activity.WaitStarted, activity.WaitSignalReceived, activity.WaitSignalled,
	activity.WaitExpired, activity.WaitExtended, activity.WaitRetried, activity.WaitTimedOut, activity.WaitEscalated, activity.WaitAborted,
	activity.HookStarted, activity.HookCompleted, activity.HookFailed, activity.HookSkipped, activity.HookWarning,
	activity.SyncStarted, activity.SyncProgressed, activity.SyncCompleted, activity.SyncFailed, activity.AgentActivityChanged,
	activity.ExecStarted, activity.ExecCompleted, activity.ExecFailed,
	activity.FileRead, activity.FileWritten, activity.FileRemoved, activity.RequestCompleted,
}

// noEvent are names of other formats for which there is no event, with the
// reason.
var noEvent = map[string]string{"api.stream_chunk": "there is no event for each chunk of a response"}

// subjects returns the subjects of events.
func subjects() []string {
	all := map[string]bool{activity.CustomSubject: true}
	for _, t := range activity.Types() {
		subject, _, _ := strings.Cut(string(t), ".")
		all[subject] = true
	}
	return sortedKeys(all)
}

// isRecorded reports whether events of a type are recorded, or published by
// tenants' programs.
func isRecorded(name string) bool {
	return slices.Contains(activity.Types(), activity.Type(name)) || activity.IsPublished(activity.Type(name))
}

// eventsNamed returns what a name in a list of events stands for: itself, or the
// types of an alias. An alias that needs more than types stands for itself. If
// nothing records the events yet, it returns nil: that is an error, or a note in
// the forms of other formats. ok is false if it is an error.
func (d *decoder) eventsNamed(name, at string, f hookForm) (on []string, ok bool) {
	if isRecorded(name) || slices.Contains(subjects(), name) {
		return []string{name}, true
	}
	alias, isAlias := hooks.EventAliasOf(name)
	if isAlias && alias.Types == nil {
		return []string{alias.Name}, true
	}
	var later []string
	for _, t := range alias.Types {
		if isRecorded(t) {
			on = append(on, t)
		} else {
			later = append(later, t)
		}
	}
	if isAlias && len(alias.Only) > 0 && len(on) > 0 {
		on = []string{alias.Name}
	}
	switch {
	case len(on) > 0 && len(later) > 0:
		d.addNoteAt(at, "does not include "+strings.Join(later, ", ")+": this version does not record it", "")
	case len(on) > 0:
	case isAlias || isLater(name) || noEvent[name] != "":
		return nil, d.notFired(name, at, f)
	default:
		hint := "hostler events has the types; known subjects are " + strings.Join(subjects(), ", ")
		if near := suggest(name, eventNames()); near != "" {
			hint = "did you mean " + near + "?"
		}
		d.addErrorAt(at, fmt.Sprintf("is %q, which is not a type of event", truncate(name)), hint)
		return nil, false
	}
	return on, true
}

// isLater reports whether a name is that of a type of later versions.
func isLater(name string) bool {
	return slices.ContainsFunc(hooks.EventAliases(), func(a hooks.EventAlias) bool { return slices.Contains(a.Types, name) })
}

// notFired adds the error, or the note, that nothing fires a name. It returns
// whether it was a note.
func (d *decoder) notFired(name, at string, f hookForm) bool {
	reason := "this version does not fire it"
	if noEvent[name] != "" {
		reason = noEvent[name]
	}
	if f == ownForm {
		d.addErrorAt(at, fmt.Sprintf("is %q: %s", name, reason), "remove it")
		return false
	}
	d.addNoteAt(at, fmt.Sprintf("is %q: %s. The hook does not run for it", name, reason), "")
	return true
}

// eventNames returns all names that a list of events can have.
func eventNames() []string {
	var all []string
	for _, t := range activity.Types() {
		all = append(all, string(t))
	}
	for _, a := range hooks.EventAliases() {
		all = append(append(all, a.Name), a.Aliases...)
	}
	return append(all, subjects()...)
}

// checkEvents replaces aliases in the events of a hook, and checks that a command
// can run for one of them.
func (d *decoder) checkEvents(h *placedHook) {
	switch {
	case h.form == ownForm && h.point != "":
		h.On = []string{momentOf(h.point)}
	case h.form == ownForm:
		names := h.On
		h.On = nil
		for i, name := range names {
			if at := elementOf(h.at+".on", i); !d.invalid[at] {
				on, _ := d.eventsNamed(name, at, ownForm)
				h.addOn(on...)
			}
		}
	}
	inContainer := h.kind().Rule().InContainer
	if !inContainer || len(h.On) == 0 || slices.ContainsFunc(h.On, runsCommands) {
		return
	}
	at := h.at + ".on"
	if h.point != "" && h.form == ownForm {
		at = h.at + ".blocking"
	}
	d.addErrorAt(at, fmt.Sprintf("has no event for which a %s can run", h.kind()),
		"it runs while the claim of the event is active or, without a claim, while the container has no tenant: write a webhook, or a hook of a point")
}

// occasions returns the point of a hook, or the types of the events that it is for.
// A name stands for itself if tenants' programs may publish it.
func (h placedHook) occasions() []string {
	if !h.event {
		return []string{cmp.Or(string(h.gate), string(h.point))}
	}
	all := slices.Clone(h.On)
	for _, t := range activity.Types() {
		if (hooks.EventHook{On: h.On}).Matches(string(t), everyField) {
			all = append(all, string(t))
		}
	}
	return append(all, "")
}

// everyField is the data of an event that has each field which an alias depends on.
var everyField = []byte(`{"files":1,"oom_killed":true}`)

// runsCommands reports whether a command can run for a name of events.
func runsCommands(on string) bool {
	if on == activity.CustomSubject || activity.IsPublished(activity.Type(on)) {
		return true // the claim is active while its program publishes
	}
	return slices.ContainsFunc(withCommands, func(t activity.Type) bool {
		return hooks.EventHook{On: []string{on}}.Matches(string(t), everyField)
	})
}
