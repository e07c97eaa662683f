package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// cgroup is where a container sees its own limits.
const cgroup = "/sys/fs/cgroup"

// limitMemory makes the garbage collector keep below nine tenths of the memory of the
// server's container: what ended transfers have left would otherwise end the server
// before it is collected. It returns the limit, 0 for none. A limit of the
// environment (GOMEMLIMIT) is the operator's choice.
func limitMemory(cgroup string, set func(int64) int64) int64 {
	if _, ok := os.LookupEnv("GOMEMLIMIT"); ok {
		return 0
	}
	text, err := os.ReadFile(filepath.Join(cgroup, "memory.max"))
	if err != nil {
		return 0 // no container, or an old kernel
	}
	limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || limit <= 0 {
		return 0 // "max"
	}
	limit = limit / 10 * 9
	set(limit)
	return limit
}
