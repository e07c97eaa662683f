package benchmarks

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
)

// BenchmarkStateScale measures states with many files, with a sparse file and with
// a large one: the times, the memory of the server and of the processes of the
// shim, and what is in the sink. HOSTLER_BENCH_STATE_SCALE_FILES, _SPARSE_GIB and
// _LARGE_MIB are the sizes. It ignores b.N: run it with -benchtime 1x.
func BenchmarkStateScale(b *testing.B) {
	files := benchNumber(b, "HOSTLER_BENCH_STATE_SCALE_FILES", 100_000)
	sparse := benchNumber(b, "HOSTLER_BENCH_STATE_SPARSE_GIB", 20)
	large := benchNumber(b, "HOSTLER_BENCH_STATE_LARGE_MIB", 2048)
	for _, s := range []stateShape{
		newManyFiles(files),
		newLargeFile("sparse", fmt.Sprintf("one file of %d GiB with 64 MiB of data", sparse), int64(sparse)<<30, 64),
		newLargeFile("large", fmt.Sprintf("one file of %d MiB", large), int64(large)<<20, large),
	} {
		b.Run(s.name, func(b *testing.B) {
			for _, kind := range []string{"dir", "s3"} {
				b.Run(kind, func(b *testing.B) { s.bench(b, kind) })
			}
		})
	}
}

// stateShape is a data set, and a small change of it.
type stateShape struct {
	name, text     string
	create, change func(b *testing.B, dir string)
}

// newManyFiles is files of 4 KiB in 1,000 directories. The change rewrites one
// in a thousand.
func newManyFiles(files int) stateShape {
	sizes := make([]int, files)
	for i := range sizes {
		sizes[i] = 4096
	}
	all := &stateFiles{sizes: sizes, generations: make([]int, files), perDirectory: max(files/1000, 1)}
	return stateShape{
		name: "million",
		text: fmt.Sprintf("%d files of 4 KiB, of which one in a thousand changes", files),
		create: func(b *testing.B, dir string) {
			clear(all.generations)
			all.dir = dir
			all.create(b)
		},
		change: func(b *testing.B, _ string) { all.rewrite(b, 1000) },
	}
}

// newLargeFile is one file with parts of 1 MiB of data at equal distances. The
// change rewrites the part in the middle.
func newLargeFile(name, text string, size int64, parts int) stateShape {
	write := func(b *testing.B, dir string, part int, seed byte) {
		f, err := os.OpenFile(filepath.Join(dir, "file"), os.O_WRONLY|os.O_CREATE, 0o644)
		require.NoError(b, err)
		defer f.Close()
		data := make([]byte, 1<<20)
		_, _ = rand.NewChaCha8([32]byte{seed, byte(part), byte(part >> 8)}).Read(data) // it never fails
		_, err = f.WriteAt(data, size/int64(parts)*int64(part))
		require.NoError(b, err)
	}
	return stateShape{
		name: name,
		text: text + ", of which 1 MiB in the middle changes",
		create: func(b *testing.B, dir string) {
			for part := range parts {
				write(b, dir, part, 1)
			}
			require.NoError(b, os.Truncate(filepath.Join(dir, "file"), size))
			ownAsDirectory(b, dir)
		},
		change: func(b *testing.B, dir string) { write(b, dir, parts/2, 2) },
	}
}

// bench measures one shape on one sink.
func (s stateShape) bench(b *testing.B, kind string) {
	b.Helper()
	sink, requests := newStateSink(b, kind), new(atomic.Int64)
	if sink.endpoint != "" {
		sink.endpoint = countRequests(b, sink.endpoint, requests)
	}
	build := stateBuilds(b)[0]
	t := newStateTenant(b, startStateServer(b, build[0], build[1], sink))
	s.create(b, t.dir)
	load := loadAverage(b)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "row\tms\ttransfer ms\tserver MB\tshim MB\tobjects\tstored MiB\trequests\t")
	row := func(name string, do func() time.Duration) {
		requests.Store(0)
		var took time.Duration
		server, shim := t.watchMemory(b, func() { took = do() })
		calls := requests.Load()
		objects, size := storedIn(b, t.stored())
		fmt.Fprintf(w, "%s\t%.0f\t%.0f\t%.0f\t%.0f\t%d\t%.1f\t%d\t\n", name, ms(took), ms(t.synced), server, shim, objects, float64(size)/(1<<20), calls)
	}
	release := func() time.Duration { return t.release(b) }
	row("first upload", release)
	t.take(b, client.SourceAffinity)
	row("nothing changed", release)
	t.take(b, client.SourceAffinity)
	s.change(b, t.dir)
	row("changed", release)
	row("download into a new container", func() time.Duration { return t.moveToNew(b) })
	t.end(b)
	fmt.Printf("\nState, %s: %s, %s backend; load average before %s, after %s\n", kind, s.text, stateBackend(), load, loadAverage(b))
	require.NoError(b, w.Flush())
}

// countRequests returns the address of a proxy to an S3 server.
func countRequests(b *testing.B, endpoint string, requests *atomic.Int64) string {
	b.Helper()
	to, err := url.Parse(endpoint)
	require.NoError(b, err)
	forward := httputil.NewSingleHostReverseProxy(to)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		forward.ServeHTTP(w, r)
	}))
	b.Cleanup(proxy.Close)
	return proxy.URL
}
