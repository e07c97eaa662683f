package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/hostler/hostler/runtime/shim"
	"golang.org/x/sys/unix"
)

// tenantRunDir is the shim's own directory where init has the tenant's user, so
// that the tenant can write to it. A wipe replaces init's files there by new ones
// and removes all others. They outlive init, so none is ever missing.
type tenantRunDir struct {
	target wipeTarget
	files  []string // names of init's files
}

// newTenantRunDir looks at a directory with init's files.
func newTenantRunDir(dir string, config shim.Config) (*tenantRunDir, error) {
	target, err := newWipeTarget(dir, nil)
	if err != nil {
		return nil, err
	}
	d := &tenantRunDir{target: target}
	for _, path := range []string{config.FenceFile, config.StartedMarker} {
		if filepath.Dir(path) == dir {
			d.files = append(d.files, filepath.Base(path))
			d.target.keepNames[filepath.Base(path)] = true
		}
	}
	return d, nil
}

// readTenantRunDir returns nil if no tenant can write to the directory, or all
// files are compared anyway.
func (s *supervisor) readTenantRunDir() (*tenantRunDir, error) {
	if s.config.HostProcess || os.Geteuid() == shim.UID {
		return nil, nil
	}
	return newTenantRunDir(shim.RunDir, s.config)
}

// wipe restores the directory and writes init's files again, with this fence.
func (d *tenantRunDir) wipe(fence int64, deadline time.Time) error {
	if err := d.target.wipe(deadline); err != nil {
		return err
	}
	for _, name := range d.files {
		var content []byte
		if name == shim.FenceFileName {
			content = fenceText(fence)
		}
		if err := writeDurably(filepath.Join(d.target.path, name), content); err != nil {
			return err
		}
	}
	fd, err := d.target.dir.openSame(unix.AT_FDCWD, d.target.path)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return d.target.dir.restoreTimes(fd)
}

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
