package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/hostler/hostler/runtime"
	"golang.org/x/sys/unix"
)

// clockGranularity is longer than the clock that files are stamped with stands still.
const clockGranularity = 20 * time.Millisecond

// errUnreliableCtime says that a filesystem does not do what the comparison rests on.
var errUnreliableCtime = fmt.Errorf("%w: its root filesystem does not note when a file is changed; make it read-only", runtime.ErrWipeUnverified)

// probeTimestamps reports why the root filesystem's files cannot be compared by the times
// of their last change: temporary filesystems, for example, let a process write
// through a mapping that it has read from without noting it. It also lets the
// clock go on, so that no change after the baseline bears the time of one before.
func (s *supervisor) probeTimestamps() error {
	<-time.After(clockGranularity)
	writable, err := isRootWritable()
	if err != nil || s.config.HostProcess || !writable {
		return err
	}
	return probeIn("/")
}

func isRootWritable() (bool, error) {
	all, err := mounts()
	if err != nil {
		return false, err
	}
	writable := false
	for _, m := range all {
		if m.path == "/" {
			writable = m.writable
		}
	}
	return writable, nil
}

// probeIn makes a file, changes it in ways that a kernel may fail to note, and
// removes it.
func probeIn(dir string) error {
	path := filepath.Join(dir, ".hostler-"+rand.Text())
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if errors.Is(err, os.ErrPermission) || errors.Is(err, unix.EROFS) {
		return nil // nor can a tenant, who is the same user or a lesser one
	}
	if err != nil {
		return fmt.Errorf("%w: %w", runtime.ErrWipeUnverified, err)
	}
	defer f.Close()
	defer os.Remove(path)
	if _, err := f.Write(make([]byte, os.Getpagesize())); err != nil {
		return fmt.Errorf("%w: %w", runtime.ErrWipeUnverified, err)
	}
	changes := []func(*os.File) error{writeMapped, setXattr}
	for _, change := range changes {
		noted, err := updatesCtime(f, change)
		if err != nil {
			return fmt.Errorf("%w: try a change on its root filesystem: %w", runtime.ErrWipeUnverified, err)
		}
		if !noted {
			return errUnreliableCtime
		}
	}
	return nil
}

// updatesCtime reports whether a change of a file changes the time of its last change.
func updatesCtime(f *os.File, change func(*os.File) error) (bool, error) {
	var before, after unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &before); err != nil {
		return false, err
	}
	<-time.After(clockGranularity)
	err := change(f)
	if errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.ENODEV) {
		return true, nil // what cannot be done need not be noted
	}
	if err != nil {
		return false, err
	}
	err = unix.Fstat(int(f.Fd()), &after)
	return before.Ctim != after.Ctim, err
}

// writeMapped writes through a mapping that was read from before.
func writeMapped(f *os.File) error {
	mapped, err := unix.Mmap(int(f.Fd()), 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	next := mapped[0] + 1
	mapped[next] = next
	return unix.Munmap(mapped)
}

func setXattr(f *os.File) error {
	return unix.Fsetxattr(int(f.Fd()), "user.hostler", []byte("x"), 0)
}
