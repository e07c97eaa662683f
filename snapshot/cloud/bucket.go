package cloud

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	goruntime "runtime"
	"strings"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/hostler/hostler/snapshot"
)

// bucket stores objects with a provider of object storage.
type bucket struct {
	bucket  *blob.Bucket
	secrets []string // that no error may show
}

var _ snapshot.Bucket = (*bucket)(nil)

// How large objects are sent: parts are held in memory until they are sent.
const (
	partSize          = 8 << 20 // a pack is two at most
	uploadConcurrency = 2
)

// newBucket returns a bucket. It is closed by Close, or some time after its last use.
func newBucket(b *blob.Bucket, secrets []string) *bucket {
	opened := &bucket{bucket: b, secrets: secrets}
	// A sink may still use a bucket whose secret has changed in the meantime.
	goruntime.AddCleanup(opened, func(b *blob.Bucket) { _ = b.Close() }, b)
	return opened
}

// UploadMemory returns the memory of a Put: a part that is filled, those that are
// sent, and one that is not yet garbage-collected.
func (b *bucket) UploadMemory() int64 { return (uploadConcurrency + 2) * partSize }

// Close closes the bucket.
func (b *bucket) Close() error { return b.translateError(b.bucket.Close()) }

// Put implements snapshot.Bucket. For some providers' clients, what was sent before the
// source failed becomes an object, unless the context ends before they close
// it.
func (b *bucket) Put(ctx context.Context, key string, r io.Reader) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	from := &failFastReader{ctx: ctx, from: r, failed: cancel}
	err := b.bucket.Upload(ctx, key, from, &blob.WriterOptions{
		ContentType: "application/zstd", BufferSize: partSize, MaxConcurrency: uploadConcurrency,
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return b.translateError(err)
}

// failFastReader is a reader that reports its failure at once, and the end of a
// context as one.
type failFastReader struct {
	ctx    context.Context //nolint:containedctx // of the one call that reads it
	from   io.Reader
	failed context.CancelCauseFunc
}

func (s *failFastReader) Read(p []byte) (int, error) {
	n, err := s.from.Read(p)
	if s.ctx.Err() != nil {
		return n, context.Cause(s.ctx) // also in place of io.EOF
	}
	if err != nil && !errors.Is(err, io.EOF) {
		s.failed(err)
	}
	return n, err
}

// Create implements snapshot.Bucket. It uses Upload because the client for Azure panics
// when bytes that are written to it, as WriteAll does, are refused.
func (b *bucket) Create(ctx context.Context, key string, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, createTimeout)
	defer cancel()
	var err error
	for range createAttempts {
		err = b.bucket.Upload(ctx, key, bytes.NewReader(data), &blob.WriterOptions{
			ContentType: "application/json", IfNotExist: true,
		})
		if !isCreateConflict(err) {
			break
		}
	}
	return b.translateError(err)
}

// createTimeout bounds Create: Google's client retries indefinitely, and the
// object is small.
const createTimeout = 30 * time.Second

// createAttempts is how often Create tries while the result of a concurrent
// creation is undecided.
const createAttempts = 5

// isCreateConflict reports whether an object was not created because of a
// concurrent creation. Amazon returns this error where other providers wait for
// the result. The caller has to retry, which Amazon's client does not.
func isCreateConflict(err error) bool {
	apiErr, ok := errors.AsType[interface {
		error
		ErrorCode() string
	}](err)
	return ok && apiErr.ErrorCode() == "ConditionalRequestConflict"
}

// Get implements snapshot.Bucket.
func (b *bucket) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	r, err := b.bucket.NewReader(ctx, key, nil)
	if err != nil {
		return nil, b.translateMissing(ctx, key, err)
	}
	return &reader{b, r}, nil
}

