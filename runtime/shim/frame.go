package shim

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// MaxFrame and MaxHandshake bound the body of a frame, in bytes. A peer that has
// not proven who it is may not make us hold more than MaxHandshake.
const (
	MaxFrame     = 4 << 20
	MaxHandshake = 4 << 10
)

// ErrProtocol says that the other end does not speak the protocol. A session
// never recovers from it.
var ErrProtocol = errors.New("broken session")

// errTooLarge is a frame of ours that nobody would accept.
var errTooLarge = fmt.Errorf("%w: a frame is larger than %d bytes", ErrProtocol, MaxFrame)

// Kind is what a frame carries.
type Kind byte

// The kinds of frames, in the order in which a session uses them.
const (
	KindHandshake      Kind = 'H' // Handshake, the client's first
	KindHandshakeReply Kind = 'W' // HandshakeReply, the program's first
	KindProof          Kind = 'P' // Proof, the last before the channel is encrypted
	KindRequest        Kind = 'Q' // Request
	KindProgress       Kind = 'N' // Note
	KindResponse       Kind = 'A' // Answer
	KindDone           Kind = 'F' // Done
)

// The kinds of frames of a stream. Their body is no JSON: the request's number, in
// eight bytes, the stream's, in one, and what the kind says.
const (
	KindData   Kind = 'D' // the bytes themselves
	KindCredit Kind = 'C' // how many more bytes may be sent, in four
	KindEnd    Kind = 'E' // nothing: all is sent
	KindReset  Kind = 'R' // a Fault in JSON: neither direction goes on
)

var streamKinds = map[Kind]bool{KindData: true, KindCredit: true, KindEnd: true, KindReset: true}

// Frame is one message: four bytes of length, one of kind, a body.
type Frame struct {
	Kind   Kind
	Body   []byte
	buffer *[]byte // that Body is in, if it is to be used again
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
	f.Body = make([]byte, size)
	if err := readBody(r, f.Body); err != nil {
		return Frame{}, err
	}
	return f, nil
}

// readHeader reads up to a message's body, and says how long that is.
func readHeader(r io.Reader, header []byte, limit int) (f Frame, size int, err error) {
	if _, err := io.ReadFull(r, header); err != nil {
		return Frame{}, 0, err
	}
	length := binary.BigEndian.Uint32(header)
	if uint64(length) > uint64(limit) {
		return Frame{}, 0, fmt.Errorf("%w: a frame of %d bytes, at most %d are allowed",
			ErrProtocol, length, limit)
	}
	return Frame{Kind: Kind(header[4])}, int(length), nil
}

func readBody(r io.Reader, body []byte) error {
	_, err := io.ReadFull(r, body)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// Decode reads the body of a frame that has to be of one kind.
func Decode[T any](f Frame, want Kind) (T, error) {
	var message T
	if f.Kind != want {
		return message, fmt.Errorf("%w: a frame of kind %q instead of %q", ErrProtocol, f.Kind, want)
	}
	if err := json.Unmarshal(f.Body, &message); err != nil {
		return message, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return message, nil
}
