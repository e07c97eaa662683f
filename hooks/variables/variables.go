// Package variables has what workload files write about values that are known
// only when a hook runs: the names of variables, templates such as
// "${CONTAINER_ID}", conditions such as "PHASE == error", and paths into JSON
// responses. It parses and checks them when a file is loaded and renders them
// for each attempt.
//
// It promises that a value never leaves its place: a value in the path of a URL
// cannot add a segment or a query, a value in a JSON string cannot end the
// string, and a value that contains ${…} is not expanded again. Its errors have
// names and offsets, never values. What takes a time takes it in proportion to
// the length of the input.
//
// Which names exist in a workload, what supplies their values, and what follows
// from an error is for its callers to decide.
package variables

// Class is how much a value is trusted. It decides where a template may use it.
type Class int

// The classes. The zero Class is Untrusted.
const (
	// Untrusted values are written by a tenant or a model. They may stand in the
	// path of a URL, in values of its query, in JSON strings of a body that are
	// not keys, and in environments.
	Untrusted Class = iota
	// Trusted values are made by Hostler. They may stand anywhere but in the
	// scheme and the authority of a URL.
	Trusted
	// Secret values are declared under secrets. In URLs they are inserted as they
	// are. They may stand in URLs, headers and bodies.
	Secret
	// Configured values are those of the workload's environment. In URLs they are
	// inserted as they are. They may stand anywhere.
	Configured
)

// isRaw reports whether values of the class are inserted into a URL as they
// are.
func (c Class) isRaw() bool { return c == Secret || c == Configured }

// Value is the value of a variable.
type Value struct {
	Text  string
	Class Class
}

// Lookup returns the value of a variable. ok is false if nothing supplies the
// name. A nil Lookup supplies nothing.
type Lookup func(name string) (v Value, ok bool)

// value calls l.
func (l Lookup) value(name string) (Value, bool) {
	if l == nil {
		return Value{}, false
	}
	return l(name)
}

// Uses records which variables had no value when templates were rendered. It is
// not safe for concurrent use.
type Uses struct {
	Empty []string // in the order of their first use, each once
	seen  map[string]bool
}

// Watch returns a Lookup for URL, Header and Body that returns what lookup
// returns, and adds each name whose value is empty, or that nothing supplies, to
// u.
func (u *Uses) Watch(lookup Lookup) Lookup {
	return func(name string) (Value, bool) {
		v, ok := lookup.value(name)
		if v.Text == "" && !u.seen[name] {
			if u.seen == nil {
				u.seen = map[string]bool{}
			}
			u.seen[name] = true
			u.Empty = append(u.Empty, name)
		}
		return v, ok
	}
}
