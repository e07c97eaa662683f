package workload

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/variables"
)

// variableScope has what supplies the variables of the hooks of a file, next to
// Hostler itself.
type variableScope struct {
	on          []string // the point of the hook that is checked, or the types of its events
	environment map[string]string
	secrets     secretMap
	parameters  parameterMap
	captured    map[string]string   // the path of what captures each name
	recaptured  map[string]string   // the path of what captures a name a second time
	responses   map[string][]string // the paths of the hooks whose response a name stands for
	// unknown is called with a name that nothing supplies, which is then permitted.
	// If it is nil, such a name is an error.
	unknown func(name string)
}

// newScope returns the scope of the hooks of a file.
func newScope(f *file) variableScope {
	s := variableScope{environment: f.Environment, secrets: f.Secrets, parameters: f.Parameters, captured: map[string]string{}, recaptured: map[string]string{}, responses: map[string][]string{}}
	for _, h := range f.Hooks.hooks {
		for _, name := range sortedKeys(h.captures()) {
			switch at := keyOf(h.actionAt+".capture", name); s.captured[name] {
			case "":
				s.captured[name] = at
			case at: // a listed hook can be at several points
			default:
				s.recaptured[at] = s.captured[name]
			}
		}
		if name := responseName(h.Name); h.Name != "" && h.gate == "" && (h.HTTP != nil || h.Webhook != nil) && !slices.Contains(s.responses[name], h.at) {
			s.responses[name] = append(s.responses[name], h.at)
		}
	}
	return s
}

// checkResponses checks that each name of a response that a hook uses stands for
// that of one hook: names are unique only within a point.
func (d *decoder) checkResponses(h placedHook, s variableScope) {
	if d.invalid[h.at] {
		return
	}
	used := h.hook("")
	for _, name := range slices.Concat(used.Action.Names(), used.Condition.Names()) {
		if at := s.responses[name]; len(at) > 1 {
			d.addErrorAt(h.at, fmt.Sprintf("names %s, which stands for the responses of %s", truncate(name), strings.Join(at, " and ")),
				"give one of them another name")
		}
	}
}

// captures returns what a hook captures of its response.
func (h placedHook) captures() captureFile {
	switch {
	case h.HTTP != nil:
		return h.HTTP.Capture
	case h.Webhook != nil:
		return h.Webhook.Capture
	}
	return nil
}

// classOf returns the class of a variable. The order is that in which a server
// looks a name up.
func (s variableScope) classOf(name string) (variables.Class, bool) {
	r, isOurs := variables.RuleOf(name)
	if isOurs && slices.ContainsFunc(s.on, r.IsSuppliedAt) {
		return r.Class, true
	}
	if _, ok := parameterOf(s.parameters, name); ok && slices.ContainsFunc(s.on, isPoint) {
		return variables.Untrusted, true
	}
	if s.captured[name] != "" || s.responses[name] != nil {
		return variables.Untrusted, true
	}
	if _, ok := s.secrets[name]; ok {
		return variables.Secret, true
	}
	_, ok := s.environment[name]
	if !ok && s.unknown != nil {
		s.unknown(name)
		ok = true
	}
	return variables.Configured, ok
}

// isPoint reports whether what a hook is for is a point.
func isPoint(on string) bool {
	return slices.ContainsFunc(hooks.Points(), func(r hooks.PointRule) bool { return string(r.Point) == on })
}

// names returns all names, for suggestions.
func (s variableScope) names() []string {
	var all []string
	for _, r := range variables.Names() {
		all = append(append(all, r.Name), r.Aliases...)
	}
	for _, name := range sortedKeys(s.parameters) {
		all = append(all, VariableOf(name))
	}
	all = append(all, sortedKeys(s.captured)...)
	all = append(all, sortedKeys(s.secrets)...)
	return append(all, sortedKeys(s.environment)...)
}

// checkNames rejects names that two of environment, secrets and captures have,
// and secrets and captures with names of Hostler: one of the two could not be
// used.
func (d *decoder) checkNames(s variableScope) {
	check := func(name, at string) {
		rule, ours := variables.RuleOf(name)
		_, set := s.environment[name]
		switch {
		case ours && rule.Name == name:
			d.addErrorAt(at, fmt.Sprintf("%q is a variable of Hostler", truncate(name)), "choose another name")
		case ours:
			d.addErrorAt(at, fmt.Sprintf("%q is another name of %s", truncate(name), rule.Name), "choose another name")
		case set:
			d.addErrorAt(at, fmt.Sprintf("%q is also a variable of environment", truncate(name)), "choose another name")
		}
	}
	d.checkParameterNames(s)
	for _, name := range sortedKeys(s.secrets) {
		check(name, keyOf("secrets", name))
	}
	for _, at := range sortedKeys(s.recaptured) {
		d.addErrorAt(at, "is also captured by "+s.recaptured[at], "choose another name")
	}
	for _, name := range sortedKeys(s.captured) {
		at := s.captured[name]
		check(name, at)
		if _, twice := s.secrets[name]; twice {
			d.addErrorAt(at, fmt.Sprintf("%q is also a secret", truncate(name)), "choose another name")
		}
		if strings.HasPrefix(name, reservedPrefix) {
			d.addErrorAt(at, truncate(name)+" begins with "+reservedPrefix, "choose another name")
		}
		if s.responses[name] != nil {
			d.addErrorAt(at, fmt.Sprintf("%q is also the response of a hook", truncate(name)), "choose another name")
		}
	}
}
