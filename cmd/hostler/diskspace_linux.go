package main

import (
	"fmt"
	"syscall"

	"github.com/hostler/hostler/doctor"
)

// diskSpace returns the size and the free space of the disk with a directory,
// without the blocks that are reserved for root.
func diskSpace(dir string) (doctor.Disk, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return doctor.Disk{Path: dir}, fmt.Errorf("get the free space of %s: %w", dir, err)
	}
	block := uint64(s.Bsize) //nolint:gosec // it is not negative
	return doctor.Disk{Path: dir, Total: s.Blocks * block, Free: s.Bavail * block}, nil
}
