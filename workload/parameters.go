package workload

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Limits of parameters. Together they bound what a claim keeps, and what the
// environment of a command gets.
const (
	MaxParameters     = 32
	MaxParameterValue = 4096 // bytes
	// MinSecretParameter is the min length of a secret value in bytes. A shorter one
	// would be found in output that has nothing to do with it.
	MinSecretParameter = 8
)

// ParametersKey is the file in the server's directory of credentials that no workload
// may name: it has the key of secret parameters.
const ParametersKey = "parameters.key"

// Parameter is a text that a claim gives to the hooks of its points.
type Parameter struct {
	Description string
	Pattern     *regexp.Regexp // matches the whole value; nil: any text
	Default     *string        // nil: none
	Required    bool
	Secret      bool
	MaxLength   int // bytes
}

// ParameterError is returned for a parameter that a claim may not have as it is. It
// never has the value.
type ParameterError struct {
	Name    string
	Message string // what is wrong, and what to do
}

func (e *ParameterError) Error() string { return "parameter " + truncate(e.Name) + " " + e.Message }

// WithDefaults checks the parameters of a claim, and returns them with the defaults
// of those that it omits. Its errors are of type *ParameterError.
func (w *Workload) WithDefaults(given map[string]string) (map[string]string, error) {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		p, ok := w.Parameters[name]
		if !ok {
			return nil, &ParameterError{name, w.unknownParameter(name)}
		}
		if problem := p.check(given[name]); problem != "" {
			return nil, &ParameterError{name, problem}
		}
	}
	all := maps.Clone(given)
	if all == nil {
		all = map[string]string{}
	}
	for _, name := range sortedKeys(w.Parameters) {
		p := w.Parameters[name]
		if _, ok := given[name]; ok {
			continue
		}
		if p.Required {
			return nil, &ParameterError{name, "is required: give it a value" + p.described()}
		}
		if p.Default != nil {
			all[name] = *p.Default
		}
	}
	return all, nil
}

// unknownParameter describes a name that the workload does not declare.
func (w *Workload) unknownParameter(name string) string {
	names := sortedKeys(w.Parameters)
	if near := suggest(name, names); near != "" {
		return "is not one of the workload: did you mean " + near + "?"
	}
	if len(names) == 0 {
		return "is not one of the workload, which has none: remove it"
	}
	return "is not one of the workload, which has " + strings.Join(names, ", ")
}

func (p Parameter) described() string {
	if p.Description == "" {
		return ""
	}
	return " (" + p.Description + ")"
}

// check returns what is wrong with a value, and what to do; "" if nothing is.
func (p Parameter) check(value string) string {
	switch {
	case len(value) > p.MaxLength:
		return fmt.Sprintf("is %d bytes long: at most %d are allowed", len(value), p.MaxLength)
	case !utf8.ValidString(value) || strings.Contains(value, "\x00"):
		return "is not text: it must be UTF-8 without NUL"
	case p.Secret && len(value) < MinSecretParameter:
		return fmt.Sprintf("is secret, and shorter than %d bytes: give it a longer value", MinSecretParameter)
	case p.Pattern != nil && !p.Pattern.MatchString(value):
		return "does not match the pattern " + p.patternText() + p.described()
	}
	return ""
}

// anchored returns a pattern that matches whole values only.
func anchored(pattern string) string { return `\A(?:` + pattern + `)\z` }

// patternText returns the pattern as the file has it.
func (p Parameter) patternText() string {
	text := strings.TrimPrefix(p.Pattern.String(), `\A(?:`)
	return truncate(strings.TrimSuffix(text, `)\z`))
}

// VariableOf returns the name of the variable of a parameter. The environment of
// commands has it with the prefix HOSTLER_.
func VariableOf(parameter string) string { return "PARAM_" + strings.ToUpper(parameter) }

// ParameterOf returns the name of the declared parameter that a variable is of.
func (w *Workload) ParameterOf(variable string) (name string, ok bool) {
	return parameterOf(w.Parameters, variable)
}

func parameterOf[P any](declared map[string]P, variable string) (name string, ok bool) {
	rest, ok := strings.CutPrefix(variable, "PARAM_")
	name = strings.ToLower(rest)
	if _, has := declared[name]; !ok || !has || strings.ToUpper(name) != rest {
		return "", false
	}
	return name, true
}
