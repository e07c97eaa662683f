package snapshot_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/snapshot/snapshottest"
)

// An import that fails leaves nothing in the bucket: a client that repeats one would
// fill it, and Prune removes garbage a day later.
func TestFailedImportLeavesNothing(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "")
	archive := pack(t, reg("data/large", random(9<<20)), reg("data/z", "end"))
	refused := errors.New("refused")
	for _, c := range []struct {
		from   io.Reader
		before func(context.Context, snapshot.Snapshot) error
	}{
		{bytes.NewReader(archive[:len(archive)-1024]), always},
		{io.MultiReader(bytes.NewReader(archive[:len(archive)-2000]), failingReader{refused}), always},
		{bytes.NewReader(archive), func(context.Context, snapshot.Snapshot) error {
			require.NotEmpty(t, h.bucket.Objects())
			return refused
		}},
	} {
		_, err := h.sink.Import(t.Context(), h.origin(""), c.from, c.before)
		require.Error(t, err)
		require.Empty(t, h.bucket.Objects())
	}
	kept := h.importTar(archive)
	before := len(h.bucket.Objects())
	_, err := h.sink.Import(t.Context(), h.origin(""), bytes.NewReader(archive[:len(archive)-1024]), always)
	require.Error(t, err)
	require.Len(t, h.bucket.Objects(), before)
	require.Zero(t, h.verified(kept.ID).Damaged)
}

// A tenant whose upload fails at its end, again and again, does not fill the bucket
// either.
func TestFailedUploadLeavesNothing(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "{sink: {type: file}, max_files: 2}")
	c := h.container(reg("a", random(9<<20)), reg("b", ""), reg("c", ""))
	_, err := h.sink.Upload(t.Context(), h.rt, h.origin(c))
	require.ErrorIs(t, err, snapshot.ErrTooLarge)
	for key := range h.bucket.Objects() {
		require.False(t, strings.Contains(key, "/packs/"), key)
	}
}

// What was stored before the bucket failed is removed as well.
func TestBrokenUploadLeavesNothing(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "")
	c := h.container(reg("a", random(18<<20)))
	stored := make(chan struct{})
	var puts atomic.Int32
	h.bucket.Before(func(c snapshottest.Call) error {
		if c.Op != "put" || puts.Add(1) == 1 {
			return nil
		}
		<-stored
		return snapshottest.ErrInjected
	})
	h.bucket.After(func(c snapshottest.Call) error {
		if c.Op == "put" {
			close(stored)
		}
		return nil
	})
	_, err := h.sink.Upload(t.Context(), h.rt, h.origin(c))
	require.ErrorIs(t, err, snapshottest.ErrInjected)
	require.Empty(t, h.objects("packs/"))
}
