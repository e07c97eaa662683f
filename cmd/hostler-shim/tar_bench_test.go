package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// manyFiles creates a tree like one of installed packages: 20,000 files of up
// to 2 KiB in a thousand directories.
func manyFiles(b *testing.B) string {
	b.Helper()
	dir := b.TempDir()
	body := make([]byte, 2<<10)
	for i := range 20000 {
		sub := filepath.Join(dir, fmt.Sprintf("packages/p%02d/lib/d%d", i/200, i/20%10))
		require.NoError(b, os.MkdirAll(sub, 0o755))
		require.NoError(b, os.WriteFile(filepath.Join(sub, fmt.Sprintf("f%d.js", i)), body[:i%len(body)], 0o644))
	}
	return dir
}

// BenchmarkUnpack compares unpacking many small files with the tar program.
// Only the ratio of the two matters.
func BenchmarkUnpack(b *testing.B) {
	archive := filepath.Join(b.TempDir(), "archive")
	require.NoError(b, os.WriteFile(archive, packDir(b, manyFiles(b)), 0o600))
	cases := map[string]func(dir string, from *os.File) error{
		"ours": func(dir string, from *os.File) error { return unpackInto(b, dir, from) },
		"tar": func(dir string, from *os.File) error {
			c := exec.Command("tar", "-C", dir, "-x")
			c.Stdin = from
			return c.Run()
		},
	}
	for name, unpack := range cases {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				dir := filepath.Join(b.TempDir(), "dir")
				require.NoError(b, os.Mkdir(dir, 0o755))
				from, err := os.Open(archive)
				require.NoError(b, err)
				b.StartTimer()
				require.NoError(b, unpack(dir, from))
				b.StopTimer()
				from.Close()
				require.NoError(b, os.RemoveAll(dir))
				b.StartTimer()
			}
		})
	}
}

// BenchmarkPack compares packing many small files with the tar program.
func BenchmarkPack(b *testing.B) {
	dir := manyFiles(b)
	b.Run("ours", func(b *testing.B) {
		root, err := os.OpenRoot(dir)
		require.NoError(b, err)
		defer root.Close()
		for b.Loop() {
			require.NoError(b, pack(root, io.Discard))
		}
	})
	b.Run("tar", func(b *testing.B) {
		for b.Loop() {
			c := exec.Command("tar", "-C", dir, "-c", ".")
			c.Stdout = struct{ io.Writer }{io.Discard} // not /dev/null, which tar detects
			require.NoError(b, c.Run())
		}
	})
}
