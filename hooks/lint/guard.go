package lint

// guard is what a judge knows that enforces: it reads more than one that advises, and
// what it cannot read is a finding.
type guard struct {
	budget    *int
	variables map[string][]string // values that a name may have, in order
}

// maxJudged bounds the commands that are judged for one command of a tenant.
const maxJudged = 4096

func newGuard(environment map[string]string) *guard {
	budget := maxJudged
	g := &guard{budget: &budget, variables: map[string][]string{"IFS": {" "}}}
	for name, value := range environment {
		g.set(name, value)
	}
	return g
}

// Bounds of what a guard keeps of variables.
const (
	maxVariables = 256
	maxValues    = 4
	maxValue     = 4 << 10
)

// set adds a value that a variable may have.
func (g *guard) set(name, value string) {
	known, ok := g.variables[name]
	if len(value) > maxValue || !ok && len(g.variables) >= maxVariables {
		return
	}
	for _, v := range known {
		if v == value {
			return
		}
	}
	if len(known) < maxValues {
		g.variables[name] = append(known, value)
	}
}
