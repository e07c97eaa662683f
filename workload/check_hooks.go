package workload

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/variables"
)

// reservedPrefix is the prefix of the variables that Hostler sets for hooks.
const reservedPrefix = "HOSTLER_"

func (d *decoder) checkHooks(f *file) {
	scope := newScope(f)
	d.checkNames(scope)
	seen := map[[2]string]string{}
	for i := range f.Hooks.hooks {
		h := &f.Hooks.hooks[i]
		if d.invalid[h.at] {
			continue
		}
		place, within := string(h.point), "a point"
		switch {
		case h.event:
			place, within = eventsKey, "the hooks for events"
		case h.gate != "":
			place, within = string(h.gate), "a gate"
		}
		key := [2]string{place, h.Name}
		if first, twice := seen[key]; twice && h.Name != "" {
			d.addErrorAt(h.at+".name", fmt.Sprintf("is %q, which is also the name of %s", h.Name, first), "hook names must be unique within "+within)
		}
		seen[key] = h.at
		if h.event {
			d.checkEvents(h)
		}
		d.checkHook(*h, scope)
	}
	d.checkGuards(f)
	d.noteDifferences(f)
}

func (d *decoder) checkHook(h placedHook, scope variableScope) {
	if h.gate != "" {
		d.checkGateHook(h)
	} else {
		d.checkNoGuard(h)
	}
	if h.form == ownForm {
		d.checkActions(h)
	}
	if h.Builtin != nil {
		d.checkWith(h)
	}
	if !h.event && h.point.Rule().NotStarted && h.kind().Rule().InContainer {
		d.addErrorAt(h.actionOf(), "runs in the container, which is not started at "+string(h.point), "write http, webhook or builtin, or another point")
	}
	if h.gate == "" {
		d.checkPolicy(h)
		d.checkEventHook(h)
	}
	scope.on = h.occasions()
	d.checkProcess(h, scope)
	d.checkCondition(h, scope)
	d.checkRequest(h, scope)
	d.checkResponses(h, scope)
	d.noteTimeout(h)
}

// checkActions checks that a hook has one action, and no key of another.
func (d *decoder) checkActions(h placedHook) {
	var given []string
	for _, k := range hooks.Kinds() {
		if d.given(h.at, string(k.Kind)) {
			given = append(given, string(k.Kind))
		}
	}
	switch {
	case len(given) == 0:
		d.addErrorAt(h.at+".command", "is missing", "give the hook one of command, script, http, webhook and builtin")
		return
	case len(given) > 1:
		d.addErrorAt(keyOf(h.at, given[1]), "is a second action, next to "+given[0], "a hook has one action: write two hooks")
		return
	}
	kind := h.kind()
	for _, key := range sortedKeys(keysOfActions) {
		if d.given(h.at, key) && !slices.Contains(keysOfActions[key], kind) {
			d.addErrorAt(keyOf(h.at, key), fmt.Sprintf("is not used by %s", kind), "remove it")
		}
	}
}

var inContainer = []hooks.Kind{hooks.KindCommand, hooks.KindScript}

// keysOfActions has the keys of a hook that only some kinds of actions use.
var keysOfActions = map[string][]hooks.Kind{
	"user": inContainer, "workdir": inContainer, "environment": inContainer,
	"limits": inContainer, "grace": inContainer, "stop_on": inContainer,
	"shell": {hooks.KindScript}, "with": {hooks.KindBuiltin},
}

// checkPolicy checks what depends on on_error.
func (d *decoder) checkPolicy(h placedHook) {
	retries := h.OnError == string(hooks.Retry)
	if d.invalid[h.at+".on_error"] {
		return
	}
	for _, key := range []string{"retries", "on_exhausted"} {
		if d.given(h.at, key) && !retries {
			d.addErrorAt(keyOf(h.at, key), "is given without on_error: retry", "add on_error: retry, or remove it")
		}
	}
	if retries && h.kind() == hooks.KindBuiltin && d.given(h.at, "retries") {
		d.addNoteAt(h.at+".retries", "is not used: a builtin is not retried", "remove it")
	}
}

