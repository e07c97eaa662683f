package main

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The garbage collector's limit is nine tenths of the memory of the lowest control
// group around the server, of either version, unless there is none or the limit of the
// environment is lower.
func TestLimitMemory(t *testing.T) {
	const v1, v2 = "sys/fs/cgroup/memory", "sys/fs/cgroup"
	for name, test := range map[string]struct {
		groups string // of the process
		files  map[string]string
		want   int64
	}{
		"none":               {"", map[string]string{}, 0},
		"container, v2":      {"0::/\n", map[string]string{v2 + "/memory.max": "536870912\n"}, 483183819},
		"no limit, v2":       {"0::/\n", map[string]string{v2 + "/memory.max": "max\n"}, 0},
		"empty":              {"0::/\n", map[string]string{v2 + "/memory.max": ""}, 0},
		"negative":           {"0::/\n", map[string]string{v2 + "/memory.max": "-1"}, 0},
		"service, v2":        {"0::/a/b\n", map[string]string{v2 + "/a/b/memory.max": "2000\n", v2 + "/a/memory.max": "1000\n"}, 900},
		"service, v1":        {"4:cpu:/x\n3:hugetlb,memory:/a\n", map[string]string{v1 + "/a/memory.limit_in_bytes": "1000\n"}, 900},
		"no limit, v1":       {"3:memory:/a\n", map[string]string{v1 + "/a/memory.limit_in_bytes": "9223372036854771712\n"}, 0},
		"container, v1":      {"3:memory:/docker/5f\n", map[string]string{v1 + "/memory.limit_in_bytes": "1000\n"}, 900},
		"both, v1 has limit": {"3:memory:/a\n0::/b\n", map[string]string{v1 + "/a/memory.limit_in_bytes": "1000\n", v2 + "/b/memory.max": "max\n"}, 900},
		"outside its group":  {"3:memory:/../../a\n", map[string]string{v1 + "/memory.limit_in_bytes": "1000\n"}, 900},
	} {
		root := t.TempDir()
		test.files["proc/self/cgroup"] = test.groups
		for file, text := range test.files {
			require.NoError(t, os.MkdirAll(filepath.Join(root, filepath.Dir(file)), 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(root, file), []byte(text), 0o600))
		}
		for _, environment := range []int64{math.MaxInt64, 800, 1} {
			limit := environment
			limitMemory(root, func(n int64) int64 {
				if n >= 0 {
					limit = n
				}
				return limit
			})
			want := environment
			if test.want > 0 {
				want = min(want, test.want)
			}
			require.InDelta(t, want, limit, 10, name)
		}
	}
}
