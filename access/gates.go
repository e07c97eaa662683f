package access

import (
	"context"
	"fmt"
)

// Gates decide whether a use may begin. A use that is refused is a *DeniedError;
// whatever else fails refuses it as well.
type Gates interface {
	// Exec decides about a command.
	Exec(ctx context.Context, g Grant, c CommandUse) error
	// File decides about a file. It returns the directories that the file must be
	// in (runtime.FileRef.Within), none if it may be anywhere.
	File(ctx context.Context, g Grant, f FileUse) (within []string, err error)
	// Request decides about a request or a connection to a port.
	Request(ctx context.Context, g Grant, r PortUse) error
}

// CommandUse is a command of a tenant, before it starts.
type CommandUse struct {
	ID          string // of the command
	Args        []string
	Environment map[string]string
	User        string
	Workdir     string
	Terminal    bool
}

// FileAction is what is done with a file.
type FileAction string

// The actions.
const (
	FileRead   FileAction = "read"
	FileWrite  FileAction = "write"
	FileRemove FileAction = "remove"
	FileList   FileAction = "list"
	FileStat   FileAction = "stat"
)

// FileUse is the use of a file, before it begins.
type FileUse struct {
	Action FileAction
	Path   string // absolute, as the tenant gave it
}

// PortUse is a request to a port, before it begins.
type PortUse struct {
	Port   int
	Method string // of HTTP; empty for a connection
	Path   string // of HTTP, without the query; empty for a connection
	Host   string
}

// DeniedError means that a gate has refused a use.
type DeniedError struct {
	Gate    string // exec.before, file.before or request.before
	Hook    string // that refused
	Message string // of the hook, or why it could not decide
}

func (e *DeniedError) Error() string {
	return fmt.Sprintf("denied by the hook %q of %s: %s", e.Hook, e.Gate, e.Message)
}

// openGates permit everything.
type openGates struct{}

func (openGates) Exec(context.Context, Grant, CommandUse) error          { return nil }
func (openGates) File(context.Context, Grant, FileUse) ([]string, error) { return nil, nil }
func (openGates) Request(context.Context, Grant, PortUse) error          { return nil }
