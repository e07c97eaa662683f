package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/client"
)

// Exit codes.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitUnavailable = 4
	exitHook        = 5
	exitRefused     = 6
	exitState       = 7
	exitTimedOut    = 8
	exitAborted     = 9
	exitCancelled   = 10
	exitDamaged     = 11
	exitInterrupted = 130
)

const exitHelp = `Exit status:
  0    success
  1    failure, or a workload file has errors
  2    usage error
  3    no such workload, claim, container, run, wait, snapshot, key, binding, file or command
  4    no container available, or the server is unavailable: try again
  5    a hook failed
  6    the API key is missing, invalid or not allowed to do this, or a hook refuses it
  7    upload or download of a tenant's state failed; a failed release keeps its container
  8    a wait timed out
  9    a wait was aborted after its deadline
  10   a wait was canceled, because its claim ended
  11   hostler snapshots verify: a snapshot is damaged
  124  hostler exec: the command has reached its timeout; other codes are the command's
  130  interrupted`

// exitCodes are the exit codes of the server's errors; others are exitFailure.
var exitCodes = map[client.Code]int{
	client.CodeWorkloadNotFound:   exitNotFound,
	client.CodeClaimNotFound:      exitNotFound,
	client.CodeContainerNotFound:  exitNotFound,
	client.CodeRunNotFound:        exitNotFound,
	client.CodeDeliveryNotFound:   exitNotFound,
	client.CodeWaitNotFound:       exitNotFound,
	client.CodeEventHookNotFound:  exitNotFound,
	client.CodeSnapshotNotFound:   exitNotFound,
	client.CodeMemoryNotFound:     exitNotFound,
	client.CodeFileNotFound:       exitNotFound,
	client.CodeKeyNotFound:        exitNotFound,
	client.CodeBindingNotFound:    exitNotFound,
	client.CodeTooManyRequests:    exitUnavailable,
	client.CodeCommandNotFound:    exitNotFound,
	client.CodeTooManyCommands:    exitUnavailable,
	client.CodeDeniedByHook:       exitRefused,
	client.CodeSyncFailed:         exitState,
	client.CodeRateLimited:        exitUnavailable,
	client.CodePoolExhausted:      exitUnavailable,
	client.CodeTooManyWaits:       exitUnavailable,
	client.CodeTooManyConnections: exitUnavailable,
	client.CodePoolNotReady:       exitUnavailable,
	client.CodeNotReady:           exitUnavailable,
	client.CodeEngineUnavailable:  exitUnavailable,
	client.CodeStorageUnavailable: exitUnavailable,
	client.CodeHookFailed:         exitHook,
	client.CodeUnauthorized:       exitRefused,
	client.CodeForbidden:          exitRefused,
}

// hints are the hints that are printed with the server's errors.
var hints = map[client.Code]string{
	client.CodeWorkloadNotFound:  "see `hostler get workloads`",
	client.CodeClaimNotFound:     "see `hostler get claims`",
	client.CodeContainerNotFound: "see `hostler get containers`",
	client.CodeRunNotFound:       "see `hostler get runs`, or `hostler logs --container CONTAINER` for what a container printed",
	client.CodeDeliveryNotFound:  "see `hostler get deliveries`",
	client.CodeWaitNotFound:      "see `hostler get waits`",
	client.CodeSnapshotNotFound:  "see `hostler snapshots`",
	client.CodeMemoryNotFound:    "see `hostler memory list`",
	client.CodeFileNotFound:      "see `hostler files list`",
	client.CodeKeyNotFound:       "see `hostler key list`",
	client.CodeBindingNotFound:   "see `hostler binding list`",
	client.CodeKeyExists:         "choose another name; see `hostler key list`",
	client.CodeFirstCredential:   "make one with `hostler key create NAME --role operator`",
	client.CodeNotEmpty:          "remove all that is in it with --recursive",
	client.CodeMemoryNotShared:   "see memory in the workload file",
	client.CodeMemoryFull:        "delete keys with `hostler memory delete`",
	client.CodeVersionConflict:   "read it again with `hostler memory get -o json`",
	client.CodeCommandNotFound:   "see `hostler get commands`",
	client.CodeNotSupported:      "release the claim: the next container supports it",
	client.CodeClaimNotActive:    "see `hostler get claims`",
	client.CodeClaimReleasing:    "see `hostler get claims --failed` for the reason of a delay",
	client.CodeNoSync:            "see sync in the workload file",
	client.CodePoolExhausted:     "wait for one with --wait 30s, or raise max_size with `hostler scale`",
	client.CodePoolNotReady:      "see the pool's state with `hostler get pools`, and wait with --wait 30s",
	client.CodeHookFailed:        "see its whole output with `hostler logs RUN`",
	client.CodeUnauthorized:      "name a key with --api-key-file or HOSTLER_API_KEY",
	client.CodeContainerInUse:    "release its claim, or destroy it with --force",
	client.CodeNoPortDomain:      "use `hostler port-forward`",
	client.CodeInternal:          "see the server's log",
}

// hintsByReason are the hints that replace those of an error's code, by its reason.
var hintsByReason = map[string]string{
	"deleting":     "apply the workload again when it is gone",
	"draining":     "fill the pool again with `hostler scale WORKLOAD --min-idle N`",
	"fill_failing": "see why with `hostler describe pool WORKLOAD`",
}

// exitError ends the command with a code. Without an error nothing is printed:
// the command has printed what is wrong.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return fmt.Sprint(e.err) }
func (e *exitError) Unwrap() error { return e.err }

// usagef returns a usage error.
func usagef(cmd *cobra.Command, format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	return &exitError{exitUsage, fmt.Errorf("%s; see `%s --help`", text, cmd.CommandPath())}
}

// reportError prints an error in one line, and returns the exit code.
func reportError(errOut io.Writer, err error) int {
	if err == nil {
		return exitOK
	}
	code, text, hint := classify(err)
	if hint != "" {
		text += "; " + hint
	}
	if text != "" {
		mark := "error:"
		if hasColors(errOut) {
			mark = red + mark + resetColor
		}
		// The text may have a hook's output, which may have many lines.
		fmt.Fprintln(errOut, mark, sanitize(strings.Join(strings.Fields(text), " ")))
	}
	return code
}

// classify returns the exit code of an error, the text to print, and a hint.
func classify(err error) (code int, text, hint string) {
	if e, ok := errors.AsType[*exitError](err); ok {
		if e.err == nil {
			return e.code, "", ""
		}
		return e.code, e.err.Error(), ""
	}
	if errors.Is(err, context.Canceled) {
		return exitInterrupted, "interrupted", ""
	}
	if e, ok := errors.AsType[*client.Error](err); ok {
		text := strings.TrimSpace(e.Detail)
		hint := hints[e.Code]
		if e.Run != nil {
			hint = strings.Replace(hint, "RUN", e.Run.ID, 1)
		}
		if other, ok := hintsByReason[e.Reason]; ok {
			hint = other
		}
		if about, ok := errors.AsType[*workloadError](err); ok {
			hint = strings.ReplaceAll(hint, "WORKLOAD", about.workload)
		}
		if code, ok := exitCodes[e.Code]; ok {
			return code, text, hint
		}
		return exitFailure, text, hint
	}
	if errors.Is(err, client.ErrNoResponse) {
		return exitUnavailable, err.Error(), "is `hostler serve` running there? name another server with --server"
	}
	if strings.HasPrefix(err.Error(), "unknown command") {
		return exitUsage, strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", " "), "see `hostler --help`"
	}
	return exitFailure, err.Error(), ""
}
