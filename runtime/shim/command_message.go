package shim

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/hostler/hostler/runtime"
)

// The streams of an OpCommand, and the limits of what is sent on them.
const (
	// CommandStream carries messages in both directions: from the program the
	// state, the output and the end of the command, from the server what is not
	// input.
	CommandStream = 0
	// CommandInputStream carries the input: a command that reads none delays no
	// acknowledgement. Its end is the end of the input.
	CommandInputStream = 1
	commandStreams     = 2
	// CommandWindow is the window of these streams.
	CommandWindow = 256 << 10
	// MaxCommandData bounds the output or input in one message, in bytes.
	MaxCommandData = 32 << 10
	// maxCommandJSON bounds a message that is JSON, in bytes.
	maxCommandJSON = 16 << 10
)

// CommandRequest is what OpCommand has in addition to a Run.
type CommandRequest struct {
	// Nonce is that of the call: a start that is requested again is the same one.
	Nonce    string                `json:"nonce,omitempty"`
	Terminal *runtime.TerminalSize `json:"terminal,omitempty"`
	Input    bool                  `json:"input,omitempty"`
	Internal bool                  `json:"internal,omitempty"`
	After    int64                 `json:"after,omitempty"`
}

// MessageKind is the type of a message on a command's streams.
type MessageKind byte

// The messages of the program.
const (
	MessageStart  MessageKind = 's' // CommandStart, the first one
	MessageOutput MessageKind = 'o' // offset, 1 for stderr, data
	MessageEnd    MessageKind = 'e' // CommandEnd, the last one
)

// The messages of the server.
const (
	MessageInput       MessageKind = 'i' // offset, data; on CommandInputStream
	MessageAcknowledge MessageKind = 'a' // offset
	MessageResize      MessageKind = 'r' // rows and columns, two bytes each
	MessageSignal      MessageKind = 'k' // number, one byte
)

// Sizes of the fields of messages, in bytes.
const (
	messageHeaderSize = 1 + 4 // kind, size of the body
	offsetSize        = 8
	outputHeaderSize  = offsetSize + 1
)

// messageSizes are the smallest and the greatest size of a body.
var messageSizes = map[MessageKind]struct{ min, max int }{
	MessageStart:       {0, maxCommandJSON},
	MessageOutput:      {outputHeaderSize + 1, outputHeaderSize + MaxCommandData},
	MessageEnd:         {0, maxCommandJSON},
	MessageInput:       {offsetSize + 1, offsetSize + MaxCommandData},
	MessageAcknowledge: {offsetSize, offsetSize},
	MessageResize:      {4, 4},
	MessageSignal:      {1, 1},
}

// CommandStart is a runtime.CommandStart as sent.
type CommandStart struct {
	Offset        int64 `json:"offset"`
	InputReceived int64 `json:"input"`
	InputClosed   bool  `json:"input_closed,omitempty"`
	Created       bool  `json:"created,omitempty"`
	Terminal      bool  `json:"terminal,omitempty"`
}

// CommandEnd is how a command ended: one of Result and Error.
type CommandEnd struct {
	Result *runtime.Result `json:"result,omitempty"`
	Error  *WireError      `json:"error,omitempty"`
}

// WriteMessage sends a message in a single Write.
func WriteMessage(w io.Writer, kind MessageKind, parts ...[]byte) error {
	size := 0
	for _, part := range parts {
		size += len(part)
	}
	if limits := messageSizes[kind]; size < limits.min || size > limits.max {
		return fmt.Errorf("%w: message kind %q with %d bytes", ErrProtocol, kind, size)
	}
	buf := make([]byte, 0, messageHeaderSize+size)
	buf = binary.BigEndian.AppendUint32(append(buf, byte(kind)), uint32(size)) //nolint:gosec // within the limits
	for _, part := range parts {
		buf = append(buf, part...)
	}
	_, err := w.Write(buf)
	return err
}

// WriteJSONMessage sends a message whose body is JSON.
func WriteJSONMessage(w io.Writer, kind MessageKind, message any) error {
	body, err := json.Marshal(message)
	if err != nil {
		return fmt.Errorf("encode a message: %w", err)
	}
	return WriteMessage(w, kind, body)
}

// OutputHeader returns what is before the data of MessageOutput.
func OutputHeader(offset int64, stderr bool) []byte {
	header := append(OffsetBytes(offset), 0)
	if stderr {
		header[offsetSize] = 1
	}
	return header
}

// OffsetBytes returns an offset as sent.
func OffsetBytes(offset int64) []byte {
	return binary.BigEndian.AppendUint64(make([]byte, 0, outputHeaderSize), uint64(offset)) //nolint:gosec // never negative
}

// MessageReader reads messages. It accepts those kinds only.
type MessageReader struct {
	from  io.Reader
	kinds []MessageKind
	buf   []byte
}

// NewMessageReader returns a reader of messages.
func NewMessageReader(from io.Reader, kinds ...MessageKind) *MessageReader {
	return &MessageReader{from: from, kinds: kinds}
}

// Next returns the next message. Its body is valid until the next call. io.EOF
// means that the stream ended between two messages. A message that the other end
// may not send is ErrProtocol.
func (r *MessageReader) Next() (kind MessageKind, body []byte, err error) {
	var header [messageHeaderSize]byte
	if _, err := io.ReadFull(r.from, header[:]); err != nil {
		return 0, nil, messageReadError(err)
	}
	kind, size := MessageKind(header[0]), binary.BigEndian.Uint32(header[1:])
	limits := messageSizes[kind]
	if !r.accepts(kind) || uint64(size) < uint64(limits.min) || uint64(size) > uint64(limits.max) { //nolint:gosec // they are constants
		return 0, nil, protocolError("a message of kind %q with %d bytes", kind, size)
	}
	if cap(r.buf) < int(size) {
		r.buf = make([]byte, size)
	}
	body = r.buf[:size]
	if _, err := io.ReadFull(r.from, body); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, messageReadError(err)
	}
	return kind, body, nil
}

func (r *MessageReader) accepts(kind MessageKind) bool {
	for _, known := range r.kinds {
		if kind == known {
			return true
		}
	}
	return false
}

// messageReadError returns ErrProtocol for a stream that ended within a message.
func messageReadError(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return protocolError("a truncated message")
	}
	return err
}

// ParseOffset returns the offset at the start of a body, and what follows it. It
// is negative in no message of an intact peer.
func ParseOffset(body []byte) (offset int64, rest []byte, err error) {
	offset = int64(binary.BigEndian.Uint64(body)) //nolint:gosec // checked below
	if offset < 0 {
		return 0, nil, protocolError("a negative offset")
	}
	return offset, body[offsetSize:], nil
}

// ParseSize returns the size of a terminal in a MessageResize.
func ParseSize(body []byte) runtime.TerminalSize {
	return runtime.TerminalSize{Rows: binary.BigEndian.Uint16(body), Columns: binary.BigEndian.Uint16(body[2:])}
}

// decodeMessage parses the body of a message that is JSON.
func decodeMessage[T any](body []byte) (message T, err error) {
	if err := json.Unmarshal(body, &message); err != nil {
		return message, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return message, nil
}
