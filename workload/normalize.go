package workload

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/variables"
)

// NormalizedHooks returns the hooks and the secrets of w as YAML, whatever form
// the file has: in Hostler's own, with every default that another form brings.
// Parse reads the same hooks from it.
func (w *Workload) NormalizedHooks() []byte {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	n := w.hooksNode()
	if len(n.Content) == 0 {
		return nil
	}
	if err := e.Encode(n); err != nil {
		panic(fmt.Sprintf("workload: hooks are not YAML: %v", err)) // they are mappings, lists and scalars
	}
	return b.Bytes()
}

// hooksNode returns the hooks and the secrets of w.
func (w *Workload) hooksNode() *yaml.Node {
	var root, all mapping
	for _, p := range hooks.Points() {
		var list []*yaml.Node
		for i, h := range w.Hooks[p.Point] {
			if h.Name == defaultName(p.Point, i) {
				h.Name = ""
			}
			list = append(list, hookNode(h, nil).node())
		}
		for _, e := range w.EventHooks {
			if e.Point == p.Point {
				list = append(list, eventHookNode(e))
			}
		}
		all.add(string(p.Point), list)
	}
	w.addGateNodes(&all)
	var events []*yaml.Node
	for _, e := range w.EventHooks {
		if e.Point == "" {
			events = append(events, eventHookNode(e))
		}
	}
	all.add(eventsKey, events)
	var secrets mapping
	for _, name := range sortedKeys(w.Secrets) {
		var s mapping
		s.add("file", w.Secrets[name].File)
		s.add("env", w.Secrets[name].Env)
		secrets.add(name, s.node())
	}
	root.add("secrets", secrets.node())
	root.add("hooks", all.node())
	return root.node()
}

// addGateNodes adds the gates. An empty list stands for a gate that secure leaves
// without its guard.
func (w *Workload) addGateNodes(all *mapping) {
	for _, r := range hooks.Gates() {
		var list []*yaml.Node
		for i, h := range w.Gates[r.Gate] {
			if h.Name == defaultGateName(r.Gate, i) {
				h.Name = ""
			}
			list = append(list, hookNode(h, nil).node())
		}
		if len(list) == 0 && slices.Contains(w.cleared, string(r.Gate)) {
			all.content = append(all.content, textNode(string(r.Gate)), &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle})
			continue
		}
		all.add(string(r.Gate), list)
	}
}

func eventHookNode(e hooks.EventHook) *yaml.Node {
	var on []string
	if e.Point == "" {
		on = e.On
	}
	m := hookNode(e.Hook, on)
	if e.Point != "" {
		m.add("blocking", scalarNode("!!bool", "false"))
	}
	m.add("debounce", e.Debounce)
	return m.node()
}

// hookNode returns the node of a hook, for events if on is not empty.
func hookNode(h hooks.Hook, on []string) mapping {
	var m mapping
	m.add("name", h.Name)
	m.add("on", on)
	switch a := h.Action.(type) {
	case hooks.Command:
		m.add("command", a.Args)
		m.addProcess(a.Process)
	case hooks.Script:
		m.add("script", a.Text)
		m.add("shell", a.Shell)
		m.addProcess(a.Process)
	case hooks.Request:
		m.addRequest(a)
	case hooks.Builtin:
		m.add("builtin", a.Name)
		m.addAny("with", a.With)
	}
	m.add("timeout", h.Timeout)
	m.add("on_error", string(h.OnError))
	if h.OnError == hooks.Retry {
		m.add("retries", h.Retries)
		m.add("on_exhausted", string(h.OnExhausted))
	}
	m.add("condition", h.Condition.String())
	m.add("idempotent", h.Idempotent)
	if h.Disabled {
		m.add("enabled", scalarNode("!!bool", "false"))
	}
	if len(h.StopOn) > 0 {
		var stop mapping
		stop.add("exit", h.StopOn)
		m.add("stop_on", stop.node())
	}
	return m
}

func (m *mapping) addProcess(p hooks.Process) {
	m.add("user", p.User)
	m.add("workdir", p.Workdir)
	m.add("environment", texts(p.Environment))
	var limits mapping
	limits.add("cpu_time", p.Limits.CPUTime)
	limits.add("memory", p.Limits.Memory)
	limits.add("file_size", p.Limits.FileSize)
	limits.add("output", p.Limits.Output)
	m.add("limits", limits.node())
	if p.Grace != nil {
		m.add("grace", durationNode(*p.Grace))
	}
}

