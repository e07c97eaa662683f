// Package pack stores blobs in pack objects, and reads them.
//
// A blob is up to a few MiB of bytes. Its identity is a keyed hash, so that it
// is stored once for a tenant, and so that no hash shows what another tenant
// has. Blobs are compressed if that makes them smaller, encrypted if there are
// keys, and put one after the other into objects of about TargetSize, because an
// object for each file would cost a request for each. A pack never changes.
//
// docs/state-format.md has the format.
package pack

import (
	"crypto/cipher"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/zeebo/blake3"
)

// Sizes in bytes.
const (
	// TargetSize is the size at which a pack is complete.
	TargetSize = 8 << 20
	// MaxData bounds the bytes of a data blob and of an index segment.
	MaxData = 4 << 20
	// MaxRoot bounds the bytes of a root blob.
	MaxRoot = 16 << 20
	// maxOffset bounds the offset of a blob: a pack is complete at TargetSize, so
	// the last blob begins before.
	maxOffset = TargetSize
	// maxOverhead bounds what a stored blob is longer than its bytes.
	maxOverhead = 64
)

// header begins each pack.
const header = "HOSTPCK\x01"

// ID names a pack object.
type ID [16]byte

// String returns the name of the pack's object.
func (id ID) String() string { return uuid.UUID(id).String() }

// Hash identifies a blob: the BLAKE3 hash, keyed with the tenant's salt, of its
// kind and its bytes.
type Hash [32]byte

// String returns the hash in hexadecimal.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// Kind separates blobs by their use, so that none is read as another kind.
type Kind byte

// The kinds of blobs.
const (
	Data    Kind = 'd' // content of files
	Segment Kind = 's' // a part of an index
	Root    Kind = 'r' // the root of an index
)

// maxSize returns the maximum number of bytes of a blob of this kind.
func (k Kind) maxSize() int {
	if k == Root {
		return MaxRoot
	}
	return MaxData
}

// Ref locates a blob.
type Ref struct {
	Pack   ID
	Offset uint32 // in the pack
	Length uint32 // stored bytes
	Size   uint32 // bytes of the blob
	Hash   Hash
}

// Check returns an error if no blob of this kind can be there. References are
// read from the bucket, and are not trusted.
func (r Ref) Check(kind Kind) error {
	if r.Offset < uint32(len(header)) || r.Offset > maxOffset || r.Size > uint32(kind.maxSize()) ||
		r.Length == 0 || r.Length > r.Size+maxOverhead {
		return fmt.Errorf("%w: a reference to %d bytes of %d at %d in pack %s is invalid", ErrDamaged, r.Size, r.Length, r.Offset, r.Pack)
	}
	return nil
}

// ErrDamaged indicates that an object is not what was stored.
var ErrDamaged = errors.New("the stored object is damaged")

// ErrNoKeys indicates a blob that is encrypted, of a Format without keys.
var ErrNoKeys = errors.New("the server has no state keys")

// Keys are those that packs are encrypted with. A nil *statekey.Keys encrypts
// nothing.
type Keys interface {
	// Current returns the key that encrypts, the zero value for none.
	Current() [8]byte
	// Pack returns the cipher of one pack with a key.
	Pack(key [8]byte, pack [16]byte) (cipher.AEAD, error)
}

// Format is how a tenant's blobs are stored.
type Format struct {
	Salt  [32]byte
	Owner string // whose they are; an encrypted blob is bound to it
	Keys  Keys   // may be nil
}

// hash returns the hash of a blob.
func (f *Format) hash(h *blake3.Hasher, kind Kind, data []byte) (sum Hash) {
	h.Reset()
	_, _ = h.Write([]byte{byte(kind)})
	_, _ = h.Write(data)
	h.Sum(sum[:0])
	return sum
}

// hasher returns a hasher with the tenant's salt. It is for one goroutine.
func (f *Format) hasher() *blake3.Hasher {
	h, err := blake3.NewKeyed(f.Salt[:])
	if err != nil {
		panic(err) // the salt has the size of a key
	}
	return h
}

// Hasher returns a function that hashes blobs. It is for one goroutine.
func (f *Format) Hasher() func(kind Kind, data []byte) Hash {
	h := f.hasher()
	return func(kind Kind, data []byte) Hash { return f.hash(h, kind, data) }
}
