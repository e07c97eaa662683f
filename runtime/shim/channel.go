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

// maxHandshakeReply bounds the program's reply before the program has proven
// its identity.
const maxHandshakeReply = 64 << 10

// errUnauthenticated is the error for a peer that does not hold the container's
// key.
var errUnauthenticated = errors.New("peer is not authenticated")

// Channel is a stream after both ends have proven to each other that they hold
// the container's key, which never crosses the stream. Every frame is encrypted
// with a key for its direction and numbered. So no one who carries the stream
// can read, change, repeat, reorder or omit a frame. One goroutine may write
// while another one reads.
type Channel struct {
	stream         io.ReadWriter
	out, in        cipher.AEAD
	sent, received uint64
	local, remote  Role
	features       []string  // supported by both ends
	buffers        sync.Pool // of *[]byte, each holds a stream frame
}

// Proof is the first message after the handshake messages.
type Proof struct {
	MAC []byte `json:"mac"`
}

// errVersion is the error for a peer whose version is not the container's.
var errVersion = fmt.Errorf("%w: another protocol version", runtime.ErrTainted)

// ServerHandshake runs the server's part of the handshake, with the version in
// the container's record. The program proves itself first.
func ServerHandshake(stream io.ReadWriter, key []byte, version int) (*Channel, HandshakeReply, error) {
	sent, err := writeHandshake(stream, KindHandshake, Handshake{Version: version, Nonce: newNonce(), Features: features})
	if err != nil {
		return nil, HandshakeReply{}, err
	}
	f, err := ReadFrame(stream, maxHandshakeReply)
	if err != nil {
		return nil, HandshakeReply{}, err
	}
	reply, err := Decode[HandshakeReply](f, KindHandshakeReply)
	if err != nil {
		return nil, reply, err
	}
	if reply.Version != version {
		return nil, reply, fmt.Errorf("%w: its program speaks version %d, its record has version %d", errVersion, reply.Version, version)
	}
	digest := transcript(sent, f.Body)
	if err := verifyProof(stream, key, Program, digest); err != nil {
		return nil, reply, err
	}
	if err := WriteFrame(stream, KindProof, Proof{proof(key, Server, digest)}); err != nil {
		return nil, reply, err
	}
	c, err := newChannel(stream, key, digest, Server, Program, reply.Features)
	return c, reply, err
}

// ProgramHandshake runs the program's part of the handshake. It fills in the
// fields of reply that the handshake needs. A client with another version
// receives the program's version and is refused.
func ProgramHandshake(stream io.ReadWriter, key []byte, reply HandshakeReply) (*Channel, error) {
	f, err := ReadFrame(stream, MaxHandshake)
	if err != nil {
		return nil, err
	}
	received, err := Decode[Handshake](f, KindHandshake)
	if err != nil {
		return nil, err
	}
	reply.Version, reply.Nonce, reply.Features = Version, newNonce(), features
	sent, err := writeHandshake(stream, KindHandshakeReply, reply)
	if err != nil {
		return nil, err
	}
	if received.Version != Version {
		return nil, fmt.Errorf("%w: the client has version %d, want %d", errVersion, received.Version, Version)
	}
	digest := transcript(f.Body, sent)
	if err := WriteFrame(stream, KindProof, Proof{proof(key, Program, digest)}); err != nil {
		return nil, err
	}
	if err := verifyProof(stream, key, Server, digest); err != nil {
		return nil, err
	}
	return newChannel(stream, key, digest, Program, Server, received.Features)
}

// writeHandshake sends a handshake message and returns its body as sent.
func writeHandshake(w io.Writer, kind Kind, message any) ([]byte, error) {
	body, err := json.Marshal(message)
	if err != nil {
		return nil, fmt.Errorf("encode the handshake: %w", err)
	}
	return body, WriteFrame(w, kind, json.RawMessage(body))
}

func newNonce() []byte {
	nonce := make([]byte, 32)
	rand.Read(nonce) //nolint:errcheck // documented never to fail
	return nonce
}

// transcript returns the hash of both handshake messages, byte for byte:
// versions, nonces, features and the boot ID.
func transcript(request, reply []byte) []byte {
	sum := sha256.New()
	for _, body := range [][]byte{request, reply} {
		_ = binary.Write(sum, binary.BigEndian, uint64(len(body))) // a hash never fails
		sum.Write(body)
	}
	return sum.Sum(nil)
}

