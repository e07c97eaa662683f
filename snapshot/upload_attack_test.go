package snapshot_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime/tree"
	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/snapshot/snapshottest"
	"github.com/hostler/hostler/workload"
)

// A container cannot make a state many times as large as its files by sending holes
// that are smaller than those of any filesystem.
func TestShortHoles(t *testing.T) {
	t.Parallel()
	sink, c := sinkOf(snapshottest.NewMemory(), workload.ModeSync), &contents{}
	data := incompressible(100_000)
	var list []extent
	for at := 0; at < len(data); at += 5 {
		list = append(list, extent{data: data[at : at+5]}, extent{hole: 1})
	}
	large := slices.Concat(pieces(incompressible(1<<20)), list)
	c.set("large", large...)
	c.set("small", list[:10_000]...)
	up := c.upload(t, sink)
	require.Equal(t, int64(1<<20+len(list)*3+30_000), up.Bytes)
	require.Less(t, up.Snapshot.StoredBytes(), up.Bytes+up.Bytes/10)
	require.True(t, c.upload(t, sink).Unchanged)
	c.set("small", extent{data: strings.Repeat("x", 10)}, extent{hole: 511}, extent{data: "y"}, extent{hole: 512}, extent{hole: 3})
	require.Equal(t, int64(1<<20+len(list)*3+10+511+1+515), c.upload(t, sink).Bytes)
}

// A file that comes byte by byte, as data or as holes, is slow, however often something
// comes. Small files are not.
func TestTinyExtentsAreSlow(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		each   extent
		files  int
		bytes  int // that come for more than a minute
		pause  time.Duration
		isSlow bool
	}{
		"data":  {each: extent{data: "x"}, files: 1, bytes: 18_000, pause: 3500 * time.Microsecond, isSlow: true},
		"holes": {each: extent{hole: 1}, files: 1, bytes: 18_000, pause: 3500 * time.Microsecond, isSlow: true},
		"files": {each: extent{data: "x"}, files: 6500, bytes: 6500, pause: 10 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			files := scanFunc(func(context.Context, string) tree.Scan {
				s := scanOf()
				s.n = test.files
				s.entry = func(i int) tree.Entry { return entry(fmt.Sprintf("%06d", i), tree.File, int64(test.bytes/test.files)) }
				s.content = func(e tree.Entry) tree.Content {
					return &pausedContent{pause: test.pause, each: test.each, left: int(e.Size)}
				}
				return s
			})
			_, err := sinkFor("**").Upload(t.Context(), files, origin("w", "mallory"))
			if test.isSlow {
				require.ErrorContains(t, err, "less than 64 KiB a second", what)
				return
			}
			require.NoError(t, err, what)
		})
	}
}

// pausedContent pauses before each of its extents.
type pausedContent struct {
	pause time.Duration
	each  extent
	left  int
}

// Next implements tree.Content.
func (c *pausedContent) Next() ([]byte, int64, error) {
	if c.left == 0 {
		return nil, 0, io.EOF
	}
	<-time.After(c.pause)
	c.left--
	return []byte(c.each.data), c.each.hole, nil
}

// What links lead to counts as content: a container could otherwise store 4 KiB for
// each of max_files links.
func TestTargetsOfLinksCount(t *testing.T) {
	t.Parallel()
	for _, mode := range []workload.Mode{workload.ModeSync, workload.ModeCopy} {
		sink := snapshot.New(snapshottest.NewMemory(), &workload.Sync{
			Sink: workload.Sink{Prefix: "t/${tenantId}/"}, Keep: 3, MaxSize: 100 << 10, MaxFiles: 1000,
			Mappings: []workload.Mapping{{Path: "/data", Pattern: "**", Direction: workload.Bidirectional, Mode: mode}},
		})
		upload := func(prefix string, n int) error {
			entries := []tree.Entry{{Path: "a", Kind: tree.Dir, Mode: 0o755}}
			for i := range n {
				entries = append(entries, tree.Entry{Path: fmt.Sprintf("%s%03d", prefix, i), Kind: tree.Link, Target: strings.Repeat("x", 4<<10)})
			}
			files := scanFunc(func(context.Context, string) tree.Scan { return scanOf(entries...) })
			_, err := sink.Upload(t.Context(), files, origin("w", "mallory"))
			return err
		}
		require.NoError(t, upload("b", 25), "exactly its limit")
		require.ErrorIs(t, upload("b", 26), snapshot.ErrTooLarge)
		if mode == workload.ModeCopy {
			require.ErrorIs(t, upload("c", 1), snapshot.ErrTooLarge, "with those that stay")
		}
	}
}
