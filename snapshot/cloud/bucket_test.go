package cloud

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	goruntime "runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"gocloud.dev/blob/memblob"
	"gocloud.dev/gcerrors"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/snapshot/snapshottest"
	"github.com/hostler/hostler/workload"
)

// The contract, with a provider in memory. Package snapshot's tests run it with
// servers of S3, Google Cloud Storage and Azure.
func TestContract(t *testing.T) {
	t.Parallel()
	snapshottest.Run(t, newBucket(memblob.OpenBucket(nil), nil))
}

// A bucket is closed some time after its last use, and not before.
func TestUnusedBucketIsClosed(t *testing.T) {
	t.Parallel()
	b := newBucket(memblob.OpenBucket(nil), nil)
	inner := b.bucket
	closed := func() bool {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, err := inner.Exists(ctx, "any")
		return gcerrors.Code(err) == gcerrors.FailedPrecondition
	}
	goruntime.GC()
	require.False(t, closed())
	goruntime.KeepAlive(b)
	testenv.AwaitTrue(t, "the bucket to be closed", func() bool { goruntime.GC(); return closed() })
}

// Errors of a provider's client are shown without secrets, whatever their
// encoding.
func TestErrorsAreRedacted(t *testing.T) {
	t.Parallel()
	cause := errors.New("cut off")
	redact := func(err error, secrets ...string) error { return (&bucket{secrets: secrets}).translateError(err) }
	err := redact(fmt.Errorf("Get \"https://x?sig=abcdefgh%%3D\": %w", cause), "abcdefgh%3D")
	require.ErrorIs(t, err, cause)
	require.NotContains(t, err.Error(), "abcdefgh")
	require.Equal(t, []string{"YS1zZWNyZXQ=", "sv=1&sig=abcdefgh%3D", "abcdefgh%3D", "abcdefgh="},
		connectionSecrets("AccountKey=YS1zZWNyZXQ=;BlobEndpoint=https://x;SharedAccessSignature=sv=1&sig=abcdefgh%3D"))

	const meant = "c2VjcmV0+that/noone/may/see="
	for _, sig := range []string{"c2VjcmV0%2Bthat%2Fnoone%2Fmay%2Fsee%3D", "c2VjcmV0%2bthat%2fnoone%2fmay%2fsee%3d", "c2VjcmV0%2Bthat/noone/may/see="} {
		for _, written := range []string{sig, meant, url.QueryEscape(meant)} {
			err := redact(fmt.Errorf("Get \"http://x?sig=%s&sp=rl\": EOF", written), connectionSecrets("SharedAccessSignature=sp=rl&sig="+sig)...)
			require.NotContains(t, err.Error(), "c2VjcmV0", "%s in place of %s", written, sig)
		}
	}
}

// A sink of an unknown type is an error.
func TestOpenUnknownType(t *testing.T) {
	t.Parallel()
	_, err := Open(t.Context(), &workload.Sync{Sink: workload.Sink{Type: "tape"}}, "")
	require.ErrorContains(t, err, "unknown sink type")
}