func proof(key []byte, end Role, digest []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("hostler proof of the " + end.name + "\x00"))
	mac.Write(digest)
	return mac.Sum(nil)
}

// verifyProof reads and checks the other end's proof.
func verifyProof(r io.Reader, key []byte, end Role, digest []byte) error {
	f, err := ReadFrame(r, MaxHandshake)
	if err != nil {
		return err
	}
	p, err := Decode[Proof](f, KindProof)
	if err == nil && !hmac.Equal(p.MAC, proof(key, end, digest)) {
		err = errUnauthenticated
	}
	if err != nil {
		return fmt.Errorf("%w: %w", runtime.ErrTainted, err)
	}
	return nil
}

func newChannel(stream io.ReadWriter, key, digest []byte, local, remote Role, remoteFeatures []string) (*Channel, error) {
	out, err := newAEAD(key, digest, local)
	if err != nil {
		return nil, err
	}
	in, err := newAEAD(key, digest, remote)
	if err != nil {
		return nil, err
	}
	return &Channel{stream: stream, out: out, in: in, local: local, remote: remote, features: commonFeatures(remoteFeatures)}, nil
}

// newAEAD returns the cipher for what one end sends.
func newAEAD(key, digest []byte, end Role) (cipher.AEAD, error) {
	own, err := hkdf.Key(sha256.New, key, digest, "hostler frames of the "+end.name, 32)
	if err != nil {
		return nil, fmt.Errorf("derive the session key: %w", err)
	}
	block, err := aes.NewCipher(own)
	if err != nil {
		return nil, fmt.Errorf("create the session cipher: %w", err)
	}
	return cipher.NewGCM(block)
}

// overhead is the number of bytes that encryption adds to a body.
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
	buf = c.out.Seal(buf, frameNonce(c.sent), body, buf[:headerSize])
	c.sent++
	_, err = c.stream.Write(buf)
	return err
}

// writeRaw sends a stream frame in a single Write. The body is at most MaxData.
func (c *Channel) writeRaw(kind Kind, id uint64, stream byte, body []byte) error {
	buffer := c.getBuffer()
	defer c.buffers.Put(buffer)
	buf := binary.BigEndian.AppendUint32((*buffer)[:0], uint32(streamHeaderSize+len(body)+overhead))
	buf = append(buf, byte(kind))
	buf = binary.BigEndian.AppendUint64(buf, id)
	buf = append(append(buf, stream), body...)
	head := buf[:headerSize]
	buf = c.out.Seal(head, frameNonce(c.sent), buf[headerSize:], head) // in place
	c.sent++
	_, err := c.stream.Write(buf)
	return err
}

// frameBuffer is the size of a buffer that holds any stream frame.
const frameBuffer = headerSize + streamHeaderSize + MaxData + overhead

// getBuffer returns a buffer of that size.
func (c *Channel) getBuffer() *[]byte {
	if b, ok := c.buffers.Get().(*[]byte); ok {
		return b
	}
	b := make([]byte, frameBuffer)
	return &b
}

// Read receives the next message. Its body is valid until Release, unless the buffer
// in which it is was exchanged for another one.
func (c *Channel) Read() (Frame, error) {
	var header [headerSize]byte
	f, size, err := readHeader(c.stream, header[:], MaxFrame+overhead)
	if err != nil {
		return f, err
	}
	if f.Kind == KindRequest && size > c.local.maxRequestSize+overhead {
		return Frame{}, protocolError("a request of %d bytes, at most %d are allowed", size, c.local.maxRequestSize)
	}
	if size <= streamHeaderSize+MaxData+overhead && streamKinds[f.Kind] {
		f.buffer = c.getBuffer()
		f.Body, err = (*f.buffer)[:size], readFull(c.stream, (*f.buffer)[:size])
	} else {
		f.Body, err = readBody(c.stream, size)
	}
	if err != nil {
		c.Release(f)
		return Frame{}, err
	}
	f.Body, err = c.in.Open(f.Body[:0], frameNonce(c.received), f.Body, header[:])
	if err != nil {
		c.Release(f)
		return Frame{}, fmt.Errorf("%w: a frame was altered", ErrProtocol)
	}
	c.received++
	return f, nil
}

// Release takes back the body of a frame that Read returned.
func (c *Channel) Release(f Frame) {
	if f.buffer != nil {
		c.buffers.Put(f.buffer)
	}
}

// frameNonce returns the nonce of the n-th frame.
func frameNonce(n uint64) []byte { return binary.BigEndian.AppendUint64(make([]byte, 4, 12), n) }
