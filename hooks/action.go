package hooks

// Kind is the name of a kind of action: its key in the workload file, and the
// action of a run on the wire.
type Kind string

// KindCommand is the kind of a Command.
const KindCommand Kind = "command"

// Action is what a hook does, as data. There is one type for each kind, and
// package hooks/runner has an executor for each.
type Action interface {
	// Kind returns the kind of the action.
	Kind() Kind
	// Summary returns what events show of the action: the argv of a command. It
	// has no secrets.
	Summary() []string
}

// Command is the action that runs a command in the container.
type Command struct {
	Args        []string // argv
	User        string   // empty: the container's
	Workdir     string   // empty: the container's
	Environment map[string]string
}

// Kind returns KindCommand.
func (c Command) Kind() Kind { return KindCommand }

// Summary returns the argv. It omits the environment: values may be secret.
func (c Command) Summary() []string { return c.Args }