// GetRange implements snapshot.Bucket.
func (b *bucket) GetRange(ctx context.Context, key string, offset, size int64) (io.ReadCloser, error) {
	if err := snapshot.CheckRange(offset, size); err != nil {
		return nil, err
	}
	open := func(offset, size int64) (io.ReadCloser, error) { return b.openRange(ctx, key, offset, size) }
	r, err := open(offset, size)
	if err != nil {
		return nil, err
	}
	return &resumedReader{ctx: ctx, open: open, from: r, offset: offset, left: size}, nil
}

// openRange asks once for a range.
func (b *bucket) openRange(ctx context.Context, key string, offset, size int64) (io.ReadCloser, error) {
	r, err := b.bucket.NewRangeReader(ctx, key, offset, size, nil)
	if err != nil {
		return nil, b.translateRange(ctx, key, err)
	}
	first, total := answeredRange(r, offset)
	switch {
	case first != offset:
		err = fmt.Errorf("%w: it begins at byte %d instead of %d", errOtherRange, first, offset)
	case total >= 0 && total < offset+size:
		err = fmt.Errorf("the object has %d bytes: %w", total, io.ErrUnexpectedEOF)
	}
	if err != nil {
		_ = r.Close()
		return nil, err
	}
	from := &rangeReader{ctx, reader{b, r}}
	return struct {
		io.Reader
		io.Closer
	}{snapshot.RangeReader(from, size, errCut), from}, nil
}

// reader reads an object.
type reader struct {
	bucket *bucket
	from   *blob.Reader
}

func (r *reader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = r.bucket.translateError(err)
	}
	return n, err
}

// Close closes the object.
func (r *reader) Close() error { return r.bucket.translateError(r.from.Close()) }

// List implements snapshot.Bucket.
func (b *bucket) List(ctx context.Context, prefix string, each func(snapshot.Object) error) error {
	list := b.bucket.List(&blob.ListOptions{Prefix: prefix})
	for {
		o, err := list.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return b.translateError(err)
		}
		if err := each(snapshot.Object{Key: o.Key, Size: o.Size, Time: o.ModTime}); err != nil {
			return err
		}
	}
}

// Delete implements snapshot.Bucket.
func (b *bucket) Delete(ctx context.Context, key string) error {
	err := b.translateMissing(ctx, key, b.bucket.Delete(ctx, key))
	if errors.Is(err, snapshot.ErrNoObject) {
		return nil
	}
	return err
}

// translateMissing is translateError for a call that needs the object. Clients
// return "not found" also for an object without read or delete access
// (Google's), for a bucket that does not exist, and for a host without an
// address (Azure's). snapshot.ErrNoObject is only what the bucket can list and does not.
func (b *bucket) translateMissing(ctx context.Context, key string, err error) error {
	if gcerrors.Code(err) != gcerrors.NotFound {
		return b.translateError(err)
	}
	there := false
	listErr := b.List(ctx, key, func(o snapshot.Object) error {
		there = there || o.Key == key
		return nil
	})
	switch {
	case listErr != nil:
		return errors.Join(b.translateError(err), listErr)
	case there:
		return fmt.Errorf("the object exists, but: %w", b.translateError(err))
	}
	return fmt.Errorf("%w: %w", snapshot.ErrNoObject, b.translateError(err))
}

// providerErrors maps providers' errors to errors of this package.
var providerErrors = map[gcerrors.ErrorCode]error{
	gcerrors.FailedPrecondition: snapshot.ErrExists,
	gcerrors.AlreadyExists:      snapshot.ErrExists,
}

// translateError turns a provider's error into one of this package, without
// secrets.
func (b *bucket) translateError(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	for _, secret := range b.secrets {
		text = strings.ReplaceAll(text, secret, "***")
	}
	if text != err.Error() {
		err = &redactedError{text, err}
	}
	if ours, ok := providerErrors[gcerrors.Code(err)]; ok {
		return fmt.Errorf("%w: %w", ours, err)
	}
	return err
}

// redactedError is an error whose text was redacted.
type redactedError struct {
	text string
	err  error
}

func (m *redactedError) Error() string { return m.text }
func (m *redactedError) Unwrap() error { return m.err }
