package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/hostler/hostler/runtime/shim"
)

// mount is one line of /proc/self/mountinfo.
type mount struct {
	path     string
	fsType   string // the filesystem's type
	writable bool
}

// kernelFilesystems are filesystems that expose kernel state and hold no files.
// hugetlbfs, which holds files in large pages, is not one of them.
var kernelFilesystems = []string{
	"proc", "sysfs", "cgroup", "cgroup2", "devpts", "securityfs", "debugfs", "tracefs",
	"bpf", "pstore", "configfs", "fusectl", "binfmt_misc", "nsfs", "efivarfs",
}

// allowedKernelFilesystems are those that engines mount writable. What can be
// left there is compared separately, or ends with its processes.
var allowedKernelFilesystems = []string{"proc", "sysfs", "devpts", "nsfs"}

// mounts returns all mounts that this process can see.
func mounts() ([]mount, error) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	var found []mount
	for line := range strings.Lines(string(b)) {
		m, ok := parseMount(line)
		if !ok {
			return nil, fmt.Errorf("list mounts: malformed line %q", line)
		}
		found = append(found, m)
	}
	return found, nil
}

// writableMounts returns the mounts on which a tenant may have left files. It
// excludes the root, which is compared file by file, the kernel's mounts and
// the shim's.
func writableMounts() ([]mount, error) {
	all, err := mounts()
	return slices.DeleteFunc(all, func(m mount) bool { return !m.holdsFiles() }), err
}

func (m mount) holdsFiles() bool {
	return m.writable && m.path != "/" && !slices.Contains(kernelFilesystems, m.fsType) && !isExcludedMount(m.path)
}

// holdsKernelObjects reports whether a tenant can create kernel objects on the
// mount, such as cgroups or pinned BPF programs. Nothing here lists or removes
// them.
func (m mount) holdsKernelObjects() bool {
	return m.writable && slices.Contains(kernelFilesystems, m.fsType) && !slices.Contains(allowedKernelFilesystems, m.fsType)
}

// isExcludedMount reports whether a path belongs to the shim's own mounts, or
// to those by which engines mask parts of /proc and /sys.
func isExcludedMount(path string) bool {
	return isUnder(path, shim.Mount) || isUnder(path, "/proc") || isUnder(path, "/sys")
}

// isUnder reports whether path is dir or below it.
func isUnder(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// parseMount parses a line such as "36 35 98:0 /sub /path rw,noatime tags -
// type source rw".
func parseMount(line string) (mount, bool) {
	before, after, ok := strings.Cut(line, " - ")
	head, tail := strings.Fields(before), strings.Fields(after)
	if !ok || len(head) < 6 || len(tail) < 1 {
		return mount{}, false
	}
	super := ""
	if len(tail) > 2 {
		super = tail[2]
	}
	return mount{
		path:     unescape(head[4]),
		fsType:   tail[0],
		writable: hasOption(head[5], "rw") && !hasOption(super, "ro"),
	}, true
}

func hasOption(options, name string) bool {
	return slices.Contains(strings.Split(options, ","), name)
}

// unescape replaces the kernel's escapes, such as "\040" for a space.
func unescape(path string) string {
	var out strings.Builder
	for i := 0; i < len(path); i++ {
		if path[i] == '\\' && i+4 <= len(path) {
			if n, err := strconv.ParseUint(path[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		out.WriteByte(path[i])
	}
	return out.String()
}
