package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// limitMemory makes the garbage collector keep below nine tenths of the memory of the
// server's container: what ended transfers have left would otherwise end the server
// before it is collected. A lower limit of the environment (GOMEMLIMIT) stays;
// set is debug.SetMemoryLimit.
func limitMemory(root string, set func(int64) int64) {
	if limit := containerMemory(root) / 10 * 9; limit > 0 && limit < set(-1) {
		set(limit)
	}
}

// hierarchies are the versions of control groups: the controller as /proc names it,
// and the file with the limit below where the groups are.
var hierarchies = []struct{ controller, groups, file string }{
	{"", "sys/fs/cgroup", "memory.max"},
	{"memory", "sys/fs/cgroup/memory", "memory.limit_in_bytes"},
}

// noLimit is what the first version has for no limit, or a little less.
const noLimit = 1 << 62

// containerMemory returns the lowest memory limit of the process's control group and
// of those around it, 0 for none. In a container the group at the top is its own.
func containerMemory(root string) (lowest int64) {
	text, _ := os.ReadFile(filepath.Join(root, "proc/self/cgroup")) //nolint:errcheck // without it, the group at the top counts
	for _, h := range hierarchies {
		groups := filepath.Join(root, h.groups)
		for at := groupOf(string(text), h.controller); ; at = filepath.Dir(at) {
			if limit := memoryIn(filepath.Join(groups, at, h.file)); limit > 0 && (lowest == 0 || limit < lowest) {
				lowest = limit
			}
			if at == "/" {
				break
			}
		}
	}
	return lowest
}

// groupOf returns the path of a process's group, from the lines ID:CONTROLLERS:PATH.
func groupOf(text, controller string) string {
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) < 3 {
			continue
		}
		for name := range strings.SplitSeq(parts[1], ",") {
			if name == controller {
				return filepath.Join("/", parts[2])
			}
		}
	}
	return "/"
}

// memoryIn returns the limit in a file, 0 for none.
func memoryIn(file string) int64 {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || limit <= 0 || limit >= noLimit {
		return 0 // "max"
	}
	return limit
}
