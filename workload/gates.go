package workload

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/hostler/hostler/hooks"
)

// gateKeys returns the names and aliases of all gates.
func gateKeys() []string {
	var list []string
	for _, r := range hooks.Gates() {
		list = append(append(list, string(r.Gate)), r.Aliases...)
	}
	return list
}

// readGate reads the hooks of a gate: a list of hooks, or of names of builtins.
func (v *hooksFile) readGate(d *decoder, n *yaml.Node, at string, gate hooks.Gate) {
	n = resolve(n)
	d.nodes[at] = n
	if n.Kind != yaml.SequenceNode {
		d.addError(n, at, "is "+kindOf(n)+", not a list", "write one hook per line after a dash")
		return
	}
	if len(n.Content) == 0 {
		v.cleared = append(v.cleared, string(gate))
	}
	for i, e := range n.Content {
		v.hooks = append(v.hooks, d.readGateHook(resolve(e), elementOf(at, i), gate))
	}
}

// readGateHook reads a hook of a gate.
func (d *decoder) readGateHook(n *yaml.Node, at string, gate hooks.Gate) placedHook {
	h := placedHook{at: at, actionAt: at, processAt: at, gate: gate}
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str" {
		if message, hint := checkBuiltinFor(n.Value, gate); message != "" {
			d.addError(n, at, message+", and not a mapping", hint)
			return h
		}
		n = builtinNode(n)
	}
	d.read(n, at, reflect.ValueOf(&h.hookFile).Elem(), gateRule())
	if h.HTTP != nil {
		h.actionAt = at + ".http"
	}
	return h
}

// gateRule returns the rule of a hook of a gate.
func gateRule() rule {
	return hookRule(hooks.PointRule{DefaultTimeout: hooks.DefaultGateTimeout, MaxTimeout: hooks.MaxGateTimeout})
}

// placeAtGate returns the hook of a list as one of a gate, without the defaults of that
// form.
func (d *decoder) placeAtGate(h placedHook, gate hooks.Gate) placedHook {
	h.gate, h.On, h.OnError, h.Retries, h.OnExhausted = gate, nil, "", nil, ""
	if !d.writes(h.at, "timeout") {
		h.Timeout = duration(hooks.DefaultGateTimeout)
	}
	return h
}

// notAtGates are the keys of hooks that those of gates do not have, with what to do
// instead.
var notAtGates = []struct{ key, message, hint string }{
	{"on_error", "is not for hooks of gates", "remove it: a hook of a gate that fails refuses"},
	{"retries", "is not for hooks of gates", "remove it: a tenant waits for a gate, which asks once"},
	{"on_exhausted", "is not for hooks of gates", "remove it: a hook of a gate that fails refuses"},
	{"stop_on", "is not for hooks of gates", "remove it: all hooks of a gate must allow"},
	{"idempotent", "is not for hooks of gates", "remove it: a gate asks once"},
	{"blocking", "is not for hooks of gates", "remove it: a tenant always waits for a gate; a hook under " + eventsKey + " does not block"},
	{"debounce", "is for hooks of events", "remove it: a gate decides about each use"},
	{"on", "is for hooks of events", "remove it: the gate is named above"},
}

// notInGateRequests are the keys of requests that those of gates do not have.
var notInGateRequests = []struct{ key, hint string }{
	{"expect", `remove it: only a 2xx response with {"decision": "allow"} allows`},
	{"capture", "remove it: nothing is kept of the response"},
	{"keep_response", "remove it: nothing is kept of the response but its message"},
}

// gateActions are the actions of gates.
var gateActions = []hooks.Kind{hooks.KindBuiltin, hooks.KindHTTP}

// checkGateHook checks what only hooks of gates have, and what they do not have.
func (d *decoder) checkGateHook(h placedHook) {
	if !slices.Contains(gateActions, h.kind()) && (h.form != ownForm || d.given(h.at, string(h.kind()))) {
		d.addErrorAt(h.actionOf(), fmt.Sprintf("is a %s, which cannot be at a gate", h.kind()), "write builtin or http: the tenant controls what runs in its container")
	}
	for _, not := range notAtGates {
		if d.writes(h.at, not.key) && (h.form != listedForm || not.key != "on") {
			d.addErrorAt(keyOf(h.at, not.key), not.message, not.hint)
		}
	}
	for _, not := range notInGateRequests {
		if h.HTTP != nil && d.writes(h.actionAt, not.key) {
			d.addErrorAt(keyOf(h.actionAt, not.key), "is not for hooks of gates", not.hint)
		}
	}
	if h.Builtin != nil {
		if message, hint := checkBuiltinFor(string(*h.Builtin), h.gate); message != "" {
			at := h.actionAt
			if d.given(h.actionAt, "builtin") {
				at = h.actionAt + ".builtin"
			}
			d.addErrorAt(at, message, hint)
		}
	}
}

// checkGuards checks that the guards of paths know the directory that they allow.
func (d *decoder) checkGuards(f *file) {
	hasDir := f.Workspace != "" || f.Volumes.State != nil
	const message, hint = "does not know which directory to allow", "write workspace: with an absolute path, or a state volume"
	for _, h := range f.Hooks.hooks {
		if h.Builtin != nil && h.gate != "" && builtinFunction(string(*h.Builtin)) == hooks.GuardPaths && h.With["allowed"] == nil && !hasDir {
			d.addErrorAt(h.at, message, hint+", or with: {allowed: [DIRECTORY]}")
		}
	}
	if f.Secure && !hasDir && !f.Hooks.names(hooks.FileBefore) {
		d.addErrorAt("secure", message, hint+", or name file.before")
	}
}

