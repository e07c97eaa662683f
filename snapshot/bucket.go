package snapshot

import (
	"context"
	"errors"
	"io"
	"time"
)

// What can be wrong with an object.
var (
	// ErrNoObject says that there is no object of that key.
	ErrNoObject = errors.New("no such object")
	// ErrExists says that there is an object of that key already.
	ErrExists = errors.New("the object exists")
)

// Bucket keeps objects: streams of bytes under keys, which are paths with
// slashes. All methods may be called by many goroutines at once. What one call
// has stored or deleted, every later call sees.
type Bucket interface {
	// Put stores all that r gives, under a key that nobody else uses. When r or
	// the bucket fails, or ctx ends, there is no object of that key. After nil
	// the object outlives a loss of power.
	Put(ctx context.Context, key string, r io.Reader) error
	// Create stores a small object, or says ErrExists: of several who create
	// one key, one succeeds. For the rest it is like Put.
	Create(ctx context.Context, key string, data []byte) error
	// Get reads an object; ErrNoObject when there is none, and only then: not
	// when it may not be read, or the whole bucket is not there. The caller
	// closes it.
	Get(ctx context.Context, key string) (io.ReadCloser, error)
	// List calls each for every object whose key begins with prefix, in no
	// particular order, until it returns an error, and returns that.
	List(ctx context.Context, prefix string, each func(Object) error) error
	// Delete removes an object. One that is not there is nil; one that may not
	// be removed is an error.
	Delete(ctx context.Context, key string) error
}

// Object is what List tells of an object.
type Object struct {
	Key  string
	Size int64
	Time time.Time // when it was stored
}
