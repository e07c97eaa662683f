package shim

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/hostler/hostler/runtime"
)

// Code names a fault on the wire.
type Code string

// The faults. Each but CodeStart stands for one error of package runtime.
const (
	CodeStart      Code = "start"
	CodeNotRunning Code = "not_running"
	CodeLost       Code = "lost"
	CodeNoRun      Code = "unknown_run"
	CodeDoomed     Code = "tainted"
	CodeNotClean   Code = "wipe_unverified"
	CodeUnfinished Code = "scan_incomplete"
	CodeBusy       Code = "busy"
	CodeStale      Code = "stale"
	CodeDenied     Code = "denied"
	CodeBadArchive Code = "bad_archive"
	CodeNoFile     Code = "no_file"
	CodeUnknown    Code = "unknown" // a request that the other end does not serve
	CodeFailed     Code = "failed"
)

// causes is the one place where the faults on the wire and the errors of the
// contract meet. Denied is out of control: something else than our program has
// answered, or the server has another secret than the one it made it with.
var causes = map[Code]error{
	CodeNotRunning: runtime.ErrNotRunning,
	CodeLost:       runtime.ErrLost,
	CodeNoRun:      runtime.ErrNoRun,
	CodeDoomed:     runtime.ErrDoomed,
	CodeNotClean:   runtime.ErrNotClean,
	CodeUnfinished: runtime.ErrUnfinished,
	CodeBusy:       runtime.ErrUnavailable,
	CodeStale:      runtime.ErrStaleFence,
	CodeDenied:     runtime.ErrDoomed,
	CodeBadArchive: runtime.ErrBadArchive,
	CodeNoFile:     runtime.ErrNoFile,
}

// Fault is an error as it travels.
type Fault struct {
	Code   Code                `json:"code"`
	Reason runtime.StartReason `json:"reason,omitempty"` // with CodeStart
	Detail string              `json:"detail,omitempty"`
}

// Err is the error of package runtime that the fault stands for.
func (f *Fault) Err() error {
	if f.Code == CodeStart {
		return &runtime.StartError{Reason: f.Reason, Detail: f.Detail}
	}
	if cause, ok := causes[f.Code]; ok {
		return fmt.Errorf("%w: %s", cause, f.Detail)
	}
	return fmt.Errorf("the shim answered %s: %s", f.Code, f.Detail)
}

// NewFault is the fault that stands for an error.
func NewFault(err error) *Fault {
	if start, ok := errors.AsType[*runtime.StartError](err); ok {
		return &Fault{Code: CodeStart, Reason: start.Reason, Detail: start.Detail}
	}
	for code, cause := range causes {
		if code != CodeDenied && errors.Is(err, cause) {
			return &Fault{Code: code, Detail: strings.TrimPrefix(err.Error(), cause.Error()+": ")}
		}
	}
	return &Fault{Code: CodeFailed, Detail: err.Error()}
}

// ToolError is the error that a program of the shim's, started by an engine or a
// server, ended with: nil for exit code 0, else what the last line of its stderr
// says.
func ToolError(exitCode int, stderr string) error {
	if exitCode == 0 {
		return nil
	}
	var f Fault
	if json.Unmarshal([]byte(lastLine(stderr)), &f) == nil && f.Code != "" {
		return f.Err()
	}
	return fmt.Errorf("the shim's tool ended with code %d: %q", exitCode, strings.TrimSpace(stderr))
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}
