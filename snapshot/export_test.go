package snapshot

import (
	"context"

	"gocloud.dev/blob/memblob"
	"gocloud.dev/gcerrors"

	"github.com/hostler/hostler/workload"
)

// NewCloudInMemory is a bucket of a provider that is in memory.
func NewCloudInMemory() Bucket { return newCloudBucket(memblob.OpenBucket(nil), 0, nil) }

// BucketOf is the bucket of a sync's sink.
func (s *Sinks) BucketOf(ctx context.Context, sync *workload.Sync) (Bucket, error) {
	return s.bucket(ctx, sync)
}

// OpenCount is how many buckets are open.
func (s *Sinks) OpenCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

// IsClosed says whether a provider's bucket was closed. It does not hold it.
func IsClosed(bucket Bucket) func() bool {
	b := bucket.(*cloudBucket).bucket
	return func() bool {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, err := b.Exists(ctx, "any")
		return gcerrors.Code(err) == gcerrors.FailedPrecondition
	}
}

// PeekSize is from where a state is read twice.
const PeekSize = peekSize

// MaxConcurrentUploads is how many large uploads to a bucket that takes no memory
// itself there are at a time.
const MaxConcurrentUploads = uploadMemory / packMemory

// RedactError is an error as a bucket with secrets shows it.
func RedactError(err error, secrets ...string) error {
	return (&cloudBucket{secrets: secrets}).translateError(err)
}

// ConnectionSecrets is connectionSecrets.
func ConnectionSecrets(text string) []string { return connectionSecrets(text) }
