//go:build !linux && !darwin

package main

import (
	"math"

	"github.com/hostler/hostler/doctor"
)

// diskSpace reports unlimited space: the free space is unknown on this system.
func diskSpace(dir string) (doctor.Disk, error) {
	return doctor.Disk{Path: dir, Free: math.MaxInt64}, nil
}