func (m *mapping) addRequest(r hooks.Request) {
	var q mapping
	q.add("url", r.URL.String())
	if !r.Webhook {
		q.add("method", r.Method)
	}
	q.add("headers", texts(r.Headers))
	if r.Body != nil {
		q.add("body", textNode(r.Body.String()))
	}
	var auth mapping
	auth.add("type", string(r.Auth.Type))
	auth.add("secret", r.Auth.Secret)
	auth.add("header", r.Auth.Header)
	q.add("auth", auth.node())
	q.add("sign", r.Sign)
	q.add("expect", r.Expect)
	q.add("capture", sources(r.Capture))
	q.add("keep_response", r.KeepResponse)
	m.add(string(r.Kind()), q.node())
}

// sources returns the sources of paths.
func sources(all map[string]variables.Path) map[string]string {
	out := make(map[string]string, len(all))
	for name, p := range all {
		out[name] = p.String()
	}
	return out
}

// mapping builds the node of a mapping, in the order of its calls.
type mapping struct{ content []*yaml.Node }

// node returns the node; a mapping without keys is one that add omits.
func (m mapping) node() *yaml.Node { return &yaml.Node{Kind: yaml.MappingNode, Content: m.content} }

// add adds a key. It omits values that mean the same as their absence.
func (m *mapping) add(key string, value any) {
	if n := valueNode(value); n != nil {
		m.content = append(m.content, textNode(key), n)
	}
}

// addAny adds a value of options.
func (m *mapping) addAny(key string, value map[string]any) {
	if len(value) == 0 {
		return
	}
	var n yaml.Node
	if err := n.Encode(value); err != nil {
		panic(fmt.Sprintf("workload: options are not YAML: %v", err)) // they were read from YAML
	}
	m.content = append(m.content, textNode(key), &n)
}

// valueNode returns the node of a value, nil if it is not set.
func valueNode(value any) *yaml.Node {
	if n, ok := value.(*yaml.Node); ok {
		if n.Kind == yaml.MappingNode && len(n.Content) == 0 {
			return nil
		}
		return n
	}
	if isUnset(value) {
		return nil
	}
	switch v := value.(type) {
	case string:
		return textNode(v)
	case bool:
		return scalarNode("!!bool", fmt.Sprint(v))
	case int, int64:
		return scalarNode("!!int", fmt.Sprint(v))
	case time.Duration:
		return durationNode(v)
	case []string:
		return listNode(v, textNode)
	case []int:
		return listNode(v, func(i int) *yaml.Node { return scalarNode("!!int", fmt.Sprint(i)) })
	case []*yaml.Node:
		return &yaml.Node{Kind: yaml.SequenceNode, Content: v}
	case map[string]string:
		var m mapping
		for _, key := range sortedKeys(v) {
			m.content = append(m.content, textNode(key), textNode(v[key]))
		}
		return m.node()
	}
	panic(fmt.Sprintf("workload: no node for a %T", value))
}

// durationNode returns the node of a duration. The format has no fractions.
func durationNode(v time.Duration) *yaml.Node {
	if v%time.Second != 0 {
		return scalarNode("!!int", fmt.Sprint(v.Milliseconds()))
	}
	return scalarNode("!!str", shortDuration(v))
}

func listNode[T any](list []T, node func(T) *yaml.Node) *yaml.Node {
	n := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
	for _, v := range list {
		n.Content = append(n.Content, node(v))
	}
	return n
}

func scalarNode(tag, value string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: value}
}

// textNode returns the node of a text. Text of several lines is a block if a
// parser reads the same from it.
func textNode(s string) *yaml.Node {
	n := scalarNode("!!str", s)
	for _, style := range []yaml.Style{0, yaml.DoubleQuotedStyle} {
		n.Style = style
		if style == 0 && slices.Contains([]byte(s), '\n') {
			n.Style = yaml.LiteralStyle
		}
		text, err := yaml.Marshal(&yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{scalarNode("!!str", "x"), n}})
		var back map[string]string
		if err == nil && yaml.Unmarshal(text, &back) == nil && back["x"] == s {
			break
		}
	}
	return n
}