// checkEventHook checks what only hooks for events, or only hooks of points,
// have.
func (d *decoder) checkEventHook(h placedHook) {
	if !h.event {
		for key, hint := range map[string]string{"on": "write the hook under " + eventsKey, "debounce": "write the hook under " + eventsKey + ", or add blocking: false"} {
			if d.given(h.at, key) && (key != "on" || h.form == ownForm) {
				d.addErrorAt(keyOf(h.at, key), "is for hooks of events", hint)
			}
		}
		return
	}
	if h.Name == "" {
		d.addErrorAt(h.at+".name", "is missing", "hooks for events must have a name")
	}
	if h.form == ownForm && h.point == "" && !d.given(h.at, "on") {
		d.addErrorAt(h.at+".on", "is missing", "name the events")
	}
	if h.form == ownForm && h.Blocking != nil && *h.Blocking {
		d.addErrorAt(h.at+".blocking", "is true, and nothing waits for a hook for events", "remove it, or write the hook at a point")
	}
	if h.StopOn != nil {
		d.addErrorAt(h.at+".stop_on", "is for hooks of points", "remove it: hooks for events are independent of each other")
	}
}

// checkProcess checks how a command or a script runs.
func (d *decoder) checkProcess(h placedHook, scope variableScope) {
	if l := h.Limits; l != nil && time.Duration(l.CPUTime)%time.Second != 0 {
		d.addErrorAt(h.processAt+".limits.cpu_time", "is not a whole number of seconds", "round it")
	}
	for _, name := range slices.Sorted(maps.Keys(h.Environment)) {
		at := keyOf(h.processAt+".environment", name)
		if strings.HasPrefix(name, reservedPrefix) {
			d.addErrorAt(at, truncate(name)+" is set by Hostler", "choose a name that does not begin with "+reservedPrefix)
		}
		d.checkText(at, h.Environment[name], scope)
	}
}

// checkText checks the value of a variable of a process. What is not a template,
// or names what nothing supplies, stays as written.
func (d *decoder) checkText(at, text string, scope variableScope) {
	t, err := variables.ParseTemplate(text)
	if err != nil {
		d.addNoteAt(at, "is not a template, and stays as written: "+err.Error(), "")
		return
	}
	for _, name := range t.Names() {
		if _, ok := scope.classOf(name); !ok {
			d.addNoteAt(at, "names "+truncate(name)+", which nothing supplies: it stays as written", scope.hint(name))
		}
	}
	d.addTemplateError(at, t.CheckText(scope.classOf), scope)
}

// hint returns how to write a name that nothing supplies.
func (s variableScope) hint(name string) string {
	if near := suggest(name, s.names()); near != "" {
		return "did you mean " + near + "?"
	}
	return "set it under environment, or declare it under secrets"
}

// maxCondition is the max length of a condition in bytes.
const maxCondition = 4 << 10

func (d *decoder) checkCondition(h placedHook, scope variableScope) {
	at := h.at + ".condition"
	if h.Condition == "" || d.invalid[at] {
		return
	}
	if len(h.Condition) > maxCondition {
		d.addErrorAt(at, fmt.Sprintf("is %d bytes long, more than %d", len(h.Condition), maxCondition), "decide in a script, or in a webhook")
		return
	}
	c, err := variables.ParseCondition(h.Condition)
	if err == nil {
		err = c.Check(scope.classOf)
	}
	d.addTemplateError(at, err, scope)
}

// addTemplateError adds the error of a template, a condition or a path.
func (d *decoder) addTemplateError(at string, err error, scope variableScope) {
	if err == nil {
		return
	}
	if invalid, ok := errors.AsType[*variables.NameError](err); ok {
		if invalid.Unknown {
			d.addErrorAt(at, "names "+truncate(invalid.Name)+", which nothing supplies", scope.hint(invalid.Name))
			return
		}
		d.addErrorAt(at, fmt.Sprintf("names %s, which %s", truncate(invalid.Name), invalid.Message), "")
		return
	}
	d.addErrorAt(at, "is not valid: "+err.Error(), "")
}

// noteTimeout notes a long timeout at a point where a flow waits for it.
func (d *decoder) noteTimeout(h placedHook) {
	if t := time.Duration(h.Timeout); t > hooks.MaxRequestTimeout && h.point != hooks.PostCreate && !d.invalid[h.at+".timeout"] {
		d.addNoteAt(h.at+".timeout", fmt.Sprintf("is %s: the flow waits as long", shortDuration(t)), "let a long command start its work in the main process")
	}
}
