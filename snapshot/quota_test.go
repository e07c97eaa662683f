package snapshot_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	goruntime "runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/runtime/tree"
	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/snapshot/snapshottest"
	"github.com/hostler/hostler/workload"
)

// The number of concurrent uploads of large states is bounded by memory.
// Another one waits, even longer than the maximum duration of an upload, and
// then has that whole duration. Small ones never wait.
func TestUploadMemoryQuota(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		bucket, open := snapshottest.NewMemory(), make(chan struct{})
		bucket.Before(func(c snapshottest.Call) error {
			if c.Op == "put" && !strings.Contains(c.Key, "/short/") {
				<-open
			}
			return nil
		})
		sink := snapshot.New(bucket, synced(t, ""))
		upload := func(ctx context.Context, tenant string, size int64) error {
			o := snapshot.Origin{Owner: snapshot.Owner{Workload: "w", Tenant: tenant}, Container: tenant, Fence: 1}
			_, err := sink.Upload(ctx, generatedContainer(size), o)
			return err
		}
		const large = snapshot.PeekSize + 100_000
		var first, late errgroup.Group
		for i := range snapshot.MaxConcurrentUploads {
			first.Go(func() error {
				assert.ErrorContains(t, upload(t.Context(), fmt.Sprint("first", i), large), "it took longer than 12h")
				return nil
			})
		}
		synctest.Wait()
		late.Go(func() error { return upload(t.Context(), "late", large) })
		synctest.Wait()
		require.Len(t, bucket.Calls("put"), snapshot.MaxConcurrentUploads)

		require.NoError(t, upload(t.Context(), "short", 10_000))
		require.Less(t, snapshot.MaxConcurrentUploads, len(bucket.Calls("put")))
		short, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errTruncated)
		defer cancel()
		require.ErrorIs(t, upload(short, "impatient", large), errTruncated)

		<-time.After(13 * time.Hour)
		close(open)
		require.NoError(t, first.Wait())
		require.NoError(t, late.Wait())
	})
}

// BenchmarkConcurrentUploads measures the memory of this process for 20
// concurrent uploads of 200 MiB each.
func BenchmarkConcurrentUploads(b *testing.B) {
	const uploads, size = 20, 200 << 20
	run := func(b *testing.B, sinks *snapshot.Sinks, sync *workload.Sync) {
		sink, err := sinks.Open(b.Context(), sync)
		require.NoError(b, err)
		b.SetBytes(uploads * size)
		for range b.N {
			goruntime.GC()
			debug.FreeOSMemory()
			before := peakMemory(b, true)
			var g errgroup.Group
			for i := range uploads {
				owner := snapshot.Owner{Workload: "w", Tenant: fmt.Sprint("t", i)}
				g.Go(func() error {
					_, err := sink.Upload(b.Context(), generatedContainer(size), snapshot.Origin{Owner: owner, Container: owner.Tenant, Fence: 1})
					return err
				})
			}
			require.NoError(b, g.Wait())
			b.ReportMetric(float64(peakMemory(b, false)-before)/(1<<20), "MiB-resident")
		}
	}
	b.Run("file", func(b *testing.B) {
		sinks := snapshot.NewSinks(snapshot.PathPolicy{State: filepath.Join(b.TempDir(), "state")}, nil)
		defer sinks.Close()
		run(b, sinks, synced(b, ""))
	})
	b.Run("s3", func(b *testing.B) {
		s := startS3(b)
		run(b, s.sinks(b), s.sync(b, "{file: right}", ""))
	})
}

// peakMemory returns the peak resident memory of this process since the last
// reset, and resets it on request.
func peakMemory(t testing.TB, reset bool) int64 {
	t.Helper()
	if reset {
		require.NoError(t, os.WriteFile("/proc/self/clear_refs", []byte("5"), 0))
	}
	status, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	kib, err := strconv.ParseInt(string(regexp.MustCompile(`VmHWM:\s+(\d+)`).FindSubmatch(status)[1]), 10, 64)
	require.NoError(t, err)
	return kib << 10
}

// generatedContainer returns a container with one file of the given size, which
// does not compress and needs no memory.
func generatedContainer(size int64) scanFunc {
	return func(ctx context.Context, id string) tree.Scan {
		var seed [32]byte
		copy(seed[:], id)
		s := scanOf(entry("f", tree.File, size))
		s.content = func(tree.Entry) tree.Content {
			return &slowContent{ctx: ctx, noise: rand.NewChaCha8(seed), left: size, part: 64 << 10}
		}
		return s
	}
}
