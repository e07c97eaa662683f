// Package variables has what workload files write about values that are known
// only when a hook runs: the names of variables, templates such as
// "${CONTAINER_ID}", conditions such as "PHASE == error", and paths into JSON
// responses. It parses them when a file is loaded and renders them for each
// attempt.
//
// It promises that a value never leaves its place: a value in the path of a URL
// cannot add a segment or a query, a value in a JSON string cannot end the
// string, and a value that contains ${…} is not expanded again.
package variables

// Class is how much a value is trusted. It decides where a template may use it.
type Class int

// The classes.
const (
	// Trusted values are made by Hostler. They may stand anywhere.
	Trusted Class = iota
	// Untrusted values are written by a tenant or a model. They may stand in the
	// path and query of a URL, in JSON strings of a body, and in environments.
	Untrusted
	// Secret values are declared under secrets. They are inserted as they are,
	// and may stand in URLs, headers, bodies and auth.
	Secret
	// Configured values are those of the workload's environment. They are
	// inserted as they are, and may stand anywhere.
	Configured
)

// Value is the value of a variable.
type Value struct {
	Text  string
	Class Class
}

// Lookup returns the value of a variable. ok is false if nothing supplies the
// name.
type Lookup func(name string) (v Value, ok bool)
