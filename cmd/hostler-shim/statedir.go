package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/hostler/hostler/runtime/shim"
)

// protectStateDir makes the folder of the fence the shim's own and closes it to
// all others, before a workload's process can look into it: an engine makes a
// volume root's.
func protectStateDir(fenceFile string) error {
	dir := filepath.Dir(fenceFile)
	if dir != shim.StateDir {
		return nil
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return fmt.Errorf("close %s: %w", dir, err)
	}
	if err := os.Chown(dir, shim.UID, shim.UID); err != nil {
		return fmt.Errorf("close %s: %w", dir, err)
	}
	return nil
}
