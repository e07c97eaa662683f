package snapshot

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
)

// cloudBucket keeps objects with a provider of object storage.
type cloudBucket struct {
	bucket  *blob.Bucket
	secrets []string // that no error may show
	part    int      // bytes of each part of a large object
}

var _ Bucket = (*cloudBucket)(nil)

// How large objects are sent: parts are held in memory until they have been.
const (
	minPartSize       = 8 << 20
	maxParts          = 8000 // S3 allows 10,000
	uploadConcurrency = 2
)

// newCloudBucket makes a bucket for objects of up to most bytes. It is closed
// by Close, or some time after nobody has it any more.
func newCloudBucket(b *blob.Bucket, maxSize int64, secrets []string) *cloudBucket {
	bucket := &cloudBucket{bucket: b, secrets: secrets, part: int(max(minPartSize, maxSize/maxParts))}
	// Who uses a bucket whose secret has changed meanwhile still does so.
	goruntime.AddCleanup(bucket, func(b *blob.Bucket) { _ = b.Close() }, b)
	return bucket
}

// putMemory is the memory of a Put: a part that is filled, those that are sent,
// and as much as one of them that was not collected yet.
func (b *cloudBucket) putMemory() int64 { return int64(uploadConcurrency+2) * int64(b.part) }

// Close closes the bucket.
func (b *cloudBucket) Close() error { return b.translateError(b.bucket.Close()) }

// Put is Bucket.Put. What has been sent when the source fails is an object for
// some providers' clients, unless the context has ended before they close it.
func (b *cloudBucket) Put(ctx context.Context, key string, r io.Reader) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	from := &failFastReader{ctxReader: ctxReader{ctx, r}, failed: cancel}
	err := b.bucket.Upload(ctx, key, from, &blob.WriterOptions{
		ContentType: "application/zstd", BufferSize: b.part, MaxConcurrency: uploadConcurrency,
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return b.translateError(err)
}

// failFastReader is a reader whose failure is told at once.
type failFastReader struct {
	ctxReader
	failed context.CancelCauseFunc
}

func (s *failFastReader) Read(p []byte) (int, error) {
	n, err := s.ctxReader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.failed(err)
	}
	return n, err
}

// Create is Bucket.Create. It is an upload because the client for Azure panics
// when bytes that are written to it, as WriteAll does, are refused.
func (b *cloudBucket) Create(ctx context.Context, key string, data []byte) error {
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

// createTimeout bounds a creation: Google's client repeats one without end, and
// what is created is small.
const createTimeout = 30 * time.Second

// createAttempts is how often Create tries while it is not decided who creates.
const createAttempts = 5

// isCreateConflict says whether an object was not created because somebody else was
// about to. Amazon says so, where others say who has won, and that whoever is
// told has to try again; its client does not.
func isCreateConflict(err error) bool {
	fault, ok := errors.AsType[interface {
		error
		ErrorCode() string
	}](err)
	return ok && fault.ErrorCode() == "ConditionalRequestConflict"
}

// Get is Bucket.Get.
func (b *cloudBucket) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	r, err := b.bucket.NewReader(ctx, key, nil)
	if err != nil {
		return nil, b.translateMissing(ctx, key, err)
	}
	return &cloudReader{b, r}, nil
}

// cloudReader is an object being read.
type cloudReader struct {
	bucket *cloudBucket
	from   *blob.Reader
}

func (r *cloudReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = r.bucket.translateError(err)
	}
	return n, err
}

// Close ends the reading.
func (r *cloudReader) Close() error { return r.bucket.translateError(r.from.Close()) }

// List is Bucket.List.
func (b *cloudBucket) List(ctx context.Context, prefix string, each func(Object) error) error {
	list := b.bucket.List(&blob.ListOptions{Prefix: prefix})
	for {
		o, err := list.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return b.translateError(err)
		}
		if err := each(Object{Key: o.Key, Size: o.Size, Time: o.ModTime}); err != nil {
			return err
		}
	}
}

// Delete is Bucket.Delete.
func (b *cloudBucket) Delete(ctx context.Context, key string) error {
	err := b.translateMissing(ctx, key, b.bucket.Delete(ctx, key))
	if errors.Is(err, ErrNoObject) {
		return nil
	}
	return err
}

// translateMissing is fault for a call that needs the object. Clients say "not found"
// also of an object that may not be read or deleted (Google's), of a bucket
// that is not there, and of a host without an address (Azure's): no such object
// is only what the bucket can list and does not.
func (b *cloudBucket) translateMissing(ctx context.Context, key string, err error) error {
	if gcerrors.Code(err) != gcerrors.NotFound {
		return b.translateError(err)
	}
	there := false
	listErr := b.List(ctx, key, func(o Object) error {
		there = there || o.Key == key
		return nil
	})
	switch {
	case listErr != nil:
		return errors.Join(b.translateError(err), listErr)
	case there:
		return fmt.Errorf("there is such an object, but: %w", b.translateError(err))
	}
	return fmt.Errorf("%w: %w", ErrNoObject, b.translateError(err))
}

// providerErrors are the provider's errors that are ours.
var providerErrors = map[gcerrors.ErrorCode]error{
	gcerrors.FailedPrecondition: ErrExists,
	gcerrors.AlreadyExists:      ErrExists,
}

// translateError turns a provider's error into ours, without a secret in it.
func (b *cloudBucket) translateError(err error) error {
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

// redactedError is an error whose text was changed.
type redactedError struct {
	text string
	err  error
}

func (m *redactedError) Error() string { return m.text }
func (m *redactedError) Unwrap() error { return m.err }
