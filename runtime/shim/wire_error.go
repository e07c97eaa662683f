package shim

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/hostler/hostler/runtime"
)

// Code names an error on the wire.
type Code string

// The error codes. Each one except CodeStart stands for one error of package
// runtime.
const (
	CodeStart             Code = "start"
	CodeNotRunning        Code = "not_running"
	CodeContainerExited   Code = "lost"
	CodeUnknownRun        Code = "unknown_run"
	CodeTainted           Code = "tainted"
	CodeWipeUnverified    Code = "wipe_unverified"
	CodeScanIncomplete    Code = "scan_incomplete"
	CodeBusy              Code = "busy"
	CodeStale             Code = "stale"
	CodeDenied            Code = "denied"
	CodeBadArchive        Code = "bad_archive"
	CodeFileNotFound      Code = "no_file"
	CodePortRefused       Code = "port_refused"
	CodeTooManyConns      Code = "too_many_connections"
	CodeUnsupported       Code = "unknown" // a request that the other end does not support
	CodeFailed            Code = "failed"
	CodeTooManyCommands   Code = "too_many_commands"
	CodeAttachedElsewhere Code = "attached_elsewhere"
	CodeOutputLost        Code = "output_lost"
)

// errorByCode is the only place that maps error codes to the errors of the
// contract. CodeDenied means tainted: something other than our program has
// answered, or the server's secret is not the one that the container was
// created with.
var errorByCode = map[Code]error{
	CodeNotRunning:      runtime.ErrNotRunning,
	CodeContainerExited: runtime.ErrContainerExited,
	CodeUnknownRun:      runtime.ErrUnknownRun,
	CodeTainted:         runtime.ErrTainted,
	CodeWipeUnverified:  runtime.ErrWipeUnverified,
	CodeScanIncomplete:  runtime.ErrScanIncomplete,
	CodeBusy:            runtime.ErrUnavailable,
	CodeStale:           runtime.ErrStaleFence,
	CodeDenied:          runtime.ErrTainted,
	CodeBadArchive:      runtime.ErrBadArchive,
	CodeFileNotFound:    runtime.ErrFileNotFound,

	CodeTooManyCommands:   runtime.ErrTooManyCommands,
	CodeAttachedElsewhere: runtime.ErrAttachedElsewhere,
	CodeOutputLost:        runtime.ErrOutputLost,
	CodePortRefused:       runtime.ErrPortRefused,
	CodeTooManyConns:      runtime.ErrTooManyConnections,
}

// WireError is an error as sent.
type WireError struct {
	Code   Code                `json:"code"`
	Reason runtime.StartReason `json:"reason,omitempty"` // with CodeStart
	Detail string              `json:"detail,omitempty"`
}

// Err returns the error of package runtime that f stands for.
func (f *WireError) Err() error {
	if f.Code == CodeStart {
		return &runtime.StartError{Reason: f.Reason, Detail: f.Detail}
	}
	if cause, ok := errorByCode[f.Code]; ok {
		return fmt.Errorf("%w: %s", cause, f.Detail)
	}
	return fmt.Errorf("shim error %s: %s", f.Code, f.Detail)
}

// NewWireError returns err as a WireError.
func NewWireError(err error) *WireError {
	if start, ok := errors.AsType[*runtime.StartError](err); ok {
		return &WireError{Code: CodeStart, Reason: start.Reason, Detail: start.Detail}
	}
	for code, cause := range errorByCode {
		if code != CodeDenied && errors.Is(err, cause) {
			return &WireError{Code: code, Detail: strings.TrimPrefix(err.Error(), cause.Error()+": ")}
		}
	}
	return &WireError{Code: CodeFailed, Detail: err.Error()}
}

// ToolError returns the error of a hostler-shim subcommand that an engine or a
// server ran: nil for exit code 0, else the error in the last line of its
// stderr.
func ToolError(exitCode int, stderr string) error {
	if exitCode == 0 {
		return nil
	}
	var f WireError
	if json.Unmarshal([]byte(lastLine(stderr)), &f) == nil && f.Code != "" {
		return f.Err()
	}
	return fmt.Errorf("hostler-shim exited with code %d: %q", exitCode, strings.TrimSpace(stderr))
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}
