package pool

import "github.com/hostler/hostler/runtime"

// checkError is an ErrUnhealthy: a check that failed.
type checkError struct {
	why     string
	printed runtime.Output // what is kept of it
	last    string         // lines at its end, without what controls a terminal
}

func (e *checkError) Error() string {
	if e.last == "" {
		return e.plain()
	}
	return e.plain() + ": " + e.last
}

// plain is the error without what the check printed.
func (e *checkError) plain() string { return ErrUnhealthy.Error() + ": " + e.why }

// Is implements the interface of errors.Is.
func (e *checkError) Is(target error) bool { return target == ErrUnhealthy }
