package snapshot

import (
	"context"

	"gocloud.dev/blob/memblob"

	"github.com/hostler/hostler/workload"
)

// NewCloudInMemory is a bucket of a provider that is in memory.
func NewCloudInMemory() Bucket { return newCloudBucket(memblob.OpenBucket(nil), 0, nil) }

// BucketOf is the bucket of a sync's sink.
func (s *Sinks) BucketOf(ctx context.Context, sync *workload.Sync) (Bucket, error) {
	return s.bucket(ctx, sync)
}

// Holdback is from where a state is read twice.
const Holdback = holdback

// UploadsAtOnce is how many large uploads to a bucket that takes no memory
// itself there are at a time.
const UploadsAtOnce = uploadMemory / packing

// Mask is an error as a bucket with a secret shows it.
func Mask(err error, secret string) error {
	return (&cloudBucket{secrets: []string{secret}}).fault(err)
}

// ConnectionSecrets is connectionSecrets.
func ConnectionSecrets(text string) []string { return connectionSecrets(text) }
