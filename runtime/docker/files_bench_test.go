package docker_test

import (
	"archive/tar"
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
)

// BenchmarkFiles saves and restores a large file and many small ones. The CPU time
// of the container is the cost on a machine that has other load.
func BenchmarkFiles(b *testing.B) {
	large := make([]byte, 256<<20)
	_, _ = rand.Read(large) // it never fails
	for _, c := range []struct {
		name    string
		archive []byte
	}{
		{"256MiB", tarball(b, 1, large)},
		{"10000files", tarball(b, 10_000, large[:2<<10])},
	} {
		b.Run(c.name, func(b *testing.B) { benchmarkFiles(b, c.archive) })
	}
}

func benchmarkFiles(b *testing.B, archive []byte) {
	rt := openRuntime(b)
	id := startContainer(b, rt, func(s *runtime.Spec) { s.Limits.Memory = 1 << 30 })
	var restore, save []time.Duration
	before := processorTime(b, id)
	for b.Loop() {
		start := time.Now()
		require.NoError(b, rt.CopyIn(b.Context(), id, "/data", 0, bytes.NewReader(archive)))
		restore = append(restore, time.Since(start))
		start = time.Now()
		from, err := rt.CopyOut(b.Context(), id, "/data")
		require.NoError(b, err)
		_, err = io.Copy(io.Discard, from)
		require.NoError(b, err)
		require.NoError(b, from.Close())
		save = append(save, time.Since(start))
	}
	b.ReportMetric((processorTime(b, id)-before).Seconds()*1000/float64(b.N), "container-cpu-ms/op")
	b.ReportMetric(median(restore)*1000, "restore-p50-ms")
	b.ReportMetric(median(save)*1000, "save-p50-ms")
}

// processorTime returns the CPU time that a container's processes have used.
func processorTime(b *testing.B, id string) time.Duration {
	b.Helper()
	r, err := needEngine(b).ContainerStatsOneShot(b.Context(), "hostler-"+id)
	require.NoError(b, err)
	defer r.Body.Close()
	var stats container.StatsResponse
	require.NoError(b, json.NewDecoder(r.Body).Decode(&stats))
	return time.Duration(stats.CPUStats.CPUUsage.TotalUsage)
}

// tarball returns an archive of files with the same content.
func tarball(b *testing.B, files int, content []byte) []byte {
	b.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for n := range files {
		h := &tar.Header{Name: fmt.Sprintf("d%d/f%d", n/100, n), Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(content))}
		require.NoError(b, w.WriteHeader(h))
		_, err := w.Write(content)
		require.NoError(b, err)
	}
	require.NoError(b, w.Close())
	return out.Bytes()
}
