package snapshot

import (
	"context"
	"errors"
	"io"
	"time"
)

// Errors about objects.
var (
	// ErrNoObject indicates that there is no object of that key.
	ErrNoObject = errors.New("no such object")
	// ErrExists indicates that an object of that key already exists.
	ErrExists = errors.New("the object already exists")
)

// Bucket stores objects: streams of bytes under keys, which are slash-separated
// paths. All methods are safe for concurrent use. Every later call sees what a
// call has stored or deleted.
type Bucket interface {
	// Put stores all bytes of r, under a key that no one else uses. When r or
	// the bucket fails, or ctx ends, there is no object of that key. After nil
	// the object survives a power failure.
	Put(ctx context.Context, key string, r io.Reader) error
	// Create stores a small object, or returns ErrExists. Of several concurrent
	// calls for one key, one succeeds. Otherwise it is like Put.
	Create(ctx context.Context, key string, data []byte) error
	// Get reads an object. It returns ErrNoObject when there is none, and only
	// then: not when access is denied, or the bucket does not exist. The caller
	// closes the reader.
	Get(ctx context.Context, key string) (io.ReadCloser, error)
	// GetRange reads size bytes of an object, from offset on. The reader
	// returns exactly these, and then io.EOF, or an error. An error wraps
	// io.ErrUnexpectedEOF when the object has fewer bytes, and only then: not
	// when a connection ends early. It comes from GetRange or from the reader.
	// ErrNoObject is as with Get. The reader ends with ctx. When the object is
	// deleted in the meantime, it returns the bytes or an error. A range without
	// a byte, or with a negative number, is an error. The caller closes the
	// reader.
	GetRange(ctx context.Context, key string, offset, size int64) (io.ReadCloser, error)
	// List calls each for every object whose key begins with prefix, in no
	// particular order, until it returns an error, and returns that.
	List(ctx context.Context, prefix string, each func(Object) error) error
	// Delete removes an object. It returns nil when there is none, and an error
	// when access is denied.
	Delete(ctx context.Context, key string) error
}

// Object is an object as List returns it.
type Object struct {
	Key  string
	Size int64
	Time time.Time // when it was stored
}
