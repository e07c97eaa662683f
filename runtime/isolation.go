package runtime

import (
	"fmt"
	"strings"
)

// Isolation is what a workload requests in addition to what every container
// has. The zero value requests nothing. A backend rejects what it does not
// support: see Lifecycle.Check.
type Isolation struct {
	// Runtime is the engine's runtime, such as runsc; on Kubernetes a
	// RuntimeClass.
	Runtime string
	// SecurityOpt are profiles by name: seccomp=NAME, apparmor=NAME.
	SecurityOpt []string
	// UsernsMode is private for a user namespace of the container, or
	// host for the engine's default.
	UsernsMode string
	// NetworkMode is none for a container without any network.
	NetworkMode string
}

// The values of Isolation's fields.
const (
	UsernsPrivate = "private"
	UsernsHost    = "host"
	NetworkNone   = "none"
)

// FirstField returns the first field that is set, by its name in workload files.
// It returns an empty string if none is.
func (i Isolation) FirstField() string {
	switch {
	case i.Runtime != "":
		return "runtime"
	case len(i.SecurityOpt) > 0:
		return "security_opt"
	case i.UsernsMode != "":
		return "userns_mode"
	case i.NetworkMode != "":
		return "network_mode"
	}
	return ""
}

// Profile returns the name of the profile of a kind, seccomp or apparmor. It
// returns an empty string if none is set.
func (i Isolation) Profile(kind string) string {
	for _, option := range i.SecurityOpt {
		name, ok := strings.CutPrefix(option, kind)
		if ok && name != "" && strings.ContainsAny(name[:1], "=:") {
			return name[1:]
		}
	}
	return ""
}

// SpecError describes what of a spec a backend does not support. It is an
// ErrInvalid.
type SpecError struct {
	Field  string // its name in workload files
	Reason string // begins with a verb: the field stands before it
	Hint   string
}

func (e *SpecError) Error() string {
	return fmt.Sprintf("%s: %s %s (%s)", ErrInvalid.Error(), e.Field, e.Reason, e.Hint)
}

// Unwrap returns ErrInvalid.
func (e *SpecError) Unwrap() error { return ErrInvalid }
