//go:build unix

package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
)

// lockFile locks the file until the returned file is closed, so that two
// servers never write one database. The kernel releases the lock when the
// process ends, however it ends.
func lockFile(path string) (io.Closer, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock file: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		owner, _ := io.ReadAll(io.LimitReader(f, 32)) // only for the error text
		return nil, errors.Join(fmt.Errorf("%w: %s is held by process %s", ErrInUse, path,
			strings.TrimSpace(string(owner))), f.Close())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	// The process id is only for the error above: failing to write it is
	// harmless.
	if f.Truncate(0) == nil {
		_, _ = fmt.Fprintln(f, os.Getpid())
	}
	return lockedFile{f}, nil
}

// lockedFile is a file with a lock. Its close also unlocks it: a child that this
// process forks at that moment has the descriptor until it executes its program,
// and would hold the lock for as long.
type lockedFile struct{ *os.File }

func (f lockedFile) Close() error {
	return errors.Join(syscall.Flock(int(f.Fd()), syscall.LOCK_UN), f.File.Close())
}
