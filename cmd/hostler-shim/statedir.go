package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/hostler/hostler/runtime/shim"
)

// protectStateDir makes the shim's user the owner of the fence's directory and
// closes it to all others, before a workload's process can access it: an engine
// creates a volume owned by root.
func protectStateDir(fenceFile string) error {
	dir := filepath.Dir(fenceFile)
	if dir != shim.StateDir {
		return nil
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return fmt.Errorf("restrict %s: %w", dir, err)
	}
	if err := os.Chown(dir, shim.UID, shim.UID); err != nil {
		return fmt.Errorf("restrict %s: %w", dir, err)
	}
	return nil
}
