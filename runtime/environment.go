package runtime

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// Environments starts main processes with an environment of their own.
type Environments interface {
	// RestartWith is Restart with an environment over that of the Spec, which
	// must be valid for CheckEnvironment. The main process has it, and so has
	// each command of Commander that begins while that process runs. Nothing
	// else has it: no command of Exec, and no hook of the image. It lasts until
	// the next call that ends the main process, and until the container exits.
	// It is in the memory of processes only: not in a file, an argument of a
	// process, or the engine's record of the container.
	//
	// For a container whose program does not support that, the error is
	// ErrUnsupported, and nothing in the container has changed. An empty
	// environment makes it a Restart.
	RestartWith(ctx context.Context, id string, fence int64, environment map[string]string) error
}

// Limits of an environment for RestartWith.
const (
	MaxEnvironmentNames = 64
	MaxEnvironmentValue = 4 << 10  // bytes of one value
	MaxEnvironment      = 32 << 10 // bytes of all names and values together
	// EnvironmentNamePattern matches the names.
	EnvironmentNamePattern = `^[A-Za-z_][A-Za-z0-9_]{0,127}$`

	maxEnvironmentName = 128
)

// ErrBadEnvironment reports an environment that no main process can be given.
var ErrBadEnvironment = errors.New("environment is invalid")

// reservedPrefixes begin the names that an environment must not have: those of
// Hostler, and those of the dynamic linker, which with PATH decide which program
// the main process is.
var reservedPrefixes = []string{"HOSTLER_", "LD_"}

// CheckEnvironment returns an ErrBadEnvironment for an environment that
// RestartWith does not accept. The text has a name, never a value.
func CheckEnvironment(environment map[string]string) error {
	if n := len(environment); n > MaxEnvironmentNames {
		return fmt.Errorf("%w: it has %d names, at most %d are allowed", ErrBadEnvironment, n, MaxEnvironmentNames)
	}
	total := 0
	for _, name := range slices.Sorted(maps.Keys(environment)) {
		value := environment[name]
		if reason := invalidEntry(name, value); reason != "" {
			return fmt.Errorf("%w: %.128q %s", ErrBadEnvironment, name, reason)
		}
		total += len(name) + len(value)
	}
	if total > MaxEnvironment {
		return fmt.Errorf("%w: its names and values have %d bytes, at most %d are allowed", ErrBadEnvironment, total, MaxEnvironment)
	}
	return nil
}

// isEnvironmentName reports whether a name matches EnvironmentNamePattern. The
// programs in containers import this package, and do without regular expressions.
func isEnvironmentName(name string) bool {
	for i := range len(name) {
		c := name[i]
		isLetter := 'a' <= c|0x20 && c|0x20 <= 'z' || c == '_'
		if !isLetter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != "" && len(name) <= maxEnvironmentName
}

// invalidEntry returns why an entry is invalid, or "".
func invalidEntry(name, value string) string {
	isReserved := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
	switch {
	case !isEnvironmentName(name):
		return "is not a name: at most 128 letters, digits and _ are allowed, and no digit at the start"
	case name == "PATH" || slices.ContainsFunc(reservedPrefixes, isReserved):
		return "is reserved: PATH, HOSTLER_* and LD_* cannot be set"
	case len(value) > MaxEnvironmentValue:
		return fmt.Sprintf("has a value of %d bytes, at most %d are allowed", len(value), MaxEnvironmentValue)
	case strings.ContainsRune(value, 0) || !utf8.ValidString(value):
		return "has a value with a NUL, or that is not UTF-8"
	}
	return ""
}