// names reports whether the file names a gate.
func (v *hooksFile) names(gate hooks.Gate) bool {
	return slices.Contains(v.cleared, string(gate)) ||
		slices.ContainsFunc(v.hooks, func(h placedHook) bool { return h.gate == gate })
}

// addGuards adds the guards of secure to the gates that the file does not name.
func (f *file) addGuards(w *Workload) {
	if !f.Secure {
		return
	}
	for _, r := range hooks.Gates() {
		if r.Guard != "" && !f.Hooks.names(r.Gate) {
			w.addGateHook(r.Gate, hooks.Hook{Name: r.Guard, Action: hooks.Builtin{Name: r.Guard}, Timeout: hooks.DefaultGateTimeout})
		}
	}
}

func (w *Workload) addGateHook(g hooks.Gate, h hooks.Hook) {
	if w.Gates == nil {
		w.Gates = map[hooks.Gate][]hooks.Hook{}
	}
	w.Gates[g] = append(w.Gates[g], h)
}

// writes reports whether the mapping at a path has a key in the file. Keys with a
// default are given in any case.
func (d *decoder) writes(at, key string) bool {
	n := d.nodes[at]
	return n != nil && n.Kind == yaml.MappingNode && valueOf(n, key) != nil
}

// gateHook returns the hook of a gate.
func (h placedHook) gateHook() hooks.Hook {
	hook := h.hook("")
	hook.OnError = ""
	if h.Name == "" {
		hook.Name = defaultGateName(h.gate, h.index)
	}
	if r, ok := hook.Action.(hooks.Request); ok && h.HTTP.Method == "" {
		r.Method = "POST" // the default body describes what is to be decided
		hook.Action = r
	}
	return hook
}

// defaultGateName returns the name of the hook of a gate that has none.
func defaultGateName(g hooks.Gate, index int) string { return fmt.Sprintf("%s[%d]", g, index) }

// GateWorstCase returns how long the hooks of a gate can delay a tenant at most: each
// takes its timeout, and the first one waits as long for its turn.
func (w *Workload) GateWorstCase(g hooks.Gate) time.Duration {
	var total time.Duration
	for _, h := range w.Gates[g] {
		switch {
		case h.Disabled:
		case total == 0:
			total = 2 * h.Timeout
		default:
			total += h.Timeout
		}
	}
	return total
}

// mergeGate returns the hooks of a gate for WithHooksOf, as mergePoint those of a
// point.
func (w *Workload) mergeGate(other *Workload, g hooks.Gate) []hooks.Hook {
	var inherited []hooks.Hook
	if !slices.Contains(w.cleared, string(g)) {
		inherited = other.Gates[g]
	}
	return w.mergeHooks(inherited, w.Gates[g], other)
}

// addGates adds the gates to the schema of the mapping of hooks.
func (g *generator) addGates(properties schema) {
	hook := g.gateHookSchema()
	for _, r := range hooks.Gates() {
		list := schema{
			"type": "array", "description": r.Doc,
			"items": schema{"anyOf": []schema{hook, {"type": "string", "enum": builtinsFor(r.Gate)}}},
		}
		for _, key := range append([]string{string(r.Gate)}, r.Aliases...) {
			properties[key] = list
		}
	}
}

// gateHookSchema returns the schema of the hooks of gates: those of points without
// what gates do not have.
func (g *generator) gateHookSchema() schema {
	s := g.object(reflect.TypeFor[hookFile]())
	properties, _ := s["properties"].(schema)
	kept := schema{}
	for _, name := range []string{"name", "http", "builtin", "with", "timeout", "condition", "enabled"} {
		kept[name] = properties[name]
	}
	kept["timeout"] = schema{
		"type": []string{"string", "integer"}, "default": shortDuration(hooks.DefaultGateTimeout),
		"description": "The tenant waits at most as long for the hook, at most " + shortDuration(hooks.MaxGateTimeout) + ".",
	}
	kept["builtin"] = schema{"type": "string", "enum": gateBuiltins(), "description": "A function of the server."}
	s["properties"] = kept
	s["oneOf"] = []schema{{"required": []string{"http"}}, {"required": []string{"builtin"}}}
	delete(s, "allOf")
	g.defs["gateHook"] = s
	return schema{"$ref": "#/$defs/gateHook"}
}

// gateBuiltins returns the functions that hooks of gates can call.
func gateBuiltins() []string {
	var all []string
	for _, r := range hooks.Gates() {
		for _, name := range builtinsFor(r.Gate) {
			if !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	return all
}

// builtinsFor returns the names of the functions for a gate; those for points and
// events if it is empty.
func builtinsFor(gate hooks.Gate) []string {
	var names []string
	for _, b := range builtins {
		isGuard := strings.HasPrefix(b.function, "guard_")
		if gate == "" && !isGuard || slices.Contains(gate.Rule().Builtins, b.function) {
			names = append(names, b.name)
		}
	}
	return names
}

// checkNoGuard checks that a hook of a point or an event calls no guard.
func (d *decoder) checkNoGuard(h placedHook) {
	if h.Builtin == nil || !slices.Contains(Builtins(), string(*h.Builtin)) {
		return // reported
	}
	if message, hint := checkBuiltin(string(*h.Builtin)); message != "" {
		d.addErrorAt(h.actionAt+".builtin", message, hint)
	}
}
