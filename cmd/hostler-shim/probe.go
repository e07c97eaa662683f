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

// clockGranularity is longer than one tick of the clock for file timestamps.
const clockGranularity = 20 * time.Millisecond

// errUnreliableCtime means that a filesystem lacks the property on which the
// comparison is based.
var errUnreliableCtime = fmt.Errorf("%w: the root filesystem does not record every change of a file; make it read-only", runtime.ErrWipeUnverified)

// probeTimestamps returns an error if the files of the root filesystem cannot
// be compared by their change times. For example, on temporary filesystems a
// process can write through a mapping that it has read from without a new
// timestamp. It also waits for the next tick of the clock, so that no change
// after the baseline has the timestamp of one before it.
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

// probeIn creates a file, changes it in ways that a filesystem may fail to
// record, and removes it.
func probeIn(dir string) error {
	path := filepath.Join(dir, ".hostler-"+rand.Text())
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if errors.Is(err, os.ErrPermission) || errors.Is(err, unix.EROFS) {
		return nil // a tenant cannot do so either: it is the same user or a less privileged one
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
			return fmt.Errorf("%w: probe the root filesystem: %w", runtime.ErrWipeUnverified, err)
		}
		if !noted {
			return errUnreliableCtime
		}
	}
	return nil
}

// updatesCtime reports whether a change of a file updates its change time.
func updatesCtime(f *os.File, change func(*os.File) error) (bool, error) {
	var before, after unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &before); err != nil {
		return false, err
	}
	<-time.After(clockGranularity)
	err := change(f)
	if errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.ENODEV) {
		return true, nil // an unsupported change needs no timestamp
	}
	if err != nil {
		return false, err
	}
	err = unix.Fstat(int(f.Fd()), &after)
	return before.Ctim != after.Ctim, err
}

// writeMapped writes through a mapping that it has read from before.
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
