package workload

import (
	"reflect"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/hostler/hostler/hooks"
)

// listedAction is the action of a hook in a list: that of the type that it
// names.
type listedAction struct {
	command listedCommandFile
	script  listedScriptFile
	request listedRequestFile
	webhook listedWebhookFile
	builtin listedBuiltinFile

	kind hooks.Kind
}

// listedActions are the actions by kind.
var listedActions = []struct {
	kind  hooks.Kind
	field func(*listedAction) reflect.Value
}{
	{hooks.KindCommand, func(a *listedAction) reflect.Value { return reflect.ValueOf(&a.command).Elem() }},
	{hooks.KindScript, func(a *listedAction) reflect.Value { return reflect.ValueOf(&a.script).Elem() }},
	{hooks.KindHTTP, func(a *listedAction) reflect.Value { return reflect.ValueOf(&a.request).Elem() }},
	{hooks.KindWebhook, func(a *listedAction) reflect.Value { return reflect.ValueOf(&a.webhook).Elem() }},
	{hooks.KindBuiltin, func(a *listedAction) reflect.Value { return reflect.ValueOf(&a.builtin).Elem() }},
}

func (v *listedAction) read(d *decoder, n *yaml.Node, at string, _ rule) {
	if n.Kind != yaml.MappingNode {
		d.addError(n, at, "is "+kindOf(n)+", not a mapping", "write type and the keys of that type")
		return
	}
	var types []string
	for _, k := range hooks.Kinds() {
		types = append(types, string(k.Kind))
	}
	child := keyOf(at, "type")
	written := valueOf(n, "type")
	if written == nil {
		d.addError(n, child, "is missing", "write one of "+strings.Join(types, ", "))
		return
	}
	v.kind = hooks.Kind(d.text(written, child, rule{enum: types}))
	if v.kind == hooks.KindScript && valueOf(n, "script") == nil {
		v.kind = hooks.KindCommand // type: script with command
	}
	for _, a := range listedActions {
		if a.kind == v.kind {
			d.readStruct(n, at, a.field(v), rule{})
		}
	}
}

func (v *listedAction) schema(g *generator, _ rule) schema {
	var kinds []kindSchema
	for _, a := range listedActions {
		forms := []reflect.Type{a.field(v).Type()}
		if a.kind == hooks.KindScript { // it may have a command
			forms = append(forms, reflect.TypeOf(v.command))
		}
		kinds = append(kinds, kindSchema{string(a.kind), forms})
	}
	return g.schemaByKind("The kind of action.", kinds)
}

// readListed reads the hooks of a list with on and action.
func (v *hooksFile) readListed(d *decoder, n *yaml.Node, at string) {
	for i, e := range n.Content {
		child := elementOf(at, i)
		var l listedHookFile
		d.read(resolve(e), child, reflect.ValueOf(&l).Elem(), listedRule(resolve(e)))
		if d.invalid[child] {
			continue
		}
		v.hooks = append(v.hooks, d.placeListed(l, child)...)
	}
}

// listedRule returns the rule of a hook of a list, with the defaults of that
// form.
func listedRule(n *yaml.Node) rule {
	kind := hooks.KindCommand
	if action := valueOf(n, "action"); action != nil {
		if written := valueOf(action, "type"); written != nil {
			kind = hooks.Kind(written.Value)
		}
	}
	k := kind.Rule()
	if k.DefaultTimeout == 0 {
		k.DefaultTimeout = hooks.DefaultTimeout // of an unknown kind, which is an error
	}
	r := hookRule(hooks.PointRule{DefaultTimeout: k.DefaultTimeout, MaxTimeout: hooks.MaxRequestTimeout})
	r.keys["on_error"] = rule{enum: []string{"fail", "continue", "retry", "log"}, defaultValue: "log", hasDefault: true}
	if blocking := valueOf(n, "blocking"); blocking == nil || blocking.Value != "true" {
		r.keys["on_error"] = rule{enum: []string{"log", "continue", "retry"}, defaultValue: "log", hasDefault: true}
		return r
	}
	r.keys["retries"] = rule{min: "1", max: "5"}
	return r
}

// placeListed returns the hooks that one of a list stands for: one for each
// point if it is blocking, else one for the events.
func (d *decoder) placeListed(l listedHookFile, at string) []placedHook {
	h := placedHook{hookFile: l.hook(), at: at, actionAt: keyOf(at, "action"), processAt: keyOf(at, "action"), form: listedForm}
	if l.OnError == string(hooks.Retry) {
		if h.Retries == nil {
			three := 3
			h.Retries = &three
		}
		if h.OnExhausted == "" {
			h.OnExhausted = string(hooks.Continue)
		}
	}
	blocking := l.Blocking != nil && *l.Blocking
	var all []placedHook
	gates := 0
	for i, name := range l.On {
		place := elementOf(keyOf(at, "on"), i)
		point, isPoint := PointNamed(name)
		gate, isGate := hooks.GateNamed(name)
		switch {
		case d.invalid[place]:
		case isGate:
			gates++
			all = append(all, d.placeAtGate(h, gate))
		case blocking && isPoint:
			h.point = point
			all = append(all, h)
		case blocking:
			if on, ok := d.eventsNamed(name, place, listedForm); ok && on != nil {
				d.addErrorAt(place, "is an event, and nothing waits for a hook for events", "remove blocking, or name a point")
			}
		case isPoint:
			h.addOn(momentOf(point))
		default:
			on, _ := d.eventsNamed(name, place, listedForm)
			h.addOn(on...)
		}
	}
	if h.event = !blocking && gates < len(l.On); h.event { // if nothing fires its events, it is checked all the same
		if len(l.On) == 1 {
			h.point, _ = PointNamed(l.On[0])
			if !h.point.IsValid() {
				h.point = ""
			}
		}
		all = append(all, h)
	}
	return all
}

// addOn adds names of events that are not there.
func (h *placedHook) addOn(names ...string) {
	for _, name := range names {
		if !slices.Contains(h.On, name) {
			h.On = append(h.On, name)
		}
	}
}

// hook returns the hook without its place.
func (l listedHookFile) hook() hookFile {
	h := hookFile{Name: l.Name, hookPolicyFile: l.hookPolicyFile}
	switch l.Action.kind {
	case hooks.KindCommand:
		h.Command, h.processFile = l.Action.command.Command, l.Action.command.processFile
	case hooks.KindScript:
		h.Script, h.Shell, h.processFile = l.Action.script.Script, l.Action.script.Shell, l.Action.script.processFile
	case hooks.KindHTTP:
		h.HTTP = &l.Action.request.requestFile
	case hooks.KindWebhook:
		h.Webhook = &l.Action.webhook.webhookFile
	case hooks.KindBuiltin:
		h.Builtin, h.With = l.Action.builtin.Builtin, l.Action.builtin.With
	}
	return h
}
