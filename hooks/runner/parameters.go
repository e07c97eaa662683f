package runner

import (
	"maps"

	"github.com/hostler/hostler/hooks/variables"
	"github.com/hostler/hostler/workload"
)

// parametersOf returns the values of the parameters of a subject by the names of
// their variables. One that is declared and has no value is empty.
func parametersOf(s Subject) map[string]string {
	all := map[string]string{}
	if s.workload != nil {
		for name := range s.workload.Parameters {
			all[workload.VariableOf(name)] = ""
		}
	}
	for name, value := range s.Parameters {
		all[workload.VariableOf(name)] = value
	}
	return all
}

// Open returns the attempt with the values of its secret parameters, each of which
// open decrypts.
func (a Attempt) Open(open func(claim, name, sealed string) (string, error)) (Attempt, error) {
	if len(a.Sealed) == 0 {
		return a, nil
	}
	a.Parameters = maps.Clone(a.Parameters)
	secret := map[string]string{}
	for name, sealed := range a.Sealed {
		value, err := open(a.Claim, name, sealed)
		if err != nil {
			return a, &ParameterError{name, err}
		}
		a.Parameters[name], secret[workload.VariableOf(name)] = value, value
		a.Sensitive = append(a.Sensitive, value)
	}
	if base := a.Lookup; base != nil {
		a.Lookup = func(name string) (variables.Value, bool) {
			if value, ok := secret[name]; ok {
				return variables.Value{Text: value, Class: variables.Untrusted}, true
			}
			return base(name)
		}
	}
	return a, nil
}

// ParameterError is the error of a secret parameter that cannot be decrypted.
type ParameterError struct {
	Name string
	Err  error
}

// The name is at the end, so that it is a part of the root cause.
func (e *ParameterError) Error() string { return e.Err.Error() + " (secret parameter " + e.Name + ")" }

func (e *ParameterError) Unwrap() error { return e.Err }
