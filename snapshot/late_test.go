package snapshot_test

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/snapshot/snapshottest"
)

// lateBucket performs the first creation of a head late: its client was canceled or
// killed while the request was on its way.
type lateBucket struct {
	*snapshottest.Memory
	mu      sync.Mutex
	arrives func() error // nil until there is one
}

func (b *lateBucket) Create(ctx context.Context, key string, data []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.arrives == nil {
		b.arrives = func() error { return b.Memory.Create(context.WithoutCancel(ctx), key, data) }
		return context.Canceled
	}
	return b.Memory.Create(ctx, key, data)
}

// The commit of an upload that a release has canceled may arrive after the release:
// then it is refused, also if the release found the state unchanged.
func TestLateCommitOfEarlierUpload(t *testing.T) {
	t.Parallel()
	for _, changed := range []bool{false, true} {
		h := newHarness(t, "")
		c := h.container(reg("f", "kept"))
		h.upload(c)
		bucket := &lateBucket{Memory: h.bucket}
		h.sink = snapshot.New(bucket, synced(t, ""))
		h.put(c, "/data", reg("f", "seen in between"))
		live := h.origin(c)
		live.Reason = "interval"
		_, err := h.sink.Upload(t.Context(), h.rt, live)
		require.ErrorIs(t, err, context.Canceled)
		want := map[bool]string{false: "kept", true: "new"}[changed]
		h.put(c, "/data", reg("f", want))
		up := h.upload(c)
		require.ErrorIs(t, bucket.arrives(), snapshot.ErrExists)
		now, err := h.sink.Current(t.Context(), h.owner)
		require.NoError(t, err)
		require.Equal(t, up.Snapshot.ID, now.ID)
		require.Equal(t, want, h.kept()["f"])
	}
}

// A download that has begun to write a file of others counts it, although it got
// nothing of its content: the container is not empty.
func TestBrokenRawDownloadCounts(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "{sink: {type: file}, mappings: [{path: /more, sink_path: more, direction: download}]}")
	h.bucket.Set("tenants/alice/more/secret-name", []byte("x"), time.Now())
	h.sink = snapshot.New(cutBucket{h.bucket}, synced(t, "{sink: {type: file}, mappings: [{path: /more, sink_path: more, direction: download}]}"))
	down, err := h.sink.Download(t.Context(), h.rt, snapshot.Destination{Owner: h.owner, Container: h.container()})
	require.ErrorIs(t, err, snapshottest.ErrInjected)
	require.Zero(t, down.Sent)
	require.Equal(t, 1, down.Files)
}

// cutBucket loses the connection before the first byte of an object.
type cutBucket struct{ *snapshottest.Memory }

func (b cutBucket) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	if _, err := b.Memory.Get(ctx, key); err != nil || strings.Contains(key, "/heads/") {
		return b.Memory.Get(ctx, key)
	}
	return io.NopCloser(cutReader{}), nil
}

type cutReader struct{}

func (cutReader) Read([]byte) (int, error) { return 0, snapshottest.ErrInjected }
