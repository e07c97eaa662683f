package claim_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/snapshot/snapshottest"
)

// tarOf returns a tar with one file.
func tarOf(t *testing.T, name, content string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(content))}))
	_, err := io.WriteString(w, content)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.Bytes()
}

// A tar becomes the state of a tenant that has no claim, and is verified and exported.
func TestArchivesOfTenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(syncedWorkload)
		imported, err := h.Claims.ImportSnapshot(t.Context(), "w", "ada", bytes.NewReader(tarOf(t, "data/note", "1")), anyState)
		require.NoError(t, err)
		require.NotEmpty(t, imported.Revision)
		list, err := h.Claims.Snapshots(t.Context(), "w", "ada")
		require.NoError(t, err)
		require.Equal(t, imported.ID, list[0].ID)
		var b bytes.Buffer
		_, err = h.Claims.ExportSnapshot(t.Context(), "w", "ada", "", func(s snapshot.Snapshot) (io.Writer, error) {
			require.Equal(t, imported.ID, s.ID)
			return &b, nil
		})
		require.NoError(t, err)
		require.Contains(t, b.String(), "data/note")
		v, err := h.Claims.VerifySnapshots(t.Context(), "w", "ada", "", nil)
		require.NoError(t, err)
		require.Equal(t, []int{1, 0}, []int{v.Snapshots, v.Damaged})
	})
}

// The mistakes of a caller are returned as they are, and others as those of the sink.
func TestArchiveErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(syncedWorkload)
		ctx, claims := t.Context(), h.Claims
		discard := func(snapshot.Snapshot) (io.Writer, error) { return io.Discard, nil }
		_, err := claims.ImportSnapshot(ctx, "none", "ada", strings.NewReader(""), anyState)
		require.ErrorIs(t, err, pool.ErrWorkloadNotFound)
		_, err = claims.ImportSnapshot(ctx, "w", "", strings.NewReader(""), anyState)
		require.ErrorIs(t, err, claim.ErrInvalidTenant)
		_, err = claims.ImportSnapshot(ctx, "w", "ada", bytes.NewReader(tarOf(t, "etc/x", "1")), anyState)
		require.ErrorIs(t, err, runtime.ErrBadArchive)
		_, err = claims.ExportSnapshot(ctx, "w", "ada", "", discard)
		require.ErrorIs(t, err, snapshot.ErrNoSnapshot)
		_, err = claims.ImportSnapshot(ctx, "w", "ada", bytes.NewReader(tarOf(t, "data/x", "1")), anyState)
		require.NoError(t, err)
		refused := errors.New("refused")
		_, err = claims.ExportSnapshot(ctx, "w", "ada", "", func(snapshot.Snapshot) (io.Writer, error) { return nil, refused })
		require.Equal(t, refused, err)
		h.Bucket.Before(func(snapshottest.Call) error { return errors.New("sink unavailable") })
		var failed *claim.SyncError
		_, err = claims.ExportSnapshot(ctx, "w", "ada", "", discard)
		require.ErrorAs(t, err, &failed)
		_, err = claims.VerifySnapshots(ctx, "w", "ada", "", nil)
		require.ErrorAs(t, err, &failed)
		_, err = claims.ImportSnapshot(ctx, "w", "ada", bytes.NewReader(tarOf(t, "data/x", "1")), anyState)
		require.ErrorAs(t, err, &failed)
	})
}

// One verification, export or import of a tenant is made at once, and four on the
// server. Each ends with its context.
func TestArchivesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(syncedWorkload)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		for _, tenant := range []string{"a", "b", "c", "d"} {
			running.Go(func() {
				_, err := h.Claims.ImportSnapshot(ctx, "w", tenant, endlessReader{ctx}, anyState)
				if !errors.Is(err, context.Canceled) {
					t.Errorf("got %v", err)
				}
			})
		}
		synctest.Wait()
		_, err := h.Claims.VerifySnapshots(t.Context(), "w", "a", "", nil)
		require.ErrorIs(t, err, claim.ErrTooManyArchives)
		require.ErrorContains(t, err, "tenant a")
		_, err = h.Claims.VerifySnapshots(t.Context(), "w", "e", "", nil)
		require.ErrorIs(t, err, claim.ErrTooManyArchives)
		cancel()
		running.Wait()
		_, err = h.Claims.VerifySnapshots(t.Context(), "w", "a", "", nil)
		require.NoError(t, err)
	})
}

// endlessReader returns nothing until its context ends.
type endlessReader struct {
	ctx context.Context //nolint:containedctx // of the one import that reads it
}

func (r endlessReader) Read([]byte) (int, error) {
	<-r.ctx.Done()
	return 0, context.Cause(r.ctx)
}

// A tenant that has a claim imports nothing, also if it has claimed in the meantime:
// its release would replace the import.
func TestImportNeedsNoClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(syncedWorkload)
		archive := tarOf(t, "data/note", "1")
		c := h.Claim("w", "ada")
		_, err := h.Claims.ImportSnapshot(t.Context(), "w", "ada", bytes.NewReader(archive), anyState)
		require.ErrorIs(t, err, claim.ErrClaimExists)
		h.Release(c)
		before, err := h.Claims.Snapshots(t.Context(), "w", "ada")
		require.NoError(t, err)
		for _, op := range []string{"put", "create"} { // before it is current, and later
			var once sync.Once
			h.Bucket.Before(func(call snapshottest.Call) error {
				if call.Op == op {
					once.Do(func() { c = h.Claim("w", "ada") })
				}
				return nil
			})
			_, err = h.Claims.ImportSnapshot(t.Context(), "w", "ada", bytes.NewReader(archive), anyState)
			require.ErrorIs(t, err, claim.ErrClaimExists, op)
			require.ErrorContains(t, err, c.ID)
			list, err := h.Claims.Snapshots(t.Context(), "w", "ada")
			require.NoError(t, err)
			if op == "put" {
				require.Equal(t, before, list)
			} else {
				require.Equal(t, "import", list[0].Reason)
			}
			h.Release(c)
		}
	})
}

func anyState(context.Context, snapshot.Snapshot) error { return nil }

// What a tar has become may be refused right before it is the tenant's state. That is
// no error of the sink, and nothing of it stays.
func TestImportIsAdmitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(syncedWorkload)
		refusal := errors.New("too much")
		_, err := h.Claims.ImportSnapshot(t.Context(), "w", "ada", bytes.NewReader(tarOf(t, "data/note", "1")), func(_ context.Context, s snapshot.Snapshot) error {
			require.Positive(t, s.StoredBytes())
			return refusal
		})
		require.ErrorIs(t, err, refusal)
		_, isSink := errors.AsType[*claim.SyncError](err)
		require.False(t, isSink)
		list, err := h.Claims.Snapshots(t.Context(), "w", "ada")
		require.NoError(t, err)
		require.Empty(t, list)
	})
}
