package snapshot_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/snapshot/snapshottest"
)

// suspendedBucket is that of a server which is suspended before it commits: requests
// are sent although the context has ended, because its timer has not fired yet.
type suspendedBucket struct {
	*snapshottest.Memory
	suspended func() // called once, between the last pack and the commit
}

func (b *suspendedBucket) Create(ctx context.Context, key string, data []byte) error {
	if strings.Contains(key, "/.clock-") {
		b.suspended()
	}
	return b.Memory.Create(context.WithoutCancel(ctx), key, data)
}

func (b *suspendedBucket) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	return b.Memory.Get(context.WithoutCancel(ctx), key)
}

func (b *suspendedBucket) List(ctx context.Context, prefix string, each func(snapshot.Object) error) error {
	return b.Memory.List(context.WithoutCancel(ctx), prefix, each)
}

// An upload or import that was suspended until another server has taken its packs for
// those of a failed one does not commit: its snapshot would miss them.
func TestSuspendedUploadDoesNotCommit(t *testing.T) {
	t.Parallel()
	const sync = "{sink: {type: file}, keep: 1}"
	for what, late := range map[string]func(h *harness, s *snapshot.Sink) error{
		"upload": func(h *harness, s *snapshot.Sink) error {
			_, err := s.Upload(h.Context(), h.rt, h.origin(h.container(reg("f", "late"))))
			return err
		},
		"import": func(h *harness, s *snapshot.Sink) error {
			_, err := s.Import(h.Context(), h.origin(""), strings.NewReader(string(pack(h.TB, reg("data/f", "late")))), always)
			return err
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := newHarness(t, sync)
			h.upload(h.container(reg("f", "first")))
			other := h.sink
			bucket := &suspendedBucket{Memory: h.bucket, suspended: func() {
				wait(snapshot.PruneGrace + time.Minute)
				_, err := other.Prune(context.WithoutCancel(t.Context()), h.owner)
				require.NoError(t, err, what)
			}}
			err := late(h, snapshot.New(bucket, synced(t, sync)))
			require.ErrorContains(t, err, "12h0m0s", what)
			require.Equal(t, "first", h.kept()["f"], what)
		})
	}
}
