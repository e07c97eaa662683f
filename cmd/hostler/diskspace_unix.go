//go:build linux || darwin

package main

import (
	"fmt"
	"syscall"

	"github.com/hostler/hostler/doctor"
)

// diskSpace is how much room the disk with a folder has, for programs without
// special rights.
func diskSpace(dir string) (doctor.Disk, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return doctor.Disk{Path: dir}, fmt.Errorf("ask for the space on the disk with %s: %w", dir, err)
	}
	block := uint64(s.Bsize) //nolint:gosec // it is no negative number
	return doctor.Disk{Path: dir, Total: s.Blocks * block, Free: s.Bavail * block}, nil
}
