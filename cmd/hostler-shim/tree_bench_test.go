package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/hostler/hostler/runtime/tree"
	"github.com/stretchr/testify/require"
)

// BenchmarkScan compares listing 5,000 unchanged files, and reading them, with
// packing them.
func BenchmarkScan(b *testing.B) {
	dir := b.TempDir()
	body := make([]byte, 2<<10)
	for i := range 5000 {
		sub := filepath.Join(dir, fmt.Sprintf("packages/p%02d/lib", i/100))
		require.NoError(b, os.MkdirAll(sub, 0o755))
		require.NoError(b, os.WriteFile(filepath.Join(sub, fmt.Sprintf("f%d.js", i)), body[:i%len(body)], 0o644))
	}
	b.Run("unchanged", func(b *testing.B) {
		for b.Loop() {
			require.Len(b, scanAll(b, dir, scanOf{}).entries, 5000+101)
		}
	})
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			scanAll(b, dir, scanOf{reads: readsAll})
		}
	})
	b.Run("tar", func(b *testing.B) {
		for b.Loop() {
			packDir(b, dir)
		}
	})
}

// BenchmarkWriteTree compares writing many small files with unpacking them.
func BenchmarkWriteTree(b *testing.B) {
	from := manyFiles(b)
	archive := filepath.Join(b.TempDir(), "archive")
	require.NoError(b, os.WriteFile(archive, packDir(b, from), 0o600))
	all := scanAll(b, from, scanOf{reads: readsAll})
	cases := map[string]func(dir string){
		"ours": func(dir string) {
			w := newWriteTest(b, dir)
			for _, e := range all.entries {
				require.NoError(b, w.Create(e))
				if e.Kind == tree.File {
					_, err := w.Write([]byte(all.content[e.Path]))
					require.NoError(b, err)
				}
			}
			require.NoError(b, w.close())
		},
		"untar": func(dir string) {
			f, err := os.Open(archive)
			require.NoError(b, err)
			defer f.Close()
			require.NoError(b, unpackInto(b, dir, f))
		},
	}
	for name, write := range cases {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				dir := filepath.Join(b.TempDir(), "dir")
				require.NoError(b, os.Mkdir(dir, 0o755))
				b.StartTimer()
				write(dir)
				b.StopTimer()
				require.NoError(b, os.RemoveAll(dir))
				b.StartTimer()
			}
		})
	}
}
