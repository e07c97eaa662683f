package snapshot_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkLarge transfers 1 GiB, half of which compresses, and compares with
// tar and zstd on the same files in the same run.
func BenchmarkLarge(b *testing.B) {
	m := newProcessHarness(b)
	id, dir := m.container()
	const files, size = 64, 16 << 20
	text, junk := make([]byte, size), []byte(incompressible(size))
	for i := range text {
		text[i] = "the quick brown fox jumps over the lazy dog\n"[(i+i/1000)%44]
	}
	for i := range files {
		body := text
		if i%2 == 0 {
			junk[0], junk[size/2] = byte(i), byte(i)
			body = junk
		}
		require.NoError(b, os.WriteFile(filepath.Join(dir, fmt.Sprint("f", i)), body, 0o600))
	}
	byHand := filepath.Join(m.dir, "by-hand.tar.zst")
	b.Run("upload", func(b *testing.B) {
		var peak uint64
		b.SetBytes(files * size)
		for i := range b.N {
			b.StopTimer()
			require.NoError(b, os.WriteFile(filepath.Join(dir, "changed"), fmt.Append(nil, i), 0o600))
			b.StartTimer()
			peak = max(peak, watchHeap(b, func() { require.False(b, m.upload(id).Unchanged) }))
		}
		b.ReportMetric(float64(peak)/(1<<20), "MiB-heap")
	})
	b.Run("upload-first", func(b *testing.B) {
		b.SetBytes(files * size)
		for range b.N {
			b.StopTimer()
			require.NoError(b, os.RemoveAll(filepath.Join(m.dir, "state", "tenants")))
			b.StartTimer()
			m.upload(id)
		}
	})
	b.Run("upload-unchanged", func(b *testing.B) {
		b.SetBytes(files * size)
		for range b.N {
			require.True(b, m.upload(id).Unchanged)
		}
	})
	b.Run("tar-zstd-and-sync", func(b *testing.B) {
		b.SetBytes(files * size)
		for range b.N {
			tarByHand(b, fmt.Sprintf("set -e; tar -C %s -cf - . | zstd -q -3 -f -o %s; sync %s", dir, byHand, byHand))
		}
	})
	b.Run("download", func(b *testing.B) {
		var peak uint64
		b.SetBytes(files * size)
		for range b.N {
			b.StopTimer()
			to, _ := m.container()
			b.StartTimer()
			peak = max(peak, watchHeap(b, func() { m.download(to) }))
			b.StopTimer()
			require.NoError(b, m.rt.Destroy(b.Context(), to))
		}
		b.ReportMetric(float64(peak)/(1<<20), "MiB-heap")
	})
	b.Run("zstd-and-untar", func(b *testing.B) {
		b.SetBytes(files * size)
		for range b.N {
			to := b.TempDir()
			tarByHand(b, fmt.Sprintf("zstd -q -dc %s | tar -C %s -xf -", byHand, to))
			b.StopTimer()
			require.NoError(b, os.RemoveAll(to))
			b.StartTimer()
		}
	})
}

func tarByHand(b *testing.B, line string) {
	b.Helper()
	if _, err := exec.LookPath("zstd"); err != nil {
		b.Skip("there is no zstd on this machine")
	}
	out, err := exec.CommandContext(b.Context(), "sh", "-c", line).CombinedOutput()
	require.NoError(b, err, "%s", out)
}

// BenchmarkSmallFiles transfers 100,000 files of 100 bytes.
func BenchmarkSmallFiles(b *testing.B) {
	m := newProcessHarness(b)
	id, dir := m.container()
	const files = 100_000
	for i := range files {
		if i%1000 == 0 {
			require.NoError(b, os.Mkdir(filepath.Join(dir, fmt.Sprint(i/1000)), 0o755))
		}
		require.NoError(b, os.WriteFile(filepath.Join(dir, fmt.Sprint(i/1000), fmt.Sprint(i)), fmt.Appendf(nil, "%0100d", i), 0o600))
	}
	b.Run("upload", func(b *testing.B) {
		var peak uint64
		for i := range b.N {
			b.StopTimer()
			require.NoError(b, os.WriteFile(filepath.Join(dir, "changed"), fmt.Append(nil, i), 0o600))
			b.StartTimer()
			peak = max(peak, watchHeap(b, func() { m.upload(id) }))
		}
		b.ReportMetric(float64(peak)/(1<<20), "MiB-heap")
	})
	b.Run("tar-zstd-and-sync", func(b *testing.B) {
		byHand := filepath.Join(m.dir, "small.tar.zst")
		for range b.N {
			tarByHand(b, fmt.Sprintf("set -e; tar -C %s -cf - . | zstd -q -3 -f -o %s; sync %s", dir, byHand, byHand))
		}
	})
	b.Run("download", func(b *testing.B) {
		for range b.N {
			b.StopTimer()
			to, _ := m.container()
			b.StartTimer()
			m.download(to)
			b.StopTimer()
			require.NoError(b, m.rt.Destroy(b.Context(), to))
			b.StartTimer()
		}
	})
}

// BenchmarkTiny transfers a few files, as most tenants have.
func BenchmarkTiny(b *testing.B) {
	h := newHarness(b, "")
	c := h.container(reg("config.json", "{}"), dir("sessions"), reg("sessions/1", incompressible(10_000)))
	b.Run("upload", func(b *testing.B) {
		for i := range b.N {
			h.put(c, "/data", reg("config.json", fmt.Sprint(i)))
			h.upload(c)
		}
	})
	b.Run("upload-unchanged", func(b *testing.B) {
		for range b.N {
			h.upload(c)
		}
	})
	b.Run("download", func(b *testing.B) {
		for range b.N {
			h.download()
		}
	})
}
