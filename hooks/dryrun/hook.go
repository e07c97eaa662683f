package dryrun

import (
	"slices"
	"time"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/runner"
	"github.com/hostler/hostler/hooks/variables"
)

// hidden stands for a secret.
const hidden = "•••"

// add adds what an attempt of a hook would do, unless the report is too long.
func (d *dryRun) add(h hooks.Hook, a runner.Attempt) {
	if d.size += len(a.Envelope); d.size > maxSize {
		return
	}
	base := a.Lookup
	a.Lookup = func(name string) (variables.Value, bool) { return d.lookup(base, name) }
	out := Hook{
		Name: h.Name, Action: h.Action.Kind(), Disabled: h.Disabled,
		Condition: h.Condition.String(), Holds: h.Condition.Holds(a.Lookup),
		Variables: d.variables(h, a.Lookup), Timeout: float64(h.Timeout) / float64(time.Millisecond),
	}
	switch action := h.Action.(type) {
	case hooks.Request:
		p, err := d.requests.Preview(a)
		if err != nil {
			out.Error = err.Error()
		} else {
			out.Request = &p
			d.size += len(p.URL) + len(p.Body)
		}
	case hooks.Builtin:
		out.Builtin = &Builtin{Name: action.Name, With: action.With}
	default:
		cmd := runner.CommandOf(a)
		d.size += len(cmd.Script)
		out.Command = &Command{
			Args: cmd.Args, Script: cmd.Script, User: cmd.User, Workdir: cmd.Workdir, Environment: cmd.Environment, Stdin: string(cmd.Stdin),
		}
	}
	out.Runs = !out.Disabled && out.Holds && out.Error == ""
	d.result.Hooks = append(d.result.Hooks, out)
}

// lookup returns a given value, in the class of what supplies it otherwise. It is
// empty once the report is too long.
func (d *dryRun) lookup(base variables.Lookup, name string) (variables.Value, bool) {
	v, ok := base(name)
	canonical := name
	if rule, isOurs := variables.RuleOf(name); isOurs {
		canonical = rule.Name
	}
	if text, isGiven := d.given[canonical]; isGiven {
		v.Text, ok = text, true
	}
	if d.size += len(v.Text); d.size > maxSize {
		v.Text = ""
	}
	return v, ok
}

// variables returns the variables that a hook names.
func (d *dryRun) variables(h hooks.Hook, lookup variables.Lookup) []Variable {
	names := append(h.Action.Names(), h.Condition.Names()...)
	if r, ok := h.Action.(hooks.Request); ok {
		names = append(names, r.Auth.Secret, r.Sign)
	}
	slices.Sort(names)
	all := []Variable{}
	for _, name := range slices.Compact(names) {
		if name != "" {
			all = append(all, d.variable(name, lookup))
		}
	}
	return all
}

func (d *dryRun) variable(name string, lookup variables.Lookup) Variable {
	if _, ok := d.w.Secrets[name]; ok {
		return Variable{Name: name, Value: hidden, Source: OfSecret}
	}
	value, ok := lookup(name)
	v := Variable{Name: name, Value: value.Text, Source: Nothing, Untrusted: value.Class == variables.Untrusted, Missing: !ok || value.Text == ""}
	rule, isOurs := variables.RuleOf(name)
	canonical := name
	if isOurs {
		canonical = rule.Name
	}
	_, isGiven := d.given[canonical]
	_, isConfigured := d.w.Environment[name]
	parameter, isParameter := d.w.ParameterOf(name)
	switch {
	case isParameter && d.w.Parameters[parameter].Secret:
		v.Source = OfSecret
	case isGiven:
		v.Source = Given
	case (isOurs || isParameter) && !v.Missing:
		v.Source = Sample
	case isOurs || isParameter:
	case isCaptured(d.w, name):
		v.Source = Captured
	case isConfigured:
		v.Source = Environment
	}
	return v
}

// redact removes the secrets from the report. Those of every hook have been read
// by now: one that another hook uses is removed as well.
func (d *dryRun) redact() {
	clean := d.requests.Redactor().Redact
	for i := range d.result.Hooks {
		h := &d.result.Hooks[i]
		h.Error, h.Condition = clean(h.Error), clean(h.Condition)
		for n := range h.Variables {
			h.Variables[n].Value = clean(h.Variables[n].Value)
		}
		if c := h.Command; c != nil {
			c.Args = slices.Clone(c.Args)
			for n := range c.Args {
				c.Args[n] = clean(c.Args[n])
			}
			for name, value := range c.Environment {
				c.Environment[name] = clean(value)
			}
			c.Script, c.Stdin = clean(c.Script), clean(c.Stdin)
		}
		if r := h.Request; r != nil {
			r.URL, r.Body = clean(r.URL), clean(r.Body)
			for name, value := range r.Headers {
				r.Headers[name] = clean(value)
			}
		}
		if h.Builtin != nil {
			h.Builtin.With, _ = redactAny(clean, h.Builtin.With).(map[string]any)
		}
	}
}

// redactAny removes the secrets from an option of a builtin.
func redactAny(clean func(string) string, v any) any {
	switch v := v.(type) {
	case string:
		return clean(v)
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = redactAny(clean, v[i])
		}
		return list
	case map[string]any:
		m := make(map[string]any, len(v))
		for name := range v {
			m[name] = redactAny(clean, v[name])
		}
		return m
	}
	return v
}
