package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
	"golang.org/x/sys/unix"
)

// fence is the greatest number that a change of this container has carried. To
// change it, the caller must hold supervisor.changeSem.
type fence struct {
	path    string // empty if the fence is kept in memory only
	current int64
}

// openFence reads the fence that an earlier init has written. A file that
// cannot be read is an error: without the number, init could not refuse an
// older server.
func openFence(path string) (fence, error) {
	f := fence{path: path}
	if path == "" {
		return f, nil
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err == nil {
		f.current, err = strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	}
	if err != nil {
		return f, fmt.Errorf("read the fence: %w", err)
	}
	return f, nil
}

// admit refuses a number that is smaller than an earlier one, and that of no
// flow. It writes a greater one to disk before it uses it.
func (f *fence) admit(number int64) error {
	switch {
	case number < f.current || number <= shim.NoFence:
		return staleError(f.current, number)
	case number == f.current:
		return nil
	}
	if f.path != "" {
		if err := writeFence(f.path, number); err != nil {
			return fmt.Errorf("write the fence: %w", err)
		}
	}
	f.current = number
	return nil
}

// writeFence replaces the file. If there is no space for another one, it
// overwrites the file, which has its space: a tenant's files must not prevent the
// stop of their container.
func writeFence(path string, number int64) error {
	content := fenceText(number)
	err := writeDurably(path, content)
	if err == nil {
		return nil
	}
	f, openErr := os.OpenFile(path, os.O_WRONLY|unix.O_NOFOLLOW, 0)
	if openErr != nil {
		return err
	}
	if _, writeErr := f.WriteAt(content, 0); writeErr == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// fenceText returns the content of a fence's file. Its length is always the same,
// so that a file is overwritten as a whole.
func fenceText(number int64) []byte { return fmt.Appendf(nil, "%-19d\n", number) }

func staleError(current, number int64) error {
	return fmt.Errorf("%w: its fence is %d, got %d", runtime.ErrStaleFence, current, number)
}

// admitChange refuses a change with a smaller fence than an earlier request had.
// The caller holds changeSem.
func (s *supervisor) admitChange(number int64) error {
	if err := s.fence.admit(number); err != nil {
		return err
	}
	return s.admit(number) // that of a command may be greater
}

// admit refuses a command or a copy with a smaller fence than an earlier request
// had. It keeps a greater one in memory only: to record it would cost each first
// command of a flow two writes to the disk. A command that exists when a change
// begins is killed by it.
func (s *supervisor) admit(number int64) error {
	for number != shim.NoFence {
		current := s.admitted.Load()
		if number < current {
			return staleError(current, number)
		}
		if s.admitted.CompareAndSwap(current, number) {
			break
		}
	}
	return nil
}

// writeDurably replaces a file atomically and syncs it.
func writeDurably(path string, content []byte) error {
	if err := os.Remove(path + ".new"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// A new file: one that a tenant has put there keeps its owner, its
	// attributes and its other names.
	next, err := os.OpenFile(path+".new", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = next.Write(content)
	if err == nil {
		err = next.Sync()
	}
	if err = errors.Join(err, next.Close()); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
