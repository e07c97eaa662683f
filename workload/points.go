package workload

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/hostler/hostler/hooks"
)

// hooksFile is the hooks of a workload in the order of the file. Each form of
// the file adds to it.
type hooksFile struct {
	hooks []placedHook
	// cleared has the points, the gates and the names of events that the file gives an
	// empty list: they do not take hooks from another workload.
	cleared []string
}

// hookForm is a way to write hooks.
type hookForm int

// The forms. All but the first are those of other formats, and bring their
// defaults.
const (
	ownForm    hookForm = iota
	listedForm          // a list with on and action
	textForm            // a point with a script
	namesForm           // an event with names of builtins
)

// placedHook is a hook with its place in the file.
type placedHook struct {
	hookFile
	form      hookForm
	at        string      // the path of the hook
	actionAt  string      // the path of what describes the request, or of the action
	processAt string      // the path of how the process runs
	point     hooks.Point // where it runs; with blocking: false, where it was written
	gate      hooks.Gate  // that it is a hook of, else empty
	index     int         // within the hooks of the point
	event     bool        // it is for events: under events, or with blocking: false
}

// kind returns the kind of the action.
func (h placedHook) kind() hooks.Kind {
	switch {
	case h.Script != nil:
		return hooks.KindScript
	case h.HTTP != nil:
		return hooks.KindHTTP
	case h.Webhook != nil:
		return hooks.KindWebhook
	case h.Builtin != nil:
		return hooks.KindBuiltin
	}
	return hooks.KindCommand
}

// actionOf returns the path of the action.
func (h placedHook) actionOf() string {
	if h.form == ownForm {
		return keyOf(h.at, string(h.kind()))
	}
	return h.actionAt
}

// eventsKey is the key of the hooks for events.
const eventsKey = "events"

func (v *hooksFile) read(d *decoder, n *yaml.Node, at string, _ rule) {
	switch n.Kind {
	case yaml.SequenceNode:
		v.readListed(d, n, at)
		return
	case yaml.MappingNode:
	default:
		d.addError(n, at, "is "+kindOf(n)+", not a mapping", "write points with lists of hooks")
		return
	}
	written := map[string]string{}
	for _, p := range pairs(n) {
		key, child := p.key.Value, keyOf(at, p.key.Value)
		point, isPoint := PointNamed(key)
		gate, isGate := hooks.GateNamed(key)
		name := cmp.Or(string(gate), string(point))
		switch {
		case key == eventsKey:
			v.readList(d, p.value, child, "")
		case !isPoint && !isGate:
			v.readOther(d, p, at)
		case written[name] != "":
			d.addError(p.key, child, "is another name of "+written[name]+", which is also given", "keep one of them")
		case isGate:
			written[name] = key
			v.readGate(d, p.value, child, gate)
		default:
			written[name] = key
			v.readPoint(d, p.value, child, point)
		}
	}
}

// readPoint reads the hooks of a point: a list, or a script.
func (v *hooksFile) readPoint(d *decoder, n *yaml.Node, at string, point hooks.Point) {
	n = resolve(n)
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str" {
		v.readText(d, n, at, point)
		return
	}
	v.readList(d, n, at, point)
}

// readList reads the hooks of a point, or those for events.
func (v *hooksFile) readList(d *decoder, n *yaml.Node, at string, point hooks.Point) {
	n = resolve(n)
	d.nodes[at] = n
	if n.Kind != yaml.SequenceNode {
		d.addError(n, at, "is "+kindOf(n)+", not a list", "write one hook per line after a dash")
		return
	}
	if len(n.Content) == 0 {
		v.cleared = append(v.cleared, cmp.Or(string(point), eventsKey))
	}
	for i, e := range n.Content {
		v.hooks = append(v.hooks, d.readHook(resolve(e), elementOf(at, i), point))
	}
}

