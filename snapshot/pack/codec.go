package pack

import (
	"bytes"
	"crypto/cipher"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/klauspost/compress/zstd"
	"github.com/zeebo/blake3"
)

// The first byte of a stored blob.
const (
	flagZstd      = 1 << iota // the bytes are compressed
	flagEncrypted             // the key's id follows, then the sealed bytes
	knownFlags    = flagZstd | flagEncrypted
)

// keySize is the size of a key's id, in bytes.
const keySize = 8

// codec encodes and decodes blobs. It is used by one goroutine.
type codec struct {
	format *Format
	hasher *blake3.Hasher
	zip    *zstd.Encoder // nil until it is used
	unzip  *zstd.Decoder // nil until it is used
	buf    []byte        // compressed, or decrypted, bytes

	// aead is the cipher of one pack with one key.
	aead    cipher.AEAD
	aeadKey [keySize]byte
	aeadFor ID
}

func newCodec(f *Format) *codec { return &codec{format: f, hasher: f.hasher()} }

func (c *codec) close() {
	if c.unzip != nil {
		c.unzip.Close()
	}
}

// encode appends a stored blob, at the offset that it will have in the pack.
func (c *codec) encode(to []byte, id ID, kind Kind, data []byte) ([]byte, error) {
	if c.zip == nil {
		// A single segment always has its size in its header.
		zip, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
			zstd.WithWindowSize(MaxData), zstd.WithSingleSegment(true), zstd.WithEncoderCRC(false))
		if err != nil {
			return nil, fmt.Errorf("compress: %w", err)
		}
		c.zip = zip
	}
	offset, flags, body := len(to), byte(0), data
	if c.buf = c.zip.EncodeAll(data, c.buf[:0]); len(c.buf) < len(data) {
		flags, body = flagZstd, c.buf
	}
	var key [keySize]byte
	if c.format.Keys != nil {
		key = c.format.Keys.Current()
	}
	if key == [keySize]byte{} {
		return append(append(to, flags), body...), nil
	}
	aead, err := c.cipher(key, id)
	if err != nil {
		return nil, err
	}
	to = append(append(to, flags|flagEncrypted), key[:]...)
	return aead.Seal(to, nonce(offset), body, c.associated(kind, to[offset:])), nil
}

// decode returns the bytes of a stored blob, verified. They are valid until the
// next call if they are not appended to a buffer of the caller's.
func (c *codec) decode(to []byte, kind Kind, r Ref, stored []byte) ([]byte, error) {
	data, err := c.open(to, kind, r, stored)
	if err != nil {
		return nil, fmt.Errorf("blob at %d of pack %s: %w", r.Offset, r.Pack, err)
	}
	got := data[len(to):]
	if len(got) != int(r.Size) || c.format.hash(c.hasher, kind, got) != r.Hash {
		return nil, fmt.Errorf("blob at %d of pack %s: %w: its checksum does not match", r.Offset, r.Pack, ErrDamaged)
	}
	return data, nil
}

// open decrypts and decompresses a stored blob.
func (c *codec) open(to []byte, kind Kind, r Ref, stored []byte) ([]byte, error) {
	if err := r.Check(kind); err != nil {
		return nil, err
	}
	if len(stored) != int(r.Length) || stored[0]&^knownFlags != 0 {
		return nil, fmt.Errorf("%w: it is encoded in an unknown way", ErrDamaged)
	}
	flags, body := stored[0], stored[1:]
	if flags&flagEncrypted != 0 {
		if len(body) < keySize {
			return nil, fmt.Errorf("%w: it is too short", ErrDamaged)
		}
		aead, err := c.cipher([keySize]byte(body), r.Pack)
		if err != nil {
			return nil, err
		}
		plain, err := aead.Open(c.buf[:0], nonce(int(r.Offset)), body[keySize:], c.associated(kind, stored[:1+keySize]))
		if err != nil {
			return nil, fmt.Errorf("%w: it cannot be decrypted", ErrDamaged)
		}
		c.buf, body = plain, plain
	}
	if flags&flagZstd == 0 {
		return append(to, body...), nil
	}
	return c.decompress(to, body, int(r.Size))
}

// Spare is what the decoder needs after its output to be fast, in bytes: a buffer
// for a blob has as much room in addition.
const Spare = 16

// decompress appends the decompressed bytes, which are size bytes, or fewer if
// the blob is damaged. It never takes memory for more.
func (c *codec) decompress(to, body []byte, size int) ([]byte, error) {
	if c.unzip == nil {
		unzip, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(MaxRoot),
			zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, fmt.Errorf("decompress: %w", err)
		}
		c.unzip = unzip
	}
	// The header has the size, if the encoder knew it. The hash covers the rest.
	var h zstd.Header
	if err := h.Decode(body); err != nil || !h.HasFCS || h.FrameContentSize != uint64(size) {
		return nil, fmt.Errorf("%w: it does not have the size of its reference", ErrDamaged)
	}
	// More frames may follow. The decoder's limits count what the buffer has
	// already, and so it gets one that is empty.
	to = slices.Grow(to, size+Spare)
	data, err := c.unzip.DecodeAll(body, to[len(to):len(to):len(to)+size+Spare])
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return to[:len(to)+min(len(data), size+Spare)], nil
}

// cipher returns the cipher of a pack.
func (c *codec) cipher(key [keySize]byte, id ID) (cipher.AEAD, error) {
	if c.aead != nil && c.aeadKey == key && c.aeadFor == id {
		return c.aead, nil
	}
	if c.format.Keys == nil {
		return nil, fmt.Errorf("it is encrypted with the key %x: %w", key, ErrNoKeys)
	}
	aead, err := c.format.Keys.Pack(key, id)
	if err != nil {
		return nil, err
	}
	c.aead, c.aeadKey, c.aeadFor = aead, key, id
	return aead, nil
}

// nonce returns the nonce of a blob. Each pack has a key of its own, and no two
// of its blobs are at one offset.
func nonce(offset int) []byte {
	return binary.BigEndian.AppendUint64(make([]byte, 4, 12), uint64(offset)) //nolint:gosec // offsets are not negative
}

// associated returns what is authenticated with a blob: how it is encoded, its kind
// and whose it is. A list of snapshots can be forged by who can write the bucket, and
// must not make the server decrypt packs that were copied from another owner.
func (c *codec) associated(kind Kind, prefix []byte) []byte {
	return append(append(bytes.Clone(prefix), byte(kind)), c.format.Owner...)
}
