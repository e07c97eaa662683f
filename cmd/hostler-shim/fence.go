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

// admit refuses a number that is smaller than an earlier one. It writes a
// greater one to disk before it uses it.
func (f *fence) admit(number int64) error {
	switch {
	case number < f.current:
		return fmt.Errorf("%w: its fence is %d, got %d", runtime.ErrStaleFence, f.current, number)
	case number == f.current:
		return nil
	}
	if f.path != "" {
		if err := writeDurably(f.path, strconv.AppendInt(nil, number, 10)); err != nil {
			return fmt.Errorf("write the fence: %w", err)
		}
	}
	f.current = number
	return nil
}

// checkFence refuses a command or a copy with a smaller fence than an earlier
// change had. It does not record a greater one: that would cost each first
// command of a flow two writes to the disk. A command that exists when a change
// begins is killed by it.
func (s *supervisor) checkFence(number int64) error {
	if current := s.admitted.Load(); number != shim.NoFence && number < current {
		return fmt.Errorf("%w: its fence is %d, got %d", runtime.ErrStaleFence, current, number)
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