// readHook reads a hook of a point, or one for events.
func (d *decoder) readHook(n *yaml.Node, at string, point hooks.Point) placedHook {
	h := placedHook{at: at, actionAt: at, processAt: at, point: point, event: point == ""}
	if blocking := valueOf(n, "blocking"); blocking != nil && blocking.Value == "false" {
		h.event = true
	}
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str" {
		if message, hint := checkBuiltin(n.Value); message != "" {
			d.addError(n, at, message+", and not a mapping", hint)
			return h
		}
		n = builtinNode(n)
	}
	d.read(n, at, reflect.ValueOf(&h.hookFile).Elem(), h.rule(kindOfNode(n)))
	switch {
	case h.HTTP != nil:
		h.actionAt = at + ".http"
	case h.Webhook != nil:
		h.actionAt = at + ".webhook"
	}
	return h
}

// builtinNode returns the hook that the name of a builtin stands for.
func builtinNode(n *yaml.Node) *yaml.Node {
	key := &yaml.Node{Kind: yaml.ScalarNode, Value: "builtin", Line: n.Line, Column: n.Column}
	return &yaml.Node{Kind: yaml.MappingNode, Line: n.Line, Column: n.Column, Content: []*yaml.Node{key, n}}
}

// valueOf returns the value of a key of a mapping, nil if it does not have it.
func valueOf(n *yaml.Node, key string) *yaml.Node {
	for _, p := range pairs(n) {
		if p.key.Value == key {
			return p.value
		}
	}
	return nil
}

// kindOfNode returns the kind of the action of a hook: that of its first key
// that is one.
func kindOfNode(n *yaml.Node) hooks.Kind {
	for _, p := range pairs(n) {
		if k := hooks.Kind(p.key.Value); k.Rule().Kind != "" {
			return k
		}
	}
	return hooks.KindCommand
}

// rule returns the rule of a hook with an action of kind k.
func (h placedHook) rule(k hooks.Kind) rule {
	p := h.point.Rule()
	if h.event {
		p = hooks.PointRule{DefaultTimeout: hooks.DefaultTimeout, MaxTimeout: hooks.MaxRequestTimeout}
	}
	kind := k.Rule()
	p.DefaultTimeout = min(p.DefaultTimeout, kind.DefaultTimeout)
	if kind.MaxTimeout > 0 {
		p.MaxTimeout = min(p.MaxTimeout, kind.MaxTimeout)
	}
	r := hookRule(p)
	if h.event {
		r.keys["on_error"] = rule{enum: []string{"continue", "retry", "log"}, defaultValue: "retry", hasDefault: true}
		r.keys["on_exhausted"] = rule{enum: []string{"continue"}}
		return r
	}
	if p.DefaultOnError != "" {
		r.keys["on_error"] = rule{defaultValue: string(p.DefaultOnError), hasDefault: true}
	}
	r.keys["retries"] = rule{min: "1", max: "5"}
	return r
}

// hookRule returns the rule of the hooks of a point.
func hookRule(p hooks.PointRule) rule {
	return rule{keys: map[string]rule{"timeout": {
		min: "1ms", max: shortDuration(p.MaxTimeout),
		defaultValue: shortDuration(p.DefaultTimeout), hasDefault: true,
	}}}
}

// shortDuration returns a duration in the notation of the file.
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// pointAliases are other names of points.
var pointAliases = map[string]hooks.Point{
	"pre-start":     hooks.PreStart,
	"post-start":    hooks.PostStart,
	"session.start": hooks.PostClaim,
	"session-start": hooks.PostClaim,
	"pre-stop":      hooks.PreDestroy,

	"on_blocking_start":   hooks.WaitStart,
	"on_signal_received":  hooks.WaitSignal,
	"on_blocking_timeout": hooks.WaitTimeout,
}

// PointNamed returns the point with a name or an alias.
func PointNamed(name string) (hooks.Point, bool) {
	p := hooks.Point(name)
	if alias, ok := pointAliases[name]; ok {
		p = alias
	}
	return p, p.IsValid()
}

func pointNames() []string {
	var list []string
	for _, p := range hooks.Points() {
		list = append(list, string(p.Point))
	}
	return list
}

// pointKeys returns the names and aliases of all points.
func pointKeys() []string {
	list := pointNames()
	for _, alias := range sortedKeys(pointAliases) {
		if _, ok := PointNamed(alias); ok {
			list = append(list, alias)
		}
	}
	return list
}

// given reports whether the file has one of some keys of a mapping.
func (d *decoder) given(at string, keys ...string) bool {
	return slices.ContainsFunc(keys, func(key string) bool { return d.nodes[at+"."+key] != nil })
}
