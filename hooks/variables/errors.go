package variables

import "fmt"

// SyntaxError is returned for text that is not a template, a condition or a
// path, and for a template that is not a URL or a header.
type SyntaxError struct {
	Offset  int    // in bytes, from 0
	Message string // what is wrong, and how to write it
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("at offset %d: %s", e.Offset, e.Message)
}

func syntaxError(offset int, format string, args ...any) error {
	return &SyntaxError{Offset: offset, Message: fmt.Sprintf(format, args...)}
}

// NameError is returned for a variable that may not be used where it stands.
type NameError struct {
	Name    string
	Offset  int    // of the variable in its template or condition, in bytes
	Message string // why, and where it may stand. It has neither the name nor the value
	Unknown bool   // nothing supplies the name
}

func (e *NameError) Error() string {
	return fmt.Sprintf("%s at offset %d %s", truncate(e.Name), e.Offset, e.Message)
}

// checkNames returns an error for the first variable that nothing supplies.
func checkNames(vars []part, classOf func(name string) (Class, bool)) error {
	for _, v := range vars {
		if _, ok := classOf(v.name); !ok {
			return &NameError{Name: v.name, Offset: v.offset, Message: "is not a variable that is available here", Unknown: true}
		}
	}
	return nil
}

// checkVariables returns an error for the first variable that nothing supplies,
// else for the first that may not stand at p.
func checkVariables(vars []part, p place, classOf func(name string) (Class, bool)) error {
	if err := checkNames(vars, classOf); err != nil {
		return err
	}
	return checkClasses(vars, p, classOf)
}

// checkClasses returns an error for the first variable that may not stand at p.
func checkClasses(vars []part, p place, classOf func(name string) (Class, bool)) error {
	for _, v := range vars {
		if class, ok := classOf(v.name); ok {
			if err := p.check(v, class); err != nil {
				return err
			}
		}
	}
	return nil
}

// truncate shortens a name for an error.
func truncate(name string) string {
	const limit = 60
	if len(name) <= limit {
		return name
	}
	return name[:limit] + "…"
}
