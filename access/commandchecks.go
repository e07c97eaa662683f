package access

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hostler/hostler/runtime"
)

// ErrInvalid is returned for a request that is invalid.
var ErrInvalid = errors.New("invalid request")

// invalidf returns the error of a field of a request.
func invalidf(field, format string, args ...any) error {
	return fmt.Errorf("%w: %s %s", ErrInvalid, field, fmt.Sprintf(format, args...))
}

// Bounds of a command. Those of its size are Linux's for one argument.
const (
	maxCommandArgs      = 1024
	maxCommandSize      = 128 << 10 // of all arguments
	maxEnvironment      = 1024
	maxEnvironmentSize  = 128 << 10 // of all variables
	maxPathLength       = 4096
	maxTerminalRows     = 4096
	reservedCommandName = "attach" // a path of the API
)

var (
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)
	userName     = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,63})?$`)
)

// validate returns what is wrong with the command of a claim.
func (r CommandRequest) validate(g Grant) error {
	if !runtime.IsRequestID(r.ID) || r.ID == reservedCommandName {
		return invalidf("id", "is not 1 to %d letters, digits and . _ -, or is %q", runtime.MaxRequestID, reservedCommandName)
	}
	if r.Timeout < 0 || r.Timeout > MaxCommandTimeout {
		return invalidf("timeout", "is not between 0 and %s", MaxCommandTimeout)
	}
	if r.After < 0 {
		return invalidf("after", "is below 0")
	}
	if w := r.Workdir; w != "" && (!path.IsAbs(w) || strings.ContainsRune(w, 0) || len(w) > maxPathLength) {
		return invalidf("workdir", "is not an absolute path of at most %d bytes", maxPathLength)
	}
	if t := r.Terminal; t != nil {
		if err := ValidateTerminal(*t); err != nil {
			return err
		}
	}
	for _, check := range []func() error{r.validateArgs, r.validateEnvironment, func() error { return validateUser(r.User, g) }} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// ValidateTerminal returns what is wrong with the size of a terminal.
func ValidateTerminal(t runtime.TerminalSize) error {
	if t.Rows == 0 || t.Columns == 0 || t.Rows > maxTerminalRows || t.Columns > maxTerminalRows {
		return invalidf("terminal", "has not 1 to %d rows and columns", maxTerminalRows)
	}
	return nil
}

func (r CommandRequest) validateArgs() error {
	if len(r.Args) == 0 || len(r.Args) > maxCommandArgs {
		return invalidf("command", "has not 1 to %d arguments", maxCommandArgs)
	}
	if r.Args[0] == "" {
		return invalidf("command[0]", "is empty: it is the program")
	}
	size := 0
	for i, arg := range r.Args {
		if strings.ContainsRune(arg, 0) {
			return invalidf(fmt.Sprintf("command[%d]", i), "contains a NUL")
		}
		size += len(arg) + 1 // the byte that ends it
	}
	if size > maxCommandSize {
		return invalidf("command", "is longer than %d bytes", maxCommandSize)
	}
	return nil
}

func (r CommandRequest) validateEnvironment() error {
	if len(r.Environment) > maxEnvironment {
		return invalidf("environment", "has more than %d variables", maxEnvironment)
	}
	size := 0
	for name, value := range r.Environment {
		if !variableName.MatchString(name) {
			return invalidf("environment", "has the name %.100q, which is not letters, digits, _, . and -, beginning with a letter or _", name)
		}
		if strings.ContainsRune(value, 0) {
			return invalidf("environment."+name, "contains a NUL")
		}
		size += len(name) + len(value) + 2
	}
	if size > maxEnvironmentSize {
		return invalidf("environment", "is longer than %d bytes", maxEnvironmentSize)
	}
	return nil
}

// validateUser permits the container's own user. Another one only where the
// container runs as root: any other user could read that one's files, and its own
// may have been chosen so that it cannot. What the container runs as is known if its
// workload was not changed since.
func validateUser(user string, g Grant) error {
	if user == "" {
		return nil
	}
	if !userName.MatchString(user) {
		return invalidf("user", `is not a uid, "uid:gid", a name or "name:group"`)
	}
	if slices.ContainsFunc(strings.Split(user, ":"), isReserved) {
		return invalidf("user", "is %d, which is reserved for Hostler's shim", runtime.ReservedUser)
	}
	own := g.Workload != nil && g.Workload.Revision == g.Claim.Revision
	if own && (user == g.Workload.User || isRoot(g.Workload.User)) {
		return nil
	}
	return invalidf("user", "is not the user of the workload, which does not run as root; leave it out")
}

func isReserved(part string) bool {
	id, err := strconv.ParseUint(part, 10, 32)
	return err == nil && id == runtime.ReservedUser
}

// isRoot reports whether a workload's user is root. That of an image is not known.
func isRoot(user string) bool {
	name, _, _ := strings.Cut(user, ":")
	return name == "0" || name == "root"
}

// Signals are those that a command can be sent.
var Signals = []string{
	"SIGHUP", "SIGINT", "SIGQUIT", "SIGKILL", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGTERM",
	"SIGCONT", "SIGSTOP", "SIGTSTP", "SIGWINCH",
}

func validateSignal(name string) error {
	if !slices.Contains(Signals, name) {
		return invalidf("signal", "is none of %s", strings.Join(Signals, ", "))
	}
	return nil
}
