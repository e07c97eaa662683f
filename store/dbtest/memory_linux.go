package dbtest

import "syscall"

const (
	// memoryDir is a filesystem in memory, if the machine has one.
	memoryDir = "/dev/shm"
	tmpfs     = 0x01021994 // the type of such a filesystem
	// minFree is much more than the databases of all packages that are tested at
	// once. A container may have a filesystem of 64 MiB there.
	minFree = 1 << 30
)

// parent returns the directory for those of the tests: where a sync is free, or the
// default one. It takes 8 CPU seconds to test package claim on a disk, and 4 in
// memory; on a busy disk, minutes.
func parent() string {
	var fs syscall.Statfs_t
	if syscall.Statfs(memoryDir, &fs) != nil || fs.Type != tmpfs || fs.Bavail*uint64(fs.Bsize) < minFree { //nolint:gosec // a size
		return ""
	}
	return memoryDir
}
