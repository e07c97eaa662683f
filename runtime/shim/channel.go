package shim

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/hostler/hostler/runtime"
)

// maxWelcome bounds what the program says before it has proven that it is ours.
const maxWelcome = 64 << 10

// errUnproven is a peer that does not hold the container's key.
var errUnproven = errors.New("it could not prove that it is our program")

// Channel is a stream after both ends have proven to each other that they hold
// the container's key, which never crosses the stream. Every frame is encrypted
// under a key of its direction and numbered, so that whoever carries the stream
// can neither read a frame nor change, repeat, reorder or leave out one. One
// goroutine may write while another one reads.
type Channel struct {
	stream         io.ReadWriter
	out, in        cipher.AEAD
	sent, received uint64
	self, other    End
	features       []string  // that both ends have
	buffers        sync.Pool // of *[]byte that hold a frame of a stream
}

// Proof is what the first message after the greetings carries.
type Proof struct {
	MAC []byte `json:"mac"`
}

// errVersion is a peer that speaks another version than the container's.
var errVersion = fmt.Errorf("%w: another protocol version", runtime.ErrDoomed)

// Call is the server's part of the handshake, in the version that the
// container's record has. The program proves itself first.
func Call(stream io.ReadWriter, key []byte, version int) (*Channel, Welcome, error) {
	hello, err := greet(stream, KindHello, Hello{Version: version, Nonce: newNonce(), Features: features})
	if err != nil {
		return nil, Welcome{}, err
	}
	f, err := ReadFrame(stream, maxWelcome)
	if err != nil {
		return nil, Welcome{}, err
	}
	welcome, err := Decode[Welcome](f, KindWelcome)
	if err != nil {
		return nil, welcome, err
	}
	if welcome.Version != version {
		return nil, welcome, fmt.Errorf("%w: its program speaks version %d, and its record says %d", errVersion, welcome.Version, version)
	}
	said := transcript(hello, f.Body)
	if err := checkProof(stream, key, Program, said); err != nil {
		return nil, welcome, err
	}
	if err := WriteFrame(stream, KindProof, Proof{proof(key, Server, said)}); err != nil {
		return nil, welcome, err
	}
	c, err := newChannel(stream, key, said, Server, Program, welcome.Features)
	return c, welcome, err
}

// Accept is the program's part of the handshake. The welcome is completed with
// what the greeting needs. A client of another version is told the program's,
// and refused.
func Accept(stream io.ReadWriter, key []byte, welcome Welcome) (*Channel, error) {
	f, err := ReadFrame(stream, MaxHello)
	if err != nil {
		return nil, err
	}
	hello, err := Decode[Hello](f, KindHello)
	if err != nil {
		return nil, err
	}
	welcome.Version, welcome.Nonce, welcome.Features = Version, newNonce(), features
	answer, err := greet(stream, KindWelcome, welcome)
	if err != nil {
		return nil, err
	}
	if hello.Version != Version {
		return nil, fmt.Errorf("%w: the client's is %d, and not %d", errVersion, hello.Version, Version)
	}
	said := transcript(f.Body, answer)
	if err := WriteFrame(stream, KindProof, Proof{proof(key, Program, said)}); err != nil {
		return nil, err
	}
	if err := checkProof(stream, key, Server, said); err != nil {
		return nil, err
	}
	return newChannel(stream, key, said, Program, Server, hello.Features)
}

// greet sends a greeting and returns its body as it was sent.
func greet(w io.Writer, kind Kind, message any) ([]byte, error) {
	body, err := json.Marshal(message)
	if err != nil {
		return nil, fmt.Errorf("encode a greeting: %w", err)
	}
	return body, WriteFrame(w, kind, json.RawMessage(body))
}

func newNonce() []byte {
	nonce := make([]byte, 32)
	rand.Read(nonce) //nolint:errcheck // documented never to fail
	return nonce
}

// transcript is both greetings, byte for byte: versions, nonces, features and the
// boot.
func transcript(hello, welcome []byte) []byte {
	sum := sha256.New()
	for _, body := range [][]byte{hello, welcome} {
		_ = binary.Write(sum, binary.BigEndian, uint64(len(body))) // a hash takes all
		sum.Write(body)
	}
	return sum.Sum(nil)
}

func proof(key []byte, end End, said []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("hostler proof of the " + end.name + "\x00"))
	mac.Write(said)
	return mac.Sum(nil)
}

