package workload

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"gopkg.in/yaml.v3"

	"github.com/hostler/hostler/hooks"
)

// WithHooksOf returns w with the hooks of another workload next to its own, for
// hooks_from. A hook of w replaces that of the same name at the same point or
// for events; an empty list of w removes those of a point or an event. Secrets
// are copied as well, and those of w take precedence. The source of the result
// has all of them in the normal form, and not hooks_from: it does not depend on
// the other workload. name is that of the file in errors.
func (w *Workload) WithHooksOf(other *Workload, name string) (*Workload, error) {
	merged := *w
	merged.Hooks = map[hooks.Point][]hooks.Hook{}
	for _, p := range hooks.Points() {
		if list := w.mergePoint(other, p.Point); len(list) > 0 {
			merged.Hooks[p.Point] = list
		}
	}
	merged.Gates = map[hooks.Gate][]hooks.Hook{}
	for _, r := range hooks.Gates() {
		if list := w.mergeGate(other, r.Gate); len(list) > 0 {
			merged.Gates[r.Gate] = list
		}
	}
	merged.EventHooks = w.mergeEventHooks(other)
	merged.Secrets = maps.Clone(other.Secrets)
	if merged.Secrets == nil {
		merged.Secrets = map[string]hooks.Secret{}
	}
	maps.Copy(merged.Secrets, w.Secrets)
	return Parse(merged.sourceWithHooks(), name)
}

// mergePoint returns the hooks of a point: those of other, then those of w that
// replace none.
func (w *Workload) mergePoint(other *Workload, p hooks.Point) []hooks.Hook {
	var inherited []hooks.Hook
	if !slices.Contains(w.cleared, string(p)) {
		inherited = other.Hooks[p]
	}
	return w.mergeHooks(inherited, w.Hooks[p], other)
}

// mergeHooks returns the hooks that are inherited from other, then own ones that
// replace none.
func (w *Workload) mergeHooks(inherited, own []hooks.Hook, other *Workload) []hooks.Hook {
	list := slices.Clone(inherited)
	for i := range list {
		list[i] = w.adopt(list[i], other)
	}
	for _, h := range own {
		if isDefaultName(h.Name) {
			h.Name = ""
		}
		i := slices.IndexFunc(list, func(o hooks.Hook) bool { return o.Name == h.Name && h.Name != "" })
		if i < 0 {
			list = append(list, h)
			continue
		}
		list[i] = h
	}
	return list
}

// adopt returns a hook of other as one of w. Hooks without a name get theirs by
// their place, and scripts start in the directory of w.
func (w *Workload) adopt(h hooks.Hook, other *Workload) hooks.Hook {
	if isDefaultName(h.Name) {
		h.Name = ""
	}
	if s, ok := h.Action.(hooks.Script); ok && s.Workdir == other.ScriptDir() {
		s.Workdir = ""
		h.Action = s
	}
	return h
}

var defaultNameRegexp = regexp.MustCompile(`^[a-z_.]+\[[0-9]+\]$`)

// isDefaultName reports whether the file gives a hook no name.
func isDefaultName(name string) bool { return defaultNameRegexp.MatchString(name) }

func (w *Workload) mergeEventHooks(other *Workload) []hooks.EventHook {
	list := slices.Clone(w.EventHooks)
	for _, e := range other.EventHooks {
		isReplaced := slices.ContainsFunc(w.EventHooks, func(own hooks.EventHook) bool { return own.Name == e.Name })
		e.Hook = w.adopt(e.Hook, other)
		if !isReplaced && !w.clears(&e) {
			list = append(list, e)
		}
	}
	return list
}

// clears removes from a hook the events that w gives an empty list, and reports
// whether none is left.
func (w *Workload) clears(e *hooks.EventHook) bool {
	if slices.Contains(w.cleared, eventsKey) || e.Point != "" && slices.Contains(w.cleared, string(e.Point)) {
		return true
	}
	e.On = slices.DeleteFunc(slices.Clone(e.On), func(on string) bool {
		return slices.ContainsFunc(w.cleared, func(name string) bool {
			alias, ok := hooks.EventAliasOf(name)
			return on == name || ok && (on == alias.Name || slices.Contains(alias.Types, on))
		})
	})
	return len(e.On) == 0
}

// sourceWithHooks returns the source of w with its hooks and secrets in the
// normal form, and without hooks_from.
func (w *Workload) sourceWithHooks() []byte {
	parsing <- struct{}{}
	defer func() { <-parsing }()
	root, invalid := parseNode(w.Source)
	if invalid != nil {
		panic(fmt.Sprintf("workload: a valid file does not parse: %v", invalid))
	}
	var n mapping
	c := copied{}
	for _, p := range pairs(root) {
		if !slices.Contains([]string{"hooks", "lifecycle_hooks", "hooks_from", "secrets"}, p.key.Value) {
			n.content = append(n.content, c.withoutAliases(p.key), c.withoutAliases(p.value))
		}
	}
	n.content = append(n.content, w.hooksNode().Content...)
	var b bytes.Buffer
	b.Write(w.copiedHeader())
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(n.node()); err != nil {
		panic(fmt.Sprintf("workload: a file is not YAML: %v", err)) // it was parsed
	}
	return b.Bytes()
}

// copiedHeader returns the first line of a source with copied hooks. It identifies
// the file.
func (w *Workload) copiedHeader() []byte {
	return fmt.Appendf(nil, "# With the hooks of %s (hooks_from), for the file %x.\n", w.HooksFrom, sha256.Sum256(w.Source))
}

// IsAppliedAs reports whether the source of a workload is that of w as it was
// applied: with hooks_from, with the hooks that were copied then.
func (w *Workload) IsAppliedAs(source []byte) bool {
	return bytes.Equal(source, w.Source) || w.HooksFrom != "" && bytes.HasPrefix(source, w.copiedHeader())
}

// copied are the nodes of a file that were copied already.
type copied map[*yaml.Node]bool

// withoutAliases returns a copy of a node with copies instead of aliases: what they
// refer to may be removed. Only the first copy has its comments: no bound of a file
// counts them as often as they are copied.
func (c copied) withoutAliases(n *yaml.Node) *yaml.Node {
	n = resolve(n)
	clone := *n
	clone.Anchor, clone.Content = "", nil
	if c[n] {
		clone.HeadComment, clone.LineComment, clone.FootComment = "", "", ""
	}
	c[n] = true
	if clone.Kind == yaml.MappingNode {
		for _, p := range pairs(n) {
			clone.Content = append(clone.Content, c.withoutAliases(p.key), c.withoutAliases(p.value))
		}
		return &clone
	}
	for _, e := range n.Content {
		clone.Content = append(clone.Content, c.withoutAliases(e))
	}
	return &clone
}
