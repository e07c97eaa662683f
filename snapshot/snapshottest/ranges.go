package snapshottest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/snapshot"
)

// readRange returns the bytes of a range, as far as they can be read.
func readRange(ctx context.Context, b snapshot.Bucket, key string, offset, size int64) ([]byte, error) {
	r, err := b.GetRange(ctx, key, offset, size)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(r)
	if closed := r.Close(); err == nil {
		err = closed
	}
	return data, err
}

func ranges(t *testing.T, b snapshot.Bucket) {
	const text = "0123456789"
	require.NoError(t, b.Put(t.Context(), "range/x", strings.NewReader(text)))
	for _, c := range [][2]int64{{0, 1}, {0, 10}, {9, 1}, {3, 4}, {0, 9}, {1, 9}} {
		got, err := readRange(t.Context(), b, "range/x", c[0], c[1])
		require.NoError(t, err, "range %v", c)
		require.Equal(t, text[c[0]:c[0]+c[1]], string(got))
	}
	// A reader that is closed early keeps nothing from being read again.
	r, err := b.GetRange(t.Context(), "range/x", 2, 5)
	require.NoError(t, err)
	_, err = io.ReadFull(r, make([]byte, 1))
	require.NoError(t, err)
	require.NoError(t, r.Close())
	got, err := readRange(t.Context(), b, "range/x", 2, 5)
	require.NoError(t, err)
	require.Equal(t, "23456", string(got))
}

// Mistakes of the caller are errors, and not those of an object.
func noRanges(t *testing.T, b snapshot.Bucket) {
	require.NoError(t, b.Put(t.Context(), "none-range/x", strings.NewReader("text")))
	for _, c := range [][2]int64{{0, 0}, {2, 0}, {-1, 1}, {-1, 0}, {0, -1}, {4, 0}, {1, math.MaxInt64}, {math.MaxInt64, 1}, {math.MinInt64, math.MinInt64}} {
		_, err := readRange(t.Context(), b, "none-range/x", c[0], c[1])
		require.Error(t, err, "range %v", c)
		require.NotErrorIs(t, err, snapshot.ErrNoObject, "range %v", c)
		require.NotErrorIs(t, err, io.ErrUnexpectedEOF, "range %v", c)
	}
}

// Of a range that an object does not have completely, nothing is taken for the
// whole. Only an object that does not exist is ErrNoObject.
func rangeAfterEnd(t *testing.T, b snapshot.Bucket) {
	require.NoError(t, b.Put(t.Context(), "after/x", strings.NewReader("0123456789")))
	require.NoError(t, b.Put(t.Context(), "after/empty", strings.NewReader("")))
	for _, c := range []struct {
		key          string
		offset, size int64
	}{{"x", 0, 11}, {"x", 9, 2}, {"x", 10, 1}, {"x", 11, 1}, {"x", 1 << 40, 5}, {"x", 5, 1 << 40}, {"empty", 0, 1}, {"empty", 3, 1}} {
		_, err := readRange(t.Context(), b, "after/"+c.key, c.offset, c.size)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF, "range %v", c)
		require.NotErrorIs(t, err, snapshot.ErrNoObject, "range %v", c)
	}
	_, err := readRange(t.Context(), b, "after/none", 0, 1)
	require.ErrorIs(t, err, snapshot.ErrNoObject)
	require.NotErrorIs(t, err, io.ErrUnexpectedEOF)
}

func concurrentRanges(t *testing.T, b snapshot.Bucket) {
	const size, part = 3 << 20, 100_000
	require.NoError(t, b.Put(t.Context(), "concurrent/x", &counterReader{n: size}))
	var g errgroup.Group
	for offset := 0; offset+part <= size; offset += part {
		g.Go(func() error {
			got, err := readRange(t.Context(), b, "concurrent/x", int64(offset), part)
			if err != nil {
				return err
			}
			want := make([]byte, part)
			if _, err := io.ReadFull(&counterReader{at: offset, n: size}, want); err != nil {
				return err
			}
			if !bytes.Equal(got, want) {
				return fmt.Errorf("the bytes at offset %d are others", offset)
			}
			return nil
		})
	}
	require.NoError(t, g.Wait())
}

// An object that is deleted while it is read ends in an error, or has all its
// bytes.
func rangeOfDeleted(t *testing.T, b snapshot.Bucket) {
	const size = 4 << 20
	require.NoError(t, b.Put(t.Context(), "deleted/x", &counterReader{n: size}))
	r, err := b.GetRange(t.Context(), "deleted/x", 0, size)
	require.NoError(t, err)
	require.NoError(t, b.Delete(t.Context(), "deleted/x"))
	data, err := io.ReadAll(r)
	require.NoError(t, r.Close())
	if err == nil {
		require.Len(t, data, size)
	}
	require.NotErrorIs(t, err, io.ErrUnexpectedEOF)
	_, err = readRange(t.Context(), b, "deleted/x", 0, 1)
	require.ErrorIs(t, err, snapshot.ErrNoObject)
}

func rangeContextEnds(t *testing.T, b snapshot.Bucket) {
	const size = 20 << 20
	require.NoError(t, b.Put(t.Context(), "range-ended/x", &counterReader{n: size}))
	ctx, cancel := context.WithCancel(t.Context())
	r, err := b.GetRange(ctx, "range-ended/x", 1, size-1)
	require.NoError(t, err)
	_, err = io.ReadFull(r, make([]byte, 100))
	require.NoError(t, err)
	cancel()
	n, err := io.Copy(io.Discard, r)
	require.ErrorIs(t, err, context.Canceled)
	require.Less(t, n, int64(size-101))
	_ = r.Close() // of a connection that was cut
	_, err = readRange(ctx, b, "range-ended/x", 0, 1)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, b.Delete(t.Context(), "range-ended/x"))
}