// checkProof reads the other end's proof.
func checkProof(r io.Reader, key []byte, end End, said []byte) error {
	f, err := ReadFrame(r, MaxHello)
	if err != nil {
		return err
	}
	p, err := Decode[Proof](f, KindProof)
	if err == nil && !hmac.Equal(p.MAC, proof(key, end, said)) {
		err = errUnproven
	}
	if err != nil {
		return fmt.Errorf("%w: %w", runtime.ErrDoomed, err)
	}
	return nil
}

func newChannel(stream io.ReadWriter, key, said []byte, self, other End, theirs []string) (*Channel, error) {
	out, err := newAEAD(key, said, self)
	if err != nil {
		return nil, err
	}
	in, err := newAEAD(key, said, other)
	if err != nil {
		return nil, err
	}
	return &Channel{stream: stream, out: out, in: in, self: self, other: other, features: common(theirs)}, nil
}

// newAEAD is the cipher of what one end sends.
func newAEAD(key, said []byte, end End) (cipher.AEAD, error) {
	own, err := hkdf.Key(sha256.New, key, said, "hostler frames of the "+end.name, 32)
	if err != nil {
		return nil, fmt.Errorf("derive a session's key: %w", err)
	}
	block, err := aes.NewCipher(own)
	if err != nil {
		return nil, fmt.Errorf("prepare a session's cipher: %w", err)
	}
	return cipher.NewGCM(block)
}

// overhead is how much longer an encrypted body is.
const overhead = 16

// Write sends one message in a single Write.
func (c *Channel) Write(kind Kind, message any) error {
	body, err := json.Marshal(message)
	if err != nil {
		return fmt.Errorf("encode a frame: %w", err)
	}
	if len(body) > MaxFrame {
		return errTooLarge
	}
	buf := make([]byte, headerSize, headerSize+len(body)+overhead)
	binary.BigEndian.PutUint32(buf, uint32(len(body)+overhead))
	buf[4] = byte(kind)
	buf = c.out.Seal(buf, number(c.sent), body, buf[:headerSize])
	c.sent++
	_, err = c.stream.Write(buf)
	return err
}

// writeRaw sends a frame of a stream in a single Write. The body is at most
// MaxData.
func (c *Channel) writeRaw(kind Kind, id uint64, stream byte, body []byte) error {
	buffer := c.buffer()
	defer c.buffers.Put(buffer)
	buf := binary.BigEndian.AppendUint32((*buffer)[:0], uint32(streamHead+len(body)+overhead))
	buf = append(buf, byte(kind))
	buf = binary.BigEndian.AppendUint64(buf, id)
	buf = append(append(buf, stream), body...)
	head := buf[:headerSize]
	buf = c.out.Seal(head, number(c.sent), buf[headerSize:], head) // in place
	c.sent++
	_, err := c.stream.Write(buf)
	return err
}

// buffer is one that holds a frame of a stream.
func (c *Channel) buffer() *[]byte {
	if b, ok := c.buffers.Get().(*[]byte); ok {
		return b
	}
	b := make([]byte, headerSize+streamHead+MaxData+overhead)
	return &b
}

// Read receives the next message. Its body is good until Release.
func (c *Channel) Read() (Frame, error) {
	var header [headerSize]byte
	f, size, err := readHeader(c.stream, header[:], MaxFrame+overhead)
	if err != nil {
		return f, err
	}
	if size <= streamHead+MaxData+overhead && streamKinds[f.Kind] {
		f.buffer = c.buffer()
		f.Body = (*f.buffer)[:size]
	} else {
		f.Body = make([]byte, size)
	}
	if err := readBody(c.stream, f.Body); err != nil {
		c.Release(f)
		return Frame{}, err
	}
	f.Body, err = c.in.Open(f.Body[:0], number(c.received), f.Body, header[:])
	if err != nil {
		c.Release(f)
		return Frame{}, fmt.Errorf("%w: a frame is not as it was sent", ErrProtocol)
	}
	c.received++
	return f, nil
}

// Release takes the body of a frame back that was read.
func (c *Channel) Release(f Frame) {
	if f.buffer != nil {
		c.buffers.Put(f.buffer)
	}
}

// number is a frame's nonce.
func number(n uint64) []byte { return binary.BigEndian.AppendUint64(make([]byte, 4, 12), n) }
