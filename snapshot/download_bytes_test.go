package snapshot_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/hostler/hostler/runtime/tree"
	"github.com/hostler/hostler/snapshot/snapshottest"
)

// checkedTree is a container that accepts nothing but the bytes of its files.
type checkedTree struct {
	discarding
	files   map[string]string
	path    string
	offset  int
	wrong   string // the first that was wrong
	written atomic.Int64
	stop    func(written int64)
}

func (c *checkedTree) FillTree(context.Context, string, string, int64, func([]tree.Stamp)) (tree.Writer, error) {
	return c, nil
}

func (c *checkedTree) Create(e tree.Entry) error {
	c.check(c.offset == len(c.files[c.path]))
	c.path, c.offset = e.Path, 0
	return nil
}

func (c *checkedTree) Close() error {
	c.check(c.offset == len(c.files[c.path]))
	return nil
}

func (c *checkedTree) check(ok bool) {
	if !ok && c.wrong == "" {
		c.wrong = fmt.Sprintf("%s at %d", c.path, c.offset)
	}
}

// Write compares twice, and lets the rest of the download work in between: the bytes
// are the container's until it returns.
func (c *checkedTree) Write(data []byte) error {
	want := c.files[c.path][c.offset:]
	for range 2 {
		c.check(len(data) <= len(want) && string(data) == want[:len(data)])
		for range 20 {
			goruntime.Gosched()
		}
	}
	c.offset += len(data)
	if c.stop != nil {
		c.stop(c.written.Add(1))
	}
	return nil
}

// A container gets only the bytes of its own files, verified, while chunks are shared
// by many files and their memory is used again: whatever the bucket has in their place,
// wherever a request fails, and wherever the caller gives up, in downloads at once.
func TestDownloadedBytesAreOwn(t *testing.T) {
	t.Parallel()
	var all sync.WaitGroup
	for tenant := range 2 {
		h := newDownloads(t)
		h.cut, h.once = 90_000, true
		var shared []string
		for i, size := range []int{40_000, 70_000, 90_000, 130_000, 300_000} {
			shared = append(shared, strings.Repeat(fmt.Sprint(tenant, i), 3)+incompressible(size))
		}
		to := checkedTree{files: map[string]string{}}
		var files []stateFile
		for i := range 30 {
			f := fileOf(fmt.Sprintf("%03d", i), shared[i%5]+shared[(i/5)%5]) // repeated
			files, to.files[f.Path] = append(files, f), f.body
		}
		h.store("s1", files)
		all.Go(func() {
			for n := range 9 {
				downloadOwn(t, h, &checkedTree{files: to.files}, n)
			}
		})
	}
	all.Wait()
}

// downloadOwn downloads, and disturbs that in the way with a number.
func downloadOwn(t *testing.T, h *downloads, to *checkedTree, n int) {
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	gone := errors.New("gone")
	var calls atomic.Int64
	var disturbed atomic.Bool
	at := int64(n)
	switch n % 3 {
	case 0: // the caller gives up, or not
		to.stop = func(written int64) {
			if written == at*9+1 && n > 0 {
				disturbed.Store(true)
				cancel(gone)
			}
		}
	case 1: // a request fails
		h.bucket.Before(func(c snapshottest.Call) error {
			if c.Op == "range" && calls.Add(1) > at {
				disturbed.Store(true)
				return snapshottest.ErrInjected
			}
			return nil
		})
	default: // every pack is damaged in one place
		disturbed.Store(true)
		for key, data := range h.bucket.Objects() {
			damaged := bytes.Clone(data)
			damaged[len(data)/13*n] ^= 1
			h.bucket.Set(key, damaged, start)
			defer h.bucket.Set(key, data, start)
		}
	}
	_, err := h.sink.Download(ctx, to, h.to("c"))
	h.bucket.ClearFailures()
	assert.Empty(t, to.wrong, "bytes of something else")
	assert.Equal(t, disturbed.Load(), err != nil, "%d: %v", n, err)
}
