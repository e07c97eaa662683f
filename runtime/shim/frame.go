package shim

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// MaxFrame and MaxHandshake bound the body of a frame, in bytes. A peer that is
// not authenticated cannot make this end hold more than MaxHandshake.
const (
	MaxFrame     = 4 << 20
	MaxHandshake = 4 << 10
)

// ErrProtocol is the error for a peer that violates the protocol. A session
// never recovers from it.
var ErrProtocol = errors.New("protocol violation")

// errTooLarge is the error for an outgoing frame that no peer would accept.
var errTooLarge = fmt.Errorf("%w: a frame is larger than %d bytes", ErrProtocol, MaxFrame)

// Kind is the type of a frame.
type Kind byte

// The kinds of frames, in the order in which a session uses them.
const (
	KindHandshake      Kind = 'H' // Handshake, the client's first message
	KindHandshakeReply Kind = 'W' // HandshakeReply, the program's first message
	KindProof          Kind = 'P' // Proof, the last message before encryption
	KindRequest        Kind = 'Q' // Request
	KindProgress       Kind = 'N' // Progress
	KindResponse       Kind = 'A' // Response
	KindDone           Kind = 'F' // Done
)

// The kinds of stream frames. Their body is not JSON: eight bytes of request
// ID, one byte of stream index, and the payload of the kind.
const (
	KindData   Kind = 'D' // bytes of the stream
	KindCredit Kind = 'C' // how many more bytes may be sent, in four bytes
	KindEnd    Kind = 'E' // empty: all is sent
	KindReset  Kind = 'R' // a WireError as JSON: both directions end
)

var streamKinds = map[Kind]bool{KindData: true, KindCredit: true, KindEnd: true, KindReset: true}

// Frame is one message: four bytes of length, one byte of kind, a body.
type Frame struct {
	Kind   Kind
	Body   []byte
	buffer *[]byte // holds Body and can be reused; nil if not pooled
}

const headerSize = 5

// WriteFrame sends one message in a single Write.
func WriteFrame(w io.Writer, kind Kind, message any) error {
	body, err := json.Marshal(message)
	if err != nil {
		return fmt.Errorf("encode a frame: %w", err)
	}
	if len(body) > MaxFrame {
		return errTooLarge
	}
	buf := make([]byte, headerSize, headerSize+len(body))
	binary.BigEndian.PutUint32(buf, uint32(len(body)))
	buf[4] = byte(kind)
	_, err = w.Write(append(buf, body...))
	return err
}

// ReadFrame reads one message whose body is at most limit bytes long. io.EOF
// means that the stream ended between two messages.
func ReadFrame(r io.Reader, limit int) (Frame, error) {
	var header [headerSize]byte
	f, size, err := readHeader(r, header[:], limit)
	if err != nil {
		return Frame{}, err
	}
	if f.Body, err = readBody(r, size); err != nil {
		return Frame{}, err
	}
	return f, nil
}

// readHeader reads the header of a message and returns the length of its body.
func readHeader(r io.Reader, header []byte, limit int) (f Frame, size int, err error) {
	if _, err := io.ReadFull(r, header); err != nil {
		return Frame{}, 0, err
	}
	length := binary.BigEndian.Uint32(header)
	if uint64(length) > uint64(limit) {
		return Frame{}, 0, fmt.Errorf("%w: frame of %d bytes, at most %d are allowed",
			ErrProtocol, length, limit)
	}
	return Frame{Kind: Kind(header[4])}, int(length), nil
}

// readBody reads a body. It holds at most twice what has arrived: a header alone
// makes this end hold bodyChunk.
func readBody(r io.Reader, size int) ([]byte, error) {
	body := make([]byte, min(size, bodyChunk))
	for read := 0; ; {
		if err := readFull(r, body[read:]); err != nil {
			return nil, err
		}
		if len(body) == size {
			return body, nil
		}
		read = len(body)
		body = append(make([]byte, 0, min(size, 2*read)), body...)
		body = body[:cap(body)]
	}
}

// bodyChunk is how much of a body is read before more is allocated.
const bodyChunk = 16 << 10

func readFull(r io.Reader, body []byte) error {
	_, err := io.ReadFull(r, body)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// Decode parses the body of a frame that must have the given kind.
func Decode[T any](f Frame, want Kind) (T, error) {
	var message T
	if f.Kind != want {
		return message, fmt.Errorf("%w: frame kind %q, want %q", ErrProtocol, f.Kind, want)
	}
	if err := json.Unmarshal(f.Body, &message); err != nil {
		return message, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return message, nil
}
