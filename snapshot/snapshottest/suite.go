package snapshottest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/snapshot"
)

// Run is the contract of snapshot.Bucket as code. The bucket is empty.
func Run(t *testing.T, b snapshot.Bucket) {
	cases := []struct {
		name string
		run  func(*testing.T, snapshot.Bucket)
	}{
		{"what is stored can be read", storeAndRead},
		{"what does not exist", missing},
		{"created once", createOnce},
		{"created by one of many", createAtOnce},
		{"all or nothing", putIsAtomic},
		{"a context that ends", contextEnds},
		{"listed by prefix", list},
		{"odd keys", oddKeys},
		{"large", large},
		{"ranges", ranges},
		{"ranges that are none", noRanges},
		{"a range after the end", rangeAfterEnd},
		{"concurrent ranges", concurrentRanges},
		{"a range of a deleted object", rangeOfDeleted},
		{"a range and a context that ends", rangeContextEnds},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { c.run(t, b) })
	}
}

func read(t *testing.T, b snapshot.Bucket, key string) string {
	t.Helper()
	r, err := b.Get(t.Context(), key)
	require.NoError(t, err, "Get %s", key)
	data, err := io.ReadAll(r)
	require.NoError(t, err, "read %s", key)
	require.NoError(t, r.Close())
	return string(data)
}

func storeAndRead(t *testing.T, b snapshot.Bucket) {
	for key, data := range map[string]string{"sr/a": "text", "sr/empty": "", "sr/deep/er/b": "\x00\xff"} {
		require.NoError(t, b.Put(t.Context(), key, strings.NewReader(data)))
		require.Equal(t, data, read(t, b, key))
	}
	require.NoError(t, b.Delete(t.Context(), "sr/a"))
	_, err := b.Get(t.Context(), "sr/a")
	require.ErrorIs(t, err, snapshot.ErrNoObject)
}

func missing(t *testing.T, b snapshot.Bucket) {
	_, err := b.Get(t.Context(), "none/x")
	require.ErrorIs(t, err, snapshot.ErrNoObject)
	require.NoError(t, b.Delete(t.Context(), "none/x"))
	require.Empty(t, keys(t, b, "none/"))
}

func createOnce(t *testing.T, b snapshot.Bucket) {
	require.NoError(t, b.Create(t.Context(), "once/x", []byte("first")))
	require.ErrorIs(t, b.Create(t.Context(), "once/x", []byte("second")), snapshot.ErrExists)
	require.Equal(t, "first", read(t, b, "once/x"))
}

func createAtOnce(t *testing.T, b snapshot.Bucket) {
	var g errgroup.Group
	var won atomic.Int32
	for i := range 16 {
		g.Go(func() error {
			err := b.Create(t.Context(), "race/x", []byte(strings.Repeat(fmt.Sprint(i%10), 5000)))
			if errors.Is(err, snapshot.ErrExists) {
				return nil
			}
			won.Add(1)
			return err
		})
	}
	require.NoError(t, g.Wait())
	require.Equal(t, int32(1), won.Load())
	got := read(t, b, "race/x")
	require.Equal(t, strings.Repeat(got[:1], 5000), got)
}

var errSource = errors.New("the source failed")

// failingReader returns n bytes and then fails.
type failingReader struct{ left int }

func (f *failingReader) Read(p []byte) (int, error) {
	if f.left == 0 {
		return 0, errSource
	}
	n := min(len(p), f.left)
	f.left -= n
	return n, nil
}

func putIsAtomic(t *testing.T, b snapshot.Bucket) {
	for _, n := range []int{0, 1, 100_000, 20 << 20} {
		require.ErrorIs(t, b.Put(t.Context(), "half/x", &failingReader{n}), errSource, "after %d bytes", n)
		_, err := b.Get(t.Context(), "half/x")
		require.ErrorIs(t, err, snapshot.ErrNoObject)
	}
	require.Empty(t, keys(t, b, "half/"))
}

// cancellingReader cancels a context in the middle.
type cancellingReader struct {
	cancel context.CancelFunc
	left   int
}

func (e *cancellingReader) Read(p []byte) (int, error) {
	if e.left == 0 {
		e.cancel()
		return 0, io.EOF
	}
	n := min(len(p), e.left)
	e.left -= n
	return n, nil
}

func contextEnds(t *testing.T, b snapshot.Bucket) {
	for _, n := range []int{10, 20 << 20} {
		ctx, cancel := context.WithCancel(t.Context())
		require.Error(t, b.Put(ctx, "ended/x", &cancellingReader{cancel, n}))
		_, err := b.Get(t.Context(), "ended/x")
		require.ErrorIs(t, err, snapshot.ErrNoObject)
	}
}

func keys(t *testing.T, b snapshot.Bucket, prefix string) map[string]int64 {
	t.Helper()
	all := map[string]int64{}
	require.NoError(t, b.List(t.Context(), prefix, func(o snapshot.Object) error {
		all[o.Key] = o.Size
		require.WithinDuration(t, time.Now(), o.Time, time.Minute)
		return nil
	}))
	return all
}

func list(t *testing.T, b snapshot.Bucket) {
	for _, key := range []string{"list/a/1", "list/a/2", "list/ab", "list/a/sub/3", "list/b"} {
		require.NoError(t, b.Put(t.Context(), key, strings.NewReader(key)))
	}
	require.Equal(t, map[string]int64{"list/a/1": 8, "list/a/2": 8, "list/a/sub/3": 12}, keys(t, b, "list/a/"))
	require.Len(t, keys(t, b, "list/a"), 4)
	require.ErrorIs(t, b.List(t.Context(), "list/", func(snapshot.Object) error { return errSource }), errSource)
}

// The characters of keys, and those that may occur in files for mappings that
// only download.
func oddKeys(t *testing.T, b snapshot.Bucket) {
	for _, key := range []string{"odd/_2e_2e/.hostler/w/heads/0000000000000001.json", "odd/a b+c&d=e%2f", "odd/é", "odd/" + strings.Repeat("n", 180)} {
		require.NoError(t, b.Create(t.Context(), key, []byte(key)))
		require.Equal(t, key, read(t, b, key))
		require.Contains(t, keys(t, b, "odd/"), key)
	}
}

// counterReader returns n bytes that depend on their offset.
type counterReader struct{ at, n int }

func (c *counterReader) Read(p []byte) (int, error) {
	for i := range p {
		if c.at == c.n {
			return i, io.EOF
		}
		p[i] = byte(c.at * 7 >> 3)
		c.at++
	}
	return len(p), nil
}

func large(t *testing.T, b snapshot.Bucket) {
	const size = 40 << 20
	require.NoError(t, b.Put(t.Context(), "large/x", &counterReader{n: size}))
	require.Equal(t, map[string]int64{"large/x": size}, keys(t, b, "large/"))
	r, err := b.Get(t.Context(), "large/x")
	require.NoError(t, err)
	defer r.Close()
	want, buf, buf2 := &counterReader{n: size}, make([]byte, 64<<10), make([]byte, 64<<10)
	for at := 0; at < size; at += len(buf) {
		_, err := io.ReadFull(r, buf)
		require.NoError(t, err)
		_, err = io.ReadFull(want, buf2)
		require.NoError(t, err)
		require.Equal(t, buf, buf2, "after %d", at)
	}
}
