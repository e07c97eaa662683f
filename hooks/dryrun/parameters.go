package dryrun

import (
	"fmt"

	"github.com/hostler/hostler/workload"
)

// checkParameter reports whether a given name is the variable of a parameter. The value
// of a secret one cannot be given.
func checkParameter(w *workload.Workload, name string) (bool, error) {
	parameter, ok := w.ParameterOf(name)
	if ok && w.Parameters[parameter].Secret {
		return true, fmt.Errorf("%w: %s is a secret parameter", ErrInvalid, name)
	}
	return ok, nil
}

// parameters returns the given values of parameters, else their defaults or examples.
func (d *dryRun) parameters() map[string]string {
	all := map[string]string{}
	for name, p := range d.w.Parameters {
		example := "sample-" + name
		switch {
		case p.Secret:
			all[name] = hidden
			continue
		case p.Default != nil:
			example = *p.Default
		}
		all[name] = d.sample(workload.VariableOf(name), example)
	}
	return all
}
