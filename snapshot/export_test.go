package snapshot

import (
	"context"

	"gocloud.dev/blob/memblob"
	"gocloud.dev/gcerrors"

	"github.com/hostler/hostler/workload"
)

// NewCloudInMemory returns a bucket of an in-memory provider.
func NewCloudInMemory() Bucket { return newCloudBucket(memblob.OpenBucket(nil), 0, nil) }

// BucketOf returns the bucket of a sync's sink.
func (s *Sinks) BucketOf(ctx context.Context, sync *workload.Sync) (Bucket, error) {
	return s.bucket(ctx, sync)
}

// OpenCount returns how many buckets are open.
func (s *Sinks) OpenCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

// IsClosed returns a function that reports whether a provider's bucket was
// closed. It does not keep the bucket alive.
func IsClosed(bucket Bucket) func() bool {
	b := bucket.(*cloudBucket).bucket
	return func() bool {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, err := b.Exists(ctx, "any")
		return gcerrors.Code(err) == gcerrors.FailedPrecondition
	}
}

// PeekSize is the size from which a state is read twice.
const PeekSize = peekSize

// MaxConcurrentUploads is the maximum number of concurrent large uploads to a
// bucket that needs no memory itself.
const MaxConcurrentUploads = uploadMemory / packMemory

// RedactError returns an error as a bucket with secrets returns it.
func RedactError(err error, secrets ...string) error {
	return (&cloudBucket{secrets: secrets}).translateError(err)
}

// ConnectionSecrets calls connectionSecrets.
func ConnectionSecrets(text string) []string { return connectionSecrets(text) }
