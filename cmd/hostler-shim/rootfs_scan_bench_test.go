package main

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkScanCompare measures the cost of a comparison per file.
func BenchmarkScanCompare(b *testing.B) {
	const files = 10_000
	root := b.TempDir()
	for i := range files {
		path := filepath.Join(root, strconv.Itoa(i/100), strconv.Itoa(i))
		require.NoError(b, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(b, os.WriteFile(path, nil, 0o644))
	}
	trees := []scanRoot{newTree(root, nil)}
	recorded := scanTrees(trees)
	b.ReportAllocs()
	start, rounds := time.Now(), 0
	for b.Loop() {
		require.NoError(b, recorded.compare(trees))
		rounds++
	}
	b.ReportMetric(float64(time.Since(start).Nanoseconds())/float64(rounds*files), "ns/file")
}
