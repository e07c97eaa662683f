package variables

// Path is a path into a JSON value, such as $.items[0].id.
type Path struct{ source string }

// String returns the source of the path.
func (p Path) String() string { return p.source }
