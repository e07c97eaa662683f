package shim

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/hostler/hostler/runtime"
)

// What is kept of a response. A program may be under control of a tenant and send
// MaxFrame each time, and a response is kept as long as its request has a user,
// such as the client of a connection to a port.
const (
	maxErrorText  = 16 << 10 // of an error
	maxResultName = 64       // of a signal or a limit
	// An invalid byte of the output becomes three.
	maxResultHead = 3 * runtime.OutputHead
	maxResultTail = 3 * (runtime.OutputHead + runtime.OutputTail)
)

// limit drops what an intact program does not send in response to an operation, and
// cuts texts that are too long.
func (a *Response) limit(op Op) {
	a.Error.limit()
	if op != OpCommands {
		a.Commands = nil
	}
	if op != OpAsk {
		a.Answer = nil
	}
	if op != OpRun && op != OpWaitResult && op != OpOutput || a.Result == nil {
		a.Result = nil
		return
	}
	for _, text := range []struct {
		of   *string
		most int
	}{
		{&a.Result.Signal, maxResultName}, {(*string)(&a.Result.Exceeded), maxResultName},
		{&a.Result.Stdout.Head, maxResultHead}, {&a.Result.Stdout.Tail, maxResultTail},
		{&a.Result.Stderr.Head, maxResultHead}, {&a.Result.Stderr.Tail, maxResultTail},
	} {
		*text.of = cutText(*text.of, text.most)
	}
}

// limit cuts the texts of an error. The receiver may be nil.
func (f *WireError) limit() {
	if f == nil {
		return
	}
	f.Code, f.Reason = Code(cutText(string(f.Code), maxResultName)), runtime.StartReason(cutText(string(f.Reason), maxResultName))
	f.Detail = cutText(f.Detail, maxErrorText)
}

// cutText returns the beginning of a text, in memory of its own if it is cut.
func cutText(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(strings.Clone(text[:most]), "")
}

// CommandList is a list of commands as sent.
type CommandList []runtime.CommandStatus

// UnmarshalJSON decodes a list, as far as the first one that is too many: three bytes
// on the wire are a hundred in memory.
func (l *CommandList) UnmarshalJSON(b []byte) error {
	*l = nil
	d := json.NewDecoder(bytes.NewReader(b))
	switch begin, err := d.Token(); {
	case err != nil || begin == nil: // null
		return err
	case begin != json.Delim('['):
		return protocolError("no list of commands")
	}
	for d.More() && len(*l) <= maxListedCommands {
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return err
		}
		if len(raw) > maxCommandStatus {
			return protocolError("a command is described in %d bytes", len(raw))
		}
		var status runtime.CommandStatus
		if err := json.Unmarshal(raw, &status); err != nil {
			return err
		}
		*l = append(*l, status)
	}
	return nil
}

// maxCommandStatus bounds the description of a command, in bytes.
const maxCommandStatus = 64 << 10
