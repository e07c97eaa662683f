package benchmarks

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// stateFiles is a data set in a directory. The same number of files and bytes is
// the same data set on every machine.
type stateFiles struct {
	dir   string
	sizes []int
	// generations of the files: each has its own content.
	generations  []int
	perDirectory int
}

// newStateFiles plans a data set whose sizes are spread evenly over eleven
// powers of two.
func newStateFiles(dir string, files, total int) *stateFiles {
	s := &stateFiles{dir: dir, sizes: make([]int, files), generations: make([]int, files), perDirectory: 100}
	random := rand.New(rand.NewPCG(1, 2))
	weights, sum := make([]float64, files), 0.0
	for i := range weights {
		weights[i] = math.Exp2(11 * random.Float64())
		sum += weights[i]
	}
	left := total
	for i := range s.sizes {
		s.sizes[i] = min(left, int(float64(total)*weights[i]/sum))
		left -= s.sizes[i]
	}
	s.sizes[files-1] += left
	return s
}

func (s *stateFiles) path(i int) string {
	return filepath.Join(s.dir, fmt.Sprintf("d%04d", i/s.perDirectory), fmt.Sprintf("f%06d", i))
}

// create writes all files.
func (s *stateFiles) create(b *testing.B) {
	b.Helper()
	for i := range s.sizes {
		if i%s.perDirectory == 0 {
			require.NoError(b, os.MkdirAll(filepath.Dir(s.path(i)), 0o755))
		}
		require.NoError(b, os.WriteFile(s.path(i), s.content(i), 0o644))
	}
	ownAsDirectory(b, s.dir)
	syscall.Sync()
}

// rewrite gives every step-th file new content of the same size.
func (s *stateFiles) rewrite(b *testing.B, step int) {
	b.Helper()
	for i := 0; i < len(s.sizes); i += step {
		s.generations[i]++
		require.NoError(b, os.WriteFile(s.path(i), s.content(i), 0o644))
	}
}

// verify compares the files of a directory with what they should be.
func (s *stateFiles) verify(b *testing.B, dir string) {
	b.Helper()
	as := *s
	as.dir = dir
	for i := range as.sizes {
		got, err := os.ReadFile(as.path(i))
		require.NoError(b, err)
		require.True(b, bytes.Equal(as.content(i), got), "%s is not what it was", as.path(i))
	}
}

// content returns the content of a file. Files with an even number do not
// compress; the others compress to about a sixth.
func (s *stateFiles) content(i int) []byte {
	seed := [32]byte{byte(i), byte(i >> 8), byte(i >> 16), byte(s.generations[i]), byte(s.generations[i] >> 8)}
	random := rand.NewChaCha8(seed)
	out := make([]byte, s.sizes[i])
	if i%2 == 0 {
		_, _ = random.Read(out) // it never fails
		return out
	}
	const line = "0123456789abcdef the quick brown fox jumps over the lazy dogs.\n"
	var number [8]byte
	for at := 0; at < len(out); at += len(line) {
		if copy(out[at:], line) == len(line) {
			_, _ = random.Read(number[:])
			hex.Encode(out[at:], number[:])
		}
	}
	return out
}

// ownAsDirectory gives all below a directory to its owner: the container's user.
func ownAsDirectory(b *testing.B, dir string) {
	b.Helper()
	info, err := os.Stat(dir)
	require.NoError(b, err)
	owner := info.Sys().(*syscall.Stat_t)
	if owner.Uid == uint32(os.Geteuid()) {
		return
	}
	require.NoError(b, filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(name, int(owner.Uid), int(owner.Gid))
	}))
}

// storedIn returns the number and the size of the files below a directory.
func storedIn(b *testing.B, dir string) (files int, size int64) {
	b.Helper()
	require.NoError(b, filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		files, size = files+1, size+info.Size()
		return err
	}))
	return files, size
}

// benchNumber returns the value of an environment variable, or a default.
func benchNumber(b *testing.B, name string, otherwise int) int {
	b.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	require.NoError(b, err, name)
	return n
}

// benchDirectory returns a directory that the users of containers can traverse.
// It is removed after the cleanups that are registered later.
func benchDirectory(b *testing.B) string {
	b.Helper()
	dir, err := os.MkdirTemp("", "hostler-bench-")
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, os.RemoveAll(dir)) })
	require.NoError(b, os.Chmod(dir, 0o711))
	return dir
}

// clone returns a copy whose generations are its own.
func (s *stateFiles) clone() *stateFiles {
	as := *s
	as.generations = slices.Clone(s.generations)
	return &as
}
